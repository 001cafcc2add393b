"""What nobody uses is closed, when `expireTime` said that it would be, and not before."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from cellhouse import House
from cellhouse.model import (
    CallReason,
    ExecutionState,
    NotFound,
    NoticeReason,
    Outcome,
    SessionLimits,
    SystemClock,
    rfc3339,
)
from tests.runtime.kernels import FakeKernel
from tests.runtime.support import Clock, FakeWorld, Place, new_place, notices, settings, until, within

IDLE = 0.3


async def closed(place: Place) -> str:
    """When the runtime had closed."""
    await within(place.sandbox.closing.wait())
    return rfc3339(SystemClock().now())


async def test_an_idle_runtime_is_closed_when_it_said(house: House, fakes: FakeWorld) -> None:
    place = await new_place(house, fakes, idle_seconds=IDLE)
    result = await place.run("print x")
    announced = house.get_runtime(place.runtime).expire_time
    assert announced is not None
    assert await closed(place) >= announced >= (result.end_time or "")
    await until(lambda: not house.list_runtimes())
    with pytest.raises(NotFound) as gone:
        house.get_runtime(place.runtime)
    assert gone.value.reason == CallReason.RUNTIME_DELETED
    # The record and the files stay.
    assert await house.get_execution(result.execution) == result
    house.open_content(place.runtime).close()


async def test_it_is_not_closed_while_something_runs(house: House, fakes: FakeWorld) -> None:
    place = await new_place(house, fakes, idle_seconds=IDLE)
    handle = await place.running("hold")
    over = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(2 * IDLE, over.set_result, None)
    await over
    assert (await handle.snapshot()).state is ExecutionState.RUNNING
    assert house.get_runtime(place.runtime).expire_time is not None
    place.kernel.release.set()
    assert (await within(handle)).outcome is Outcome.OK
    await closed(place)


async def test_an_idle_session_is_closed_and_its_runtime_stays(house: House, fakes: FakeWorld) -> None:
    place = await new_place(house, fakes, idle_seconds=IDLE)
    busy = await place.running("hold", "busy")
    await place.run("set x 1", "idle")
    announced = house.get_session(place.session("idle")).expire_time
    await until(lambda: [s.name for s in house.list_sessions(place.runtime)] == [place.session("busy")])
    assert rfc3339(SystemClock().now()) >= (announced or "")
    await until(lambda: place.launcher.made[1].closed)
    # Whoever comes back is told, and does not take the empty namespace for its own.
    again = await place.run("get x", "idle")
    assert again.execution_error is not None
    assert notices(again) == [NoticeReason.FRESH_KERNEL]
    place.launcher.made[0].release.set()
    assert (await within(busy)).outcome is Outcome.OK


async def test_who_comes_while_it_is_closed_gets_a_new_one(
    house: House, fakes: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await new_place(house, fakes, idle_seconds=IDLE)
    busy = await place.running("hold", "busy")
    closing, may_close = asyncio.Event(), asyncio.Event()
    close = FakeKernel.close

    async def slowly(self: FakeKernel) -> None:
        if self.number == 2:
            closing.set()
            await may_close.wait()
        await close(self)

    monkeypatch.setattr(FakeKernel, "close", slowly)
    await place.run("set x 1", "idle")
    try:
        await within(closing.wait())
        again = await place.run("get x", "idle")
        assert again.outcome is Outcome.ERROR
        assert notices(again) == [NoticeReason.FRESH_KERNEL]
        # A runtime that is deleted meanwhile waits for the old one, too.
        deletion = asyncio.ensure_future(house.delete_runtime(place.runtime))
        assert (await within(busy)).outcome is Outcome.SESSION_DELETED
        assert not deletion.done()
    finally:
        may_close.set()
    await within(deletion)
    assert all(kernel.closed for kernel in place.launcher.made)


async def test_keep_alive_puts_it_off(fakes: FakeWorld, tmp_path: Path) -> None:
    clock = Clock()
    limits = SessionLimits(idle_seconds=1_800)
    async with House(settings=settings(tmp_path, session=limits), clock=clock) as house:
        place = await new_place(house, fakes)
        await place.run("print x")

        def left() -> tuple[timedelta, timedelta]:
            runtime = house.get_runtime(place.runtime).expire_time
            session = house.get_session(place.session()).expire_time
            assert runtime is not None
            assert session is not None
            now = clock.now()
            return datetime.fromisoformat(runtime) - now, datetime.fromisoformat(session) - now

        assert left() == (timedelta(minutes=30), timedelta(minutes=30))
        clock.time += 600
        assert left() == (timedelta(minutes=20), timedelta(minutes=20))
        kept = await house.keep_alive(place.runtime)
        assert left() == (timedelta(minutes=30), timedelta(minutes=30))
        assert kept.expire_time == house.get_runtime(place.runtime).expire_time
        clock.time += 600
        await place.run("print x")
        assert left() == (timedelta(minutes=30), timedelta(minutes=30))
        clock.time += 600
        handle = await place.running("hold")
        clock.time += 600
        assert left() == (timedelta(minutes=30), timedelta(minutes=30))
        place.kernel.release.set()
        await within(handle)


async def test_a_limit_of_its_own(fakes: FakeWorld, tmp_path: Path) -> None:
    clock = Clock()
    async with House(settings=settings(tmp_path), clock=clock) as house:
        place = await new_place(house, fakes, idle_seconds=60.0)
        expires = house.get_runtime(place.runtime).expire_time
        assert expires == rfc3339(clock.now() + timedelta(seconds=60))
