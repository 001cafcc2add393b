"""Sessions by key: one start for all who ask at once, a bounded number, an end for each that is told."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Generic, Protocol, TypeVar

from cellhouse.model import (
    CallReason,
    Clock,
    FailedPrecondition,
    InvalidArgument,
    ResourceExhausted,
    SystemClock,
)
from cellhouse.runners.base import check_key
from cellhouse.runtime.logs import logger

REMEMBERED: Final = 10_000
"""Keys whose session was evicted, remembered until the next start says so."""

_logger = logger()


class EvictionReason(StrEnum):
    """Why a session ended that nobody had stopped."""

    IDLE = "IDLE"
    LEAST_RECENTLY_USED = "LEAST_RECENTLY_USED"
    LOST = "LOST"


@dataclass(frozen=True, slots=True)
class Eviction:
    """That a session was ended without being asked to, or was found to have ended."""

    key: str
    reason: EvictionReason
    # Seconds since it was last used.
    idle_seconds: float
    detail: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """How many sessions there may be, how long an unused one lasts (seconds), how long an end may take (seconds)."""

    max_sessions: int = 16
    idle_seconds: float = 1_800.0
    teardown_seconds: float = 10.0

    def __post_init__(self) -> None:
        for name in ("max_sessions", "idle_seconds", "teardown_seconds"):
            value = getattr(self, name)
            whole = name != "max_sessions" or isinstance(value, int)
            if isinstance(value, bool) or not isinstance(value, int | float) or not whole or not value > 0:
                raise InvalidArgument.of_field(name, f"{value!r} is no limit; it takes a number above 0")


class Pooled(Protocol):
    """A session as the pool has it."""

    def tell(self, text: str) -> None:
        """What its first result has to say of the session before it."""

    def gone(self, why: str) -> None:
        """From now on it refuses what is asked of it, in these words."""

    async def end(self) -> None:
        """End it, and what runs in it."""


S = TypeVar("S", bound=Pooled)


@dataclass(slots=True, eq=False)
class Place(Generic[S]):
    """One key's session, from the moment that somebody asks for it. `busy` counts who waits for it or uses it."""

    key: str
    starting: asyncio.Task[S]
    used: float
    busy: int = 0

    @property
    def session(self) -> S | None:
        """None while it starts, and where it could not."""
        done = self.starting.done() and not self.starting.cancelled()
        return self.starting.result() if done and self.starting.exception() is None else None


@dataclass(slots=True)
class _Memory:
    """Evictions that the next start of their key has to tell of."""

    evictions: OrderedDict[str, Eviction] = field(default_factory=OrderedDict)
    overflowed: bool = False

    def add(self, eviction: Eviction) -> None:
        self.evictions[eviction.key] = eviction
        while len(self.evictions) > REMEMBERED:
            self.evictions.popitem(last=False)
            self.overflowed = True

    def told(self, key: str) -> str | None:
        """What the first result of a new session of this key has to say, once."""
        if (eviction := self.evictions.pop(key, None)) is not None:
            return f"the session before this one was evicted ({eviction}); its variables and files are gone"
        if self.overflowed:
            return (
                f"a session of this key may have been evicted before: only the last {REMEMBERED} evictions "
                "are remembered; this session is new"
            )
        return None


