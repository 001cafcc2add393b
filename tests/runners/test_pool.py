"""Sessions by key: shared starts, room for so many, ends that are bounded and told."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cellhouse.model import CallReason, CellhouseError, FailedPrecondition, InvalidArgument, ResourceExhausted
from cellhouse.runners import Eviction, EvictionReason, PoolLimits, pool as room
from cellhouse.runners.pool import Pool
from tests.runtime.support import Clock, until, within


class FakeSession:
    def __init__(self, key: str) -> None:
        self.key = key
        self.told: list[str] = []
        self.why = ""
        self.ended = 0
        self.may_end = asyncio.Event()
        self.may_end.set()

    def tell(self, text: str) -> None:
        self.told.append(text)

    def gone(self, why: str) -> None:
        self.why = why

    async def end(self) -> None:
        await self.may_end.wait()
        self.ended += 1


class World:
    """A pool of fake sessions, a clock that is moved, and what was told of evictions."""

    def __init__(self, **limits: Any) -> None:
        self.clock = Clock()
        self.opened: list[FakeSession] = []
        self.evictions: list[Eviction] = []
        self.may_open = asyncio.Event()
        self.may_open.set()
        self.fails: BaseException | None = None
        self.pool = Pool(self.open, PoolLimits(**limits), clock=self.clock, on_evict=self.evictions.append)

    async def open(self, key: str) -> FakeSession:
        await self.may_open.wait()
        if self.fails is not None:
            raise self.fails
        self.opened.append(FakeSession(key))
        return self.opened[-1]


@pytest.fixture
async def place() -> AsyncIterator[World]:
    made = World(max_sessions=2, idle_seconds=100.0, teardown_seconds=0.05)
    yield made
    await made.pool.close()


async def test_first_calls_at_the_same_time_share_one_start(place: World) -> None:
    place.may_open.clear()
    calls = [asyncio.ensure_future(place.pool.start("a")) for _ in range(5)]
    await until(lambda: len(place.pool) == 1)
    place.may_open.set()
    sessions = await within(asyncio.gather(*calls))
    assert len(place.opened) == 1
    assert all(session is place.opened[0] for session in sessions)


async def test_a_caller_that_goes_away_takes_the_start_from_nobody(place: World) -> None:
    place.may_open.clear()
    first = asyncio.ensure_future(place.pool.start("a"))
    second = asyncio.ensure_future(place.pool.start("a"))
    await until(lambda: len(place.pool) == 1)
    first.cancel()
    place.may_open.set()
    assert await within(second) is place.opened[0]
    assert first.cancelled() or first.cancelling()


async def test_a_start_that_fails_is_told_to_all_and_tried_again_by_the_next(place: World) -> None:
    place.fails = FailedPrecondition("no walls", reason=CallReason.ISOLATION_UNAVAILABLE)
    results = await asyncio.gather(*(place.pool.start("a") for _ in range(3)), return_exceptions=True)
    assert results == [place.fails] * 3
    await until(lambda: len(place.pool) == 0)
    place.fails = None
    assert (await place.pool.start("a")).key == "a"


async def test_the_session_used_least_lately_makes_room(place: World) -> None:
    a, b = await place.pool.start("a"), await place.pool.start("b")
    place.clock.time += 5
    assert await place.pool.start("a") is a
    place.clock.time += 5
    await place.pool.start("c")
    assert (a.ended, b.ended) == (0, 1)
    assert [(each.key, each.reason, each.idle_seconds) for each in place.evictions] == [
        ("b", EvictionReason.LEAST_RECENTLY_USED, 10.0)
    ]
    assert "evicted (LEAST_RECENTLY_USED" in b.why


async def test_busy_sessions_are_never_evicted(place: World) -> None:
    a, b = await place.pool.start("a"), await place.pool.start("b")
    uses = [place.pool.begin_use("a", a), place.pool.begin_use("b", b)]
    with pytest.raises(ResourceExhausted, match="all 2 sessions are busy") as refused:
        await place.pool.start("c")
    assert refused.value.metadata["limit"] == "max_sessions"
    place.clock.time += 1_000
    await place.pool.evict_idle()
    assert place.evictions == []
    for use in uses:
        assert use is not None
        place.pool.end_use(use)
    assert (await place.pool.start("c")).key == "c"


async def test_an_idle_session_is_evicted_and_the_next_one_says_so_once(place: World) -> None:
    session = await place.pool.start("a")
    place.clock.time += 99
    await place.pool.evict_idle()
    assert place.evictions == []
    place.clock.time += 1
    await place.pool.evict_idle()
    assert [each.reason for each in place.evictions] == [EvictionReason.IDLE]
    assert session.ended == 1
    again = await place.pool.start("a")
    assert again is not session
    assert len(again.told) == 1
    assert "was evicted (IDLE" in again.told[0]
    await place.pool.stop("a", again)
    assert (await place.pool.start("a")).told == []


async def test_a_pool_evicts_by_itself() -> None:
    evicted = asyncio.Event()

    async def open_session(key: str) -> FakeSession:
        return FakeSession(key)

    pool = Pool(open_session, PoolLimits(idle_seconds=0.02), on_evict=lambda eviction: evicted.set())
    await pool.start("a")
    await within(evicted.wait())
    await pool.close()


async def test_too_many_evictions_to_remember_are_told_to_all_who_come_after(
    place: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "REMEMBERED", 2)
    for key in ("a", "b", "c"):
        session = await place.pool.start(key)
        place.pool.lost(key, session, "for the test")
    assert "evicted before" in (await place.pool.start("a")).told[0]
    assert "was evicted (LOST" in (await place.pool.start("b")).told[0]


async def test_stopping_is_done_once_and_waited_for_by_all(place: World) -> None:
    session = await place.pool.start("a")
    session.may_end.clear()
    stops = [asyncio.ensure_future(place.pool.stop("a", session)) for _ in range(3)]
    await until(lambda: session.why)
    assert place.pool.begin_use("a", session) is None
    session.may_end.set()
    await within(asyncio.gather(*stops))
    await place.pool.stop("a", session)
    await place.pool.stop_key("a")
    assert session.ended == 1
    assert session.why == "it was stopped"


async def test_an_end_that_hangs_holds_up_nobody(place: World, caplog: pytest.LogCaptureFixture) -> None:
    a = await place.pool.start("a")
    a.may_end.clear()
    await within(place.pool.stop("a", a))
    assert "did not end in time" in caplog.text
    assert (await place.pool.start("a")) is not a


async def test_closing_ends_all_and_whoever_waits_for_a_start_is_told(place: World) -> None:
    a = await place.pool.start("a")
    place.may_open.clear()
    waiting = asyncio.ensure_future(place.pool.start("b"))
    await until(lambda: len(place.pool) == 2)
    await within(place.pool.close())
    with pytest.raises(FailedPrecondition, match="closed"):
        await waiting
    assert a.ended == 1
    with pytest.raises(FailedPrecondition, match="closed"):
        await place.pool.start("c")
    await place.pool.close()


async def test_a_hook_that_raises_takes_nothing_with_it(caplog: pytest.LogCaptureFixture) -> None:
    def hook(eviction: Eviction) -> None:
        raise RuntimeError("mine")

    async def open_session(key: str) -> FakeSession:
        return FakeSession(key)

    pool = Pool(open_session, PoolLimits(max_sessions=1), on_evict=hook)
    await pool.start("a")
    await pool.start("b")
    assert "on_evict raised" in caplog.text
    await pool.close()


@pytest.mark.parametrize("key", ["", "x" * 1_025, "\ud800", 5, None])
async def test_what_is_no_key_is_refused(place: World, key: Any) -> None:
    with pytest.raises(InvalidArgument, match="key"):
        await place.pool.start(key)
    assert place.opened == []


@pytest.mark.parametrize("limits", [{"max_sessions": 0}, {"idle_seconds": -1}, {"max_sessions": 1.5}])
def test_what_is_no_limit_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(CellhouseError, match=next(iter(limits))):
        PoolLimits(**limits)
