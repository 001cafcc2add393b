"""Tenants: each has a house of its own, so that nothing of another's can be seen, guessed or inferred."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cellhouse.doors.callers import LOCAL_TENANT, Caller
from cellhouse.doors.executions import Executions
from cellhouse.doors.limits import DoorLimits
from cellhouse.keepers import AnyHouse, open_direct
from cellhouse.keepers.place import has_living
from cellhouse.model import CallReason, ExecuteCodeRequest, ResourceExhausted, Unavailable, check_id
from cellhouse.runtime import ExecutionHandle, Settings

TENANTS_DIR = "tenants"

HouseOpener = Callable[[Settings], Awaitable[AnyHouse]]
"""Opens the house of a state directory: with its runtimes in this process, or each in a keeper."""


class Tenant:
    """One tenant's house, and what its callers take up of the door at this moment."""

    def __init__(
        self,
        house: AnyHouse,
        limits: DoorLimits,
        executions: Executions,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.house = house
        self._executions = executions
        self.requests = 0
        self.streams = 0
        self.body_bytes = 0
        self._limits, self._now = limits, now
        self._tokens, self._filled = float(limits.burst), now()

    def check_rate(self) -> None:
        """Counts a request. RATE_EXCEEDED where there have been too many."""
        now = self._now()
        rate = self._limits.requests_per_second
        self._tokens = min(self._limits.burst, self._tokens + (now - self._filled) * rate)
        self._filled = now
        if self._tokens < 1:
            raise ResourceExhausted(
                f"more than {rate:g} requests a second, which is the limit (requests_per_second); wait a moment",
                reason=CallReason.RATE_EXCEEDED,
                limit="requests_per_second",
            )
        self._tokens -= 1

    async def execute(self, request: ExecuteCodeRequest, caller: Caller) -> ExecutionHandle:
        """Accept code, and see it through to its end, whoever stays to hear of it."""
        since = time.time()
        handle = await self.house.execute(request)
        self._executions.accepted(handle, request, caller, since)
        return handle

    @contextmanager
    def request(self) -> Iterator[None]:
        """While a request is being answered."""
        if self.requests >= self._limits.max_requests:
            raise _too_much(
                "max_requests",
                f"{self.requests} requests are being answered, which is the limit (max_requests); wait for some to end",
            )
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1

    @contextmanager
    def body(self) -> Iterator[Callable[[int], None]]:
        """While a JSON body is being read; to be told the bytes of each piece. QUOTA_EXCEEDED where there are too many at once."""
        mine = 0

        def take(size: int) -> None:
            nonlocal mine
            if self.body_bytes + size > self._limits.bodies_bytes:
                raise _too_much(
                    "bodies_bytes",
                    f"the bodies that are being read have {self._limits.bodies_bytes} bytes together, which is the limit "
                    "(bodies_bytes); wait for some to end",
                )
            mine += size
            self.body_bytes += size

        try:
            yield take
        finally:
            self.body_bytes -= mine

    def open_stream(self) -> "StreamSlot":
        """A place for one more stream, to be given back."""
        if self.streams >= self._limits.max_streams:
            raise _too_much(
                "max_streams",
                f"{self.streams} streams are open, which is the limit (max_streams); close some",
            )
        return StreamSlot(self)


def _too_much(limit: str, text: str) -> ResourceExhausted:
    return ResourceExhausted(text, reason=CallReason.QUOTA_EXCEEDED, limit=limit)


class StreamSlot:
    """The place of one open stream."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant: Tenant | None = tenant
        tenant.streams += 1

    def close(self) -> None:
        """Give it back; again does nothing."""
        tenant, self._tenant = self._tenant, None
        if tenant is not None:
            tenant.streams -= 1


class Tenants:
    """Opens the house of each tenant when it is first asked for, below one state directory."""

    def __init__(self, settings: Settings, limits: DoorLimits, open_house: HouseOpener = open_direct) -> None:
        self._settings, self._limits, self._open_house = settings, limits, open_house
        self.executions = Executions()
        self._tenants: dict[str, asyncio.Future[Tenant]] = {}
        self._draining = False

    @property
    def open(self) -> list[Tenant]:
        """Those whose house is open."""
        return [
            known.result()
            for known in self._tenants.values()
            if known.done() and not known.cancelled() and known.exception() is None
        ]

    @property
    def draining(self) -> bool:
        return self._draining

    async def get(self, tenant: str) -> Tenant:
        """The tenant of this id. Only for ids that an Authenticator gave: each gets a house."""
        known = self._tenants.get(tenant)
        if known is None:
            if self._draining:
                raise Unavailable(
                    "the service is about to stop; try again when it is back", reason=CallReason.SHUTTING_DOWN
                )
            known = self._tenants[tenant] = asyncio.ensure_future(self._open(tenant))
            known.add_done_callback(lambda done: self._opened(tenant, done))
        return known.result() if known.done() else await asyncio.shield(known)

    def _opened(self, tenant: str, done: asyncio.Future[Tenant]) -> None:
        if done.cancelled() or done.exception() is not None:
            del self._tenants[tenant]  # whoever asks next tries again

    async def _open(self, tenant: str) -> Tenant:
        house = await self._open_house(replace(self._settings, state_dir=self._place(tenant), tenant=tenant))
        return Tenant(house, self._limits, self.executions)

    async def find(self) -> None:
        """Open the houses whose runtimes have outlived the service before this one: they are ours to end, too."""
        for tenant in await asyncio.to_thread(self._with_keepers):
            await self.get(tenant)

    def _with_keepers(self) -> list[str]:
        below = self._settings.state_dir / TENANTS_DIR
        tenants = [path.name for path in below.iterdir()] if below.is_dir() else []
        return [name for name in (LOCAL_TENANT, *sorted(tenants)) if has_living(self._place(name))]

    def _place(self, tenant: str) -> Path:
        root = self._settings.state_dir
        return root if tenant == LOCAL_TENANT else root / TENANTS_DIR / check_id(tenant, "tenant")

    async def drain(self, *, seconds: float, grace: float) -> None:
        """Take nothing new anywhere, let what runs end, then interrupt it."""
        self._draining = True
        await asyncio.gather(*(tenant.house.drain(seconds=seconds, grace=grace) for tenant in self.open))

    async def leave(self) -> None:
        """Let go of every runtime that goes on without us; the others are left to `close`."""
        self._draining = True
        await asyncio.gather(*(tenant.house.leave() for tenant in self.open))

    async def close(self) -> None:
        """Close every house. Raises what went wrong with one, when all have been closed."""
        self._draining = True
        opening = [known for known in self._tenants.values() if not known.done()]
        if opening:
            await asyncio.wait(opening)
        closed = await asyncio.gather(*(tenant.house.close() for tenant in self.open), return_exceptions=True)
        await self.executions.close()
        for error in closed:
            if error is not None:
                raise error
