"""Houses without kernels and walls of their own: everything above them is the real thing."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from cellhouse import ExecuteCodeRequest, House
from cellhouse.environments import Environment, KernelSpec, Survey, Use
from cellhouse.model import Event, ExecuteCodeResult, Isolation, LimitReport, RuntimeSpec
from cellhouse.runtime import ExecutionHandle, Settings, in_process, offer
from cellhouse.runtime.nursery import FAILURES, Nursery
from cellhouse.sandbox import SandboxLoss, SandboxSpec
from tests.runtime.kernels import FakeKernel, FakeLauncher

SECONDS = 20.0
"""After which a test that waits for something has failed."""

T = TypeVar("T")


async def within(awaitable: Awaitable[T]) -> T:
    async with asyncio.timeout(SECONDS):
        return await awaitable


async def until(condition: Callable[[], object]) -> None:
    """Wait for what nobody tells of."""
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.002)


async def quiet(house: House) -> None:
    """Wait until what the runtimes of a house do by themselves is done: zygotes, and sessions that are forked ahead."""
    for host in house._runtimes.hosts.values():
        native = getattr(host, "_native", None)
        if native is not None and (nursery := native._nursery) is not None:
            await until(partial(_is_quiet, nursery))


def _is_quiet(nursery: Nursery) -> bool:
    zygote = nursery._zygote
    return (
        zygote is not None and zygote.settled.is_set() and len(nursery._spares) == nursery._wanted
    ) or nursery._failures >= FAILURES


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> datetime:
        return datetime(2031, 1, 1, tzinfo=UTC) + timedelta(seconds=self.time)

    def monotonic(self) -> float:
        return self.time


class FakeSandbox:
    """Walls that keep nothing in: there is nothing in them."""

    level = "fake"
    report = Isolation(level="fake")
    limits: tuple[LimitReport, ...] = ()

    def __init__(self, spec: SandboxSpec) -> None:
        self.content = spec.state / "content"
        self.runtime_dir = spec.state / "run"
        self.lost: asyncio.Future[SandboxLoss] = asyncio.get_running_loop().create_future()
        self.closed = False
        self.closing = asyncio.Event()
        self.may_close = asyncio.Event()
        self.may_close.set()

    def inside_path(self, host: Path) -> str:
        return str(host)

    async def start(self) -> None:
        self.content.mkdir(mode=0o700)

    async def close(self) -> None:
        self.closing.set()
        await self.may_close.wait()
        self.closed = True
        self.lost.cancel()


def kernel_spec(name: str, language: str) -> KernelSpec:
    return KernelSpec(name, ("python", "{connection_file}"), Path("/nowhere"), language=language)


ENVIRONMENT = Environment(
    "default",
    Path("/nowhere"),
    Path("/nowhere/bin/python"),
    (),
    {"python3": kernel_spec("python3", "python"), "other": kernel_spec("other", "other")},
)


@dataclass
class FakeWorld:
    """What the houses of a test are made with instead of processes."""

    sandboxes: list[FakeSandbox] = field(default_factory=list)
    launchers: list[FakeLauncher] = field(default_factory=list)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(in_process, "create_sandbox", self._sandbox)
        patch.setattr(offer, "create_sandbox", self._sandbox)
        patch.setattr(offer, "survey", lambda search: Survey((ENVIRONMENT,), {}))
        patch.setattr(offer, "list_environments", lambda search: [ENVIRONMENT])
        patch.setattr(in_process, "KernelLauncher", self._launcher)
        patch.setattr("cellhouse.runtime.runtimes.find_environment", lambda name, search: ENVIRONMENT)
        # Its prefix is nowhere, and is not going to be removed.
        patch.setattr(Use, "of", lambda environment: Use(-1))

    def _sandbox(self, level: str, spec: SandboxSpec, *_: object) -> FakeSandbox:
        self.sandboxes.append(FakeSandbox(spec))
        return self.sandboxes[-1]

    def _launcher(self, sandbox: FakeSandbox, *_: object, **__: object) -> FakeLauncher:
        self.launchers.append(FakeLauncher(sandbox.content))
        return self.launchers[-1]


class Place:
    """One runtime of a house, and short words for what tests do in it."""

    def __init__(self, house: House, runtime: str, world: FakeWorld) -> None:
        self.house = house
        self.runtime = runtime
        self.launcher = world.launchers[-1]
        self.sandbox = world.sandboxes[-1]

    @property
    def kernel(self) -> FakeKernel:
        return self.launcher.kernel

    def session(self, name: str = "main") -> str:
        return f"{self.runtime}/sessions/{name}"

    async def start(self, code: str, session: str = "main", **options: Any) -> ExecutionHandle:
        """Hand code in."""
        return await self.house.execute(
            ExecuteCodeRequest(code=code, session=self.session(session), **options)
        )

    async def run(self, code: str, session: str = "main", **options: Any) -> ExecuteCodeResult:
        """Hand code in, and its result."""
        return await within(await self.start(code, session, **options))

    async def running(self, code: str, session: str = "main", **options: Any) -> ExecutionHandle:
        """Hand code in, and return once the kernel runs it."""
        handle = await self.start(code, session, **options)
        await event_of(handle, "started")
        return handle


async def new_place(house: House, world: FakeWorld, **spec: Any) -> Place:
    runtime = await house.create_runtime(RuntimeSpec(**spec))
    return Place(house, runtime.name, world)


def settings(directory: Path, **changes: Any) -> Settings:
    return Settings(**{"state_dir": directory, **changes})


async def event_of(handle: ExecutionHandle, kind: str, *, after: int = 0) -> Event:
    """The first event of a kind, once there is one."""
    async with asyncio.timeout(SECONDS):
        async for event in handle.events(after=after, late=kind == "late"):
            if event.type == kind:
                return event
    raise AssertionError(f"{handle.name} ended without {kind!r}")


async def events_of(handle: ExecutionHandle) -> list[Event]:
    """All events up to `finished`."""
    async with asyncio.timeout(SECONDS):
        return [event async for event in handle.events()]


def notices(result: ExecuteCodeResult) -> list[str]:
    return [notice.reason for notice in result.notices or ()]


def reason(result: ExecuteCodeResult) -> str:
    assert result.outcome_info is not None
    return result.outcome_info.reason


def metadata(result: ExecuteCodeResult) -> Mapping[str, str]:
    assert result.outcome_info is not None
    return result.outcome_info.metadata


def kinds(events: Sequence[Event]) -> list[str]:
    return [event.type for event in events]
