"""Failures of our own: what breaks in the house ends what it touches, says so, and stops nothing else."""

import asyncio
import errno

import pytest

from cellhouse import House
from cellhouse.journal import ExecutionLog
from cellhouse.model import (
    EndReason,
    Event,
    ExecuteCodeResult,
    FinishedEvent,
    Internal,
    NoticeReason,
    Outcome,
)
from cellhouse.runtime import ExecutionHandle
from cellhouse.runtime.files import ContentFiles
from cellhouse.runtime.late import LateRoutes
from cellhouse.runtime.run import Run
from tests.runtime.kernels import FakeKernel
from tests.runtime.support import Place, kinds, metadata, notices, reason, settings, within


def broken(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, "the disk is broken")


# Between executions


async def test_what_breaks_between_executions_costs_the_kernel_and_not_the_queue(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.run("set x 1")
    first = place.kernel
    with monkeypatch.context() as patch:
        failed = asyncio.Event()

        def fail(*_: object) -> None:
            failed.set()
            broken()

        patch.setattr(LateRoutes, "feed", fail)
        first.raw("late")
        await within(failed.wait())
    result = await place.run("get x")
    assert (result.outcome, notices(result)) == (Outcome.ERROR, [NoticeReason.FRESH_KERNEL])
    assert first.closed
    await within(place.house.restart(place.session()))
    assert (await place.run("print on")).stdout == "on\n"


async def test_a_kernel_that_cannot_be_closed_stops_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.run("set x 1")
    close = FakeKernel.close

    async def badly(self: FakeKernel) -> None:
        await close(self)
        broken()

    monkeypatch.setattr(FakeKernel, "close", badly)
    await within(place.house.restart(place.session()))
    assert notices(await place.run("print on")) == [NoticeReason.FRESH_KERNEL]
    await within(place.house.delete_session(place.session()))


# Ends that cannot be written


async def no_end_of(handle: ExecutionHandle) -> None:
    """Whoever asks is told so, with an id, and nobody waits for ever."""
    with pytest.raises(Internal) as told:
        await within(handle)
    assert told.value.error_id
    assert told.value.execution == str(handle.name)
    with pytest.raises(Internal):
        await handle.snapshot()
    for late in (False, True):
        with pytest.raises(Internal):
            await within(all_of(handle, late=late))


async def all_of(handle: ExecutionHandle, *, late: bool) -> list[Event]:
    return [event async for event in handle.events(late=late)]


@pytest.mark.parametrize("end", ["restart", "delete_session", "delete_runtime"])
async def test_ends_of_what_waits_that_cannot_be_written_hold_nothing_up(
    place: Place, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    running = await place.running("hold")
    waiting = [await place.start("print never"), await place.start("print never")]
    with monkeypatch.context() as patch:
        patch.setattr(ExecutionLog, "finish", broken)
        target = place.runtime if end == "delete_runtime" else place.session()
        await within(getattr(place.house, end)(target))
        for handle in (running, *waiting):
            await no_end_of(handle)
    await within(place.house.close())
    async with House(settings=settings(place.house.state_dir)) as house:
        assert (await house.get_execution(str(running.name))).outcome is Outcome.RUNTIME_LOST
        for handle in waiting:
            assert (await house.get_execution(str(handle.name))).outcome is Outcome.NEVER_STARTED


async def test_an_end_that_can_be_written_the_second_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.running("hold")
    waiting = await place.start("print never")
    finish = ExecutionLog.finish

    def once(self: ExecutionLog, result: ExecuteCodeResult) -> FinishedEvent:
        monkeypatch.setattr(ExecutionLog, "finish", finish)
        raise OSError(errno.EIO, "the disk was broken for a moment")

    monkeypatch.setattr(ExecutionLog, "finish", once)
    await within(place.house.delete_session(place.session()))
    result = await within(waiting)
    assert (result.outcome, reason(result)) == (Outcome.NEVER_STARTED, EndReason.SESSION_DELETED)


async def test_what_fails_before_the_code_is_sent_never_started(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Run, "__init__", broken)
        handle = await place.start("print never")
        result = await within(handle)
    assert (result.outcome, reason(result)) == (Outcome.NEVER_STARTED, EndReason.RUNTIME_LOST)
    assert metadata(result)["errorId"]
    assert kinds(await within(all_of(handle, late=True)))[-1] == "finished"
    assert notices(await place.run("print on")) == [NoticeReason.FRESH_KERNEL]


async def test_what_fails_before_the_code_is_sent_keeps_no_reader(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ContentFiles, "begin", broken)
        handle = await place.start("print never")
        await within(handle)
        assert kinds(await within(all_of(handle, late=True)))[-1] == "finished"


async def test_what_is_on_record_and_cannot_be_queued_has_an_end(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.run("print x")
    with monkeypatch.context() as patch:
        patch.setattr(ExecutionLog, "append", broken)
        handle = await place.start("print never", execution_id="one")
    result = await within(handle)
    assert (result.outcome, reason(result)) == (Outcome.NEVER_STARTED, EndReason.RUNTIME_LOST)
    assert metadata(result)["errorId"]
    repeated = await place.start("print never", execution_id="one")
    assert repeated.attached
    assert await within(repeated) == result
    assert kinds(await within(all_of(handle, late=True))) == ["finished"]
    assert notices(await place.run("print on")) == []


async def test_a_record_that_misses_an_event(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = await place.start("print x")
    await within(handle)
    monkeypatch.setattr(ExecutionLog, "read", lambda *_: [])
    with pytest.raises(Internal, match="event 1 can't be read") as told:
        await within(all_of(handle, late=False))
    assert told.value.error_id