class Pool(Generic[S]):
    """The sessions of one runner, made by `open_session` from their key."""

    def __init__(
        self,
        open_session: Callable[[str], Awaitable[S]],
        limits: PoolLimits,
        *,
        clock: Clock | None = None,
        on_evict: Callable[[Eviction], None] | None = None,
    ) -> None:
        self._open_session, self._limits, self._on_evict = open_session, limits, on_evict
        self._clock = clock or SystemClock()
        # Those used least lately first.
        self._places: OrderedDict[str, Place[S]] = OrderedDict()
        self._memory = _Memory()
        self._ends: dict[S, asyncio.Task[None]] = {}
        self._watch: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._places)

    async def start(self, key: str) -> S:
        """See `CodeRunner.start`."""
        check_key(key)
        if self._closed:
            raise _closed()
        place = self._places.get(key)
        if place is None:
            place = self._begin(key)
        place.busy += 1
        try:
            # Whoever stops waiting takes the start from nobody else.
            return await asyncio.shield(place.starting)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if place.starting.cancelled() and task is not None and not task.cancelling():
                raise _closed() from None
            raise
        finally:
            self.end_use(place)

    def _begin(self, key: str) -> Place[S]:
        room = self._make_room()
        starting = asyncio.get_running_loop().create_task(self._start_once(key, room), name="start session")
        place = self._places[key] = Place(key, starting, self._clock.monotonic())

        def started(_: asyncio.Task[S]) -> None:
            if place.session is None and self._places.get(key) is place:
                del self._places[key]  # the next one who asks tries again

        starting.add_done_callback(started)
        if self._watch is None:
            self._watch = asyncio.get_running_loop().create_task(
                self._evict_the_idle(), name="evict sessions"
            )
        return place

    async def _start_once(self, key: str, room: asyncio.Task[None] | None) -> S:
        if room is not None:
            await asyncio.wait([room])
        session = await self._open_session(key)
        if (told := self._memory.told(key)) is not None:
            session.tell(told)
        return session

    def _make_room(self) -> asyncio.Task[None] | None:
        """Begin the end of the session that was used least lately, where there is no place for another."""
        if len(self._places) < self._limits.max_sessions:
            return None
        for place in self._places.values():
            if not place.busy and place.session is not None:
                why = f"there was no room for another (max_sessions {self._limits.max_sessions})"
                return self._evict(place, place.session, EvictionReason.LEAST_RECENTLY_USED, why)
        raise ResourceExhausted(
            f"all {len(self._places)} sessions are busy, which is as many as there may be (max_sessions); "
            "wait for one, stop one, or allow more",
            reason=CallReason.QUOTA_EXCEEDED,
            limit="max_sessions",
        )

    def begin_use(self, key: str, session: S) -> Place[S] | None:
        """That a call of this session begins, so that it is not evicted; None where it is not the key's any more."""
        place = self._places.get(key)
        if place is None or place.session is not session:
            return None
        place.busy += 1
        return place

    def end_use(self, place: Place[S]) -> None:
        """That it has ended: from now on it is idle."""
        place.busy -= 1
        place.used = self._clock.monotonic()
        if self._places.get(place.key) is place:
            self._places.move_to_end(place.key)
        self._changed.set()

    def lost(self, key: str, session: S, why: str) -> None:
        """That a session was found to be over."""
        place = self._places.get(key)
        if place is not None and place.session is session:
            self._evict(place, session, EvictionReason.LOST, why)

    async def stop(self, key: str, session: S) -> None:
        """End the session because somebody asked. Returns when it has ended, or `teardown_seconds` after."""
        place = self._places.get(key)
        if place is not None and place.session is session:
            self._end(place, session, "it was stopped")
        if (ending := self._ends.get(session)) is not None:
            await asyncio.wait([ending])

    async def stop_key(self, key: str) -> None:
        """The same with whatever session the key has, also where that is just being started."""
        place = self._places.get(check_key(key))
        if place is None:
            return
        await asyncio.wait([place.starting])
        if place.session is not None:
            await self.stop(key, place.session)

    def _evict(self, place: Place[S], session: S, reason: EvictionReason, why: str) -> asyncio.Task[None]:
        idle = max(0.0, self._clock.monotonic() - place.used)
        eviction = Eviction(place.key, reason, idle, why)
        self._memory.add(eviction)
        ending = self._end(place, session, f"it was evicted ({eviction})")
        _logger.warning("a session was evicted", reason=str(reason), idle_seconds=idle, detail=why)
        if self._on_evict is not None:
            try:
                self._on_evict(eviction)
            except Exception:
                _logger.exception("on_evict raised; the session was evicted all the same")
        return ending

    def _end(self, place: Place[S], session: S, why: str) -> asyncio.Task[None]:
        session.gone(why)
        self._places.pop(place.key, None)
        ending = asyncio.get_running_loop().create_task(self._end_within(session), name="end session")
        self._ends[session] = ending
        ending.add_done_callback(lambda _: self._ends.pop(session, None))
        return ending

    async def _end_within(self, session: S) -> None:
        """An end that takes too long is told of, and left to whatever the session is part of."""
        try:
            async with asyncio.timeout(self._limits.teardown_seconds):
                await session.end()
        except TimeoutError:
            _logger.error("a session did not end in time", teardown_seconds=self._limits.teardown_seconds)
        except Exception:
            _logger.exception("a session could not be ended")

    async def evict_idle(self) -> None:
        """End what has not been used for too long."""
        now, most = self._clock.monotonic(), self._limits.idle_seconds
        why = f"not used for {most:g} s (idle_seconds)"
        ends = [
            self._evict(place, place.session, EvictionReason.IDLE, why)
            for place in list(self._places.values())
            if not place.busy and place.session is not None and now - place.used >= most
        ]
        if ends:
            await asyncio.wait(ends)

    async def _evict_the_idle(self) -> None:
        while True:
            self._changed.clear()
            await self.evict_idle()
            idle = [place.used for place in self._places.values() if not place.busy]
            left = min(idle, default=0.0) + self._limits.idle_seconds - self._clock.monotonic()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.01, left) if idle else None):
                    await self._changed.wait()

    async def close(self) -> None:
        """End all, within twice `teardown_seconds`."""
        self._closed = True
        begun: list[asyncio.Task[Any]] = [place.starting for place in self._places.values()]
        if self._watch is not None:
            begun.append(self._watch)
            self._watch.cancel()
        for place in list(self._places.values()):
            if place.session is None:
                place.starting.cancel()
            else:
                self._end(place, place.session, "its runner was closed")
        if begun:
            await asyncio.wait(begun, timeout=self._limits.teardown_seconds)
        for place in list(self._places.values()):
            if place.session is not None:  # it started in the last moment
                self._end(place, place.session, "its runner was closed")
        if self._ends:
            await asyncio.wait(self._ends.values())


def _closed() -> FailedPrecondition:
    return FailedPrecondition("this runner is closed; make a new one", reason=CallReason.SHUTTING_DOWN)
