"""The queue of a session: its order, its limit, and what becomes of it behind a death, a restart, a deletion."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cellhouse import House
from cellhouse.kernel import KernelStartFailed
from cellhouse.model import (
    EndReason,
    ExecutionState,
    NoticeReason,
    Outcome,
    ResourceExhausted,
    SessionLimits,
    SessionState,
)
from cellhouse.runtime.files import ContentFiles
from cellhouse.runtime.run import Run
from tests.runtime.support import FakeWorld, Place, new_place, notices, reason, settings, within


async def test_in_order_of_arrival_one_at_a_time(place: Place) -> None:
    first = await place.running("hold\nprint first")
    others = [await place.start(f"print {number}") for number in range(5)]
    assert [(await other.snapshot()).state for other in others] == [ExecutionState.QUEUED] * 5
    assert (await first.snapshot()).state is ExecutionState.RUNNING
    assert place.kernel.codes == ["hold\nprint first"]
    assert place.house.get_session(place.session()).queued == 5
    place.kernel.release.set()
    results = [await within(each) for each in [first, *others]]
    assert [result.stdout for result in results] == ["first\n", *(f"{number}\n" for number in range(5))]
    assert [result.execution_count for result in results] == [1, 2, 3, 4, 5, 6]
    assert place.kernel.codes[1:] == [f"print {number}" for number in range(5)]


async def test_an_exception_stops_nothing_behind_it(place: Place) -> None:
    first = await place.running("hold\nraise ValueError no")
    second = await place.start("print on")
    place.kernel.release.set()
    assert (await within(first)).outcome is Outcome.ERROR
    result = await within(second)
    assert (result.outcome, result.stdout) == (Outcome.OK, "on\n")


async def test_sessions_wait_for_themselves_only(place: Place) -> None:
    held = await place.running("hold", "a")
    assert (await place.run("print b", "b")).stdout == "b\n"
    place.launcher.made[0].release.set()
    assert (await within(held)).outcome is Outcome.OK


async def test_a_full_queue_refuses_and_names_its_limit(fakes: FakeWorld, tmp_path: Path) -> None:
    async with House(settings=settings(tmp_path, session=SessionLimits(queue=2))) as house:
        place = await new_place(house, fakes)
        running = await place.running("hold")
        waiting = [await place.start("print x"), await place.start("print y")]
        with pytest.raises(ResourceExhausted, match="its queue holds 2") as refused:
            await place.start("print z", execution_id="z")
        assert refused.value.http == 429
        assert refused.value.metadata["limit"] == "queue"
        assert refused.value.metadata["retryable"] == "true"
        # What was refused left no trace: the same id is free.
        assert len(house.list_executions(place.session()).entries) == 3
        place.kernel.release.set()
        for handle in [running, *waiting]:
            await within(handle)
        assert (await place.run("print z", execution_id="z")).stdout == "z\n"


@pytest.mark.parametrize(
    ("death", "outcome"),
    [("exit 3", Outcome.EXITED), ("signal 11", Outcome.KERNEL_DIED), ("vanish", Outcome.KERNEL_DIED)],
)
async def test_a_death_ends_everything_behind_it(place: Place, death: str, outcome: Outcome) -> None:
    dying = await place.running(f"set x 1\nhold\n{death}")
    waiting = [await place.start("print never"), await place.start("print never")]
    place.kernel.release.set()
    result = await within(dying)
    assert (result.outcome, result.session_state) == (outcome, SessionState.RESET)
    for handle in waiting:
        ended = await within(handle)
        assert (ended.outcome, reason(ended)) == (Outcome.NEVER_STARTED, EndReason.SESSION_RESET)
        assert ended.session_state is SessionState.RESET
        assert ended.execution_error is not None
        assert "the kernel was lost" in ended.execution_error.value
        assert ended.stdout == ""
    assert len(place.launcher.made) == 1
    fresh = await place.run("get x")
    assert fresh.execution_error is not None
    assert fresh.execution_error.name == "NameError"
    assert notices(fresh) == [NoticeReason.FRESH_KERNEL]
    assert notices(await place.run("print again")) == []
    assert place.launcher.made[0].closed


async def test_whoever_sees_the_death_gets_the_fresh_kernel(place: Place) -> None:
    """Submitted in the very moment in which the end is told, it is submitted afterwards."""
    dying = await place.start("exit 0")
    await within(dying)
    result = await place.run("print hello")
    assert (result.outcome, result.stdout) == (Outcome.OK, "hello\n")
    assert notices(result) == [NoticeReason.FRESH_KERNEL]


async def test_a_death_between_executions_is_told_to_the_next(place: Place) -> None:
    await place.run("set x 1")
    place.kernel.die(signal=15)
    result = await place.run("get x")
    while result.outcome is Outcome.KERNEL_DIED:  # it was handed in before the death was seen
        result = await place.run("get x")
    assert NoticeReason.FRESH_KERNEL in notices(result)
    assert result.execution_error is not None
    assert result.execution_error.name == "NameError"


async def test_a_restart_ends_what_runs_and_waits(place: Place) -> None:
    running = await place.running("print so far\nset x 1\nhold")
    waiting = await place.start("print never")
    await within(place.house.restart(place.session()))
    result = await within(running)
    assert (result.outcome, reason(result)) == (Outcome.INTERRUPTED, EndReason.SESSION_RESET)
    assert (result.stdout, result.session_state) == ("so far\n", SessionState.RESET)
    ended = await within(waiting)
    assert (ended.outcome, reason(ended)) == (Outcome.NEVER_STARTED, EndReason.SESSION_RESET)
    fresh = await place.run("get x")
    assert notices(fresh) == [NoticeReason.FRESH_KERNEL]
    assert fresh.execution_error is not None
    assert len(place.launcher.made) == 2


async def test_a_restart_of_an_idle_session_loses_its_variables(place: Place) -> None:
    await place.run("set x 1")
    await within(place.house.restart(place.session()))
    fresh = await place.run("get x")
    assert fresh.execution_error is not None
    assert notices(fresh) == [NoticeReason.FRESH_KERNEL]


async def test_restarts_beside_each_other_all_return(place: Place) -> None:
    await place.running("hold")
    await within(asyncio.gather(*(place.house.restart(place.session()) for _ in range(5))))
    assert (await place.run("print on")).stdout == "on\n"


async def test_a_restart_of_a_session_without_a_kernel(place: Place) -> None:
    await place.house.create_session(place.runtime, session_id="main")
    await within(place.house.restart(place.session()))
    result = await place.run("print first")
    assert notices(result) == []  # there was nothing to lose


async def test_a_deletion_ends_what_runs_and_waits(place: Place) -> None:
    running = await place.running("print so far\nhold")
    waiting = await place.start("print never")
    await within(place.house.delete_session(place.session()))
    result = await within(running)
    assert (result.outcome, reason(result)) == (Outcome.SESSION_DELETED, EndReason.SESSION_DELETED)
    assert (result.stdout, result.session_state) == ("so far\n", SessionState.GONE)
    ended = await within(waiting)
    assert (ended.outcome, reason(ended)) == (Outcome.NEVER_STARTED, EndReason.SESSION_DELETED)
    assert ended.session_state is SessionState.GONE
    assert place.house.list_sessions(place.runtime) == []


async def test_a_deleted_runtime_ends_what_runs_and_waits(place: Place) -> None:
    running = await place.running("print so far\nhold")
    waiting = await place.start("print never")
    await within(place.house.delete_runtime(place.runtime))
    result = await within(running)
    assert (result.outcome, reason(result)) == (Outcome.SESSION_DELETED, EndReason.RUNTIME_DELETED)
    assert (result.stdout, result.session_state) == ("so far\n", SessionState.GONE)
    ended = await within(waiting)
    assert (ended.outcome, reason(ended)) == (Outcome.NEVER_STARTED, EndReason.RUNTIME_DELETED)
    assert place.sandbox.closed


async def test_a_kernel_that_does_not_start_ends_everything_that_waits(place: Place) -> None:
    place.launcher.gate.clear()
    place.launcher.failures.append(
        KernelStartFailed("kernel 'x' ended with status 1", log="Traceback: no module")
    )
    handles = [await place.start(f"print {number}", execution_id=f"e{number}") for number in range(3)]
    await within(place.launcher.asked.wait())
    place.launcher.gate.set()
    for handle in handles:
        result = await within(handle)
        assert (result.outcome, reason(result)) == (Outcome.NEVER_STARTED, EndReason.KERNEL_START_FAILED)
        assert result.session_state is SessionState.RESET
        assert result.outcome_info is not None
        assert result.outcome_info.metadata["log"] == "Traceback: no module"
        assert result.execution_error is not None
        assert "it wrote: Traceback: no module" in result.execution_error.value
    assert [entry["kind"] for entry in place.house.session_log(place.session())] == ["start"]
    assert (await place.run("print now")).stdout == "now\n"


async def test_the_notice_of_a_fresh_kernel_survives_a_start_that_fails(place: Place) -> None:
    await place.run("exit 1")
    place.launcher.failures.append(KernelStartFailed("no"))
    assert (await place.run("print x")).outcome is Outcome.NEVER_STARTED
    assert notices(await place.run("print x")) == [NoticeReason.FRESH_KERNEL]


async def test_cancelled_while_it_waits(place: Place) -> None:
    running = await place.running("hold")
    first, second = await place.start("print never"), await place.start("print on")
    assert await first.cancel()
    result = await within(first)
    assert (result.outcome, reason(result)) == (Outcome.NEVER_STARTED, EndReason.CANCELLED)
    assert result.session_state is SessionState.PRESERVED
    assert place.kernel.interrupts == 0
    place.kernel.release.set()
    assert (await within(running)).outcome is Outcome.OK
    assert (await within(second)).stdout == "on\n"
    assert "print never" not in place.kernel.codes


async def test_cancelled_while_it_runs(place: Place) -> None:
    running = await place.running("print so far\nhold")
    waiting = await place.start("print on")
    assert await running.cancel()
    result = await within(running)
    assert (result.outcome, reason(result)) == (Outcome.INTERRUPTED, EndReason.INTERRUPT_REQUESTED)
    assert (result.stdout, result.session_state) == ("so far\n", SessionState.PRESERVED)
    assert (await within(waiting)).stdout == "on\n"


async def test_cancelled_when_it_has_ended(place: Place) -> None:
    handle = await place.start("print done")
    result = await within(handle)
    await handle.cancel()
    await place.house.cancel(str(handle.name))
    assert await within(handle) == result
    assert place.kernel.interrupts == 0


async def test_one_that_only_attached_detaches(place: Place) -> None:
    running = await place.running("hold", execution_id="one")
    attached = await place.start("hold", execution_id="one")
    assert attached.attached
    assert not await attached.cancel()
    assert place.kernel.interrupts == 0
    assert await running.cancel()
    assert (await within(attached)).outcome is Outcome.INTERRUPTED


# Before the code is sent


async def test_cancelled_while_its_kernel_starts_it_never_runs(place: Place) -> None:
    await place.run("exit 1")
    place.launcher.gate.clear()
    place.launcher.asked.clear()
    handle = await place.start("print never")
    await within(place.launcher.asked.wait())
    assert await handle.cancel()
    place.launcher.gate.set()
    result = await within(handle)
    assert (result.outcome, reason(result)) == (Outcome.NEVER_STARTED, EndReason.CANCELLED)
    assert place.kernel.codes == []
    # It is the first that really gets the fresh kernel that is told so.
    assert notices(await place.run("print on")) == [NoticeReason.FRESH_KERNEL]


@pytest.mark.parametrize("end", ["restart", "delete_session", "delete_runtime"])
async def test_ended_while_its_kernel_starts_it_never_runs(place: Place, end: str) -> None:
    place.launcher.gate.clear()
    handle = await place.start("print never")
    await within(place.launcher.asked.wait())
    target = place.runtime if end == "delete_runtime" else place.session()
    await within(getattr(place.house, end)(target))
    result = await within(handle)
    wanted = {
        "restart": (EndReason.SESSION_RESET, SessionState.RESET),
        "delete_session": (EndReason.SESSION_DELETED, SessionState.GONE),
        "delete_runtime": (EndReason.RUNTIME_DELETED, SessionState.GONE),
    }
    assert result.outcome is Outcome.NEVER_STARTED
    assert (reason(result), result.session_state) == wanted[end]
    assert place.launcher.made == []


async def test_a_restart_in_the_moment_in_which_the_kernel_is_there(place: Place) -> None:
    """The start is through, and the session has not taken the kernel yet."""
    place.launcher.gate.clear()
    handle = await place.start("hold")
    await within(place.launcher.asked.wait())
    place.launcher.gate.set()
    await within(place.launcher.there.wait())
    await within(place.house.restart(place.session()))
    result = await within(handle)
    assert (result.outcome, reason(result)) in [
        (Outcome.NEVER_STARTED, EndReason.SESSION_RESET),
        (Outcome.INTERRUPTED, EndReason.SESSION_RESET),
    ]
    assert (await place.run("print on")).stdout == "on\n"


# A death that is seen late


async def test_a_death_while_files_are_compared_ends_what_waited(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparing, may_end = asyncio.Event(), asyncio.Event()
    end = ContentFiles.end

    async def slowly(self: ContentFiles, uid: str, **more: Any) -> Any:
        comparing.set()
        await may_end.wait()
        return await end(self, uid, **more)

    with monkeypatch.context() as patch:
        patch.setattr(ContentFiles, "end", slowly)
        first = await place.start("set x 1")
        await within(comparing.wait())
        waiting = [await place.start("get x"), await place.start("print never")]
        place.kernel.die(signal=9)
        may_end.set()
        assert (await within(first)).outcome is Outcome.OK
    # Whoever saw that end knows what it asks for.
    afterwards = await place.start("print on")
    for handle in waiting:
        result = await within(handle)
        assert (result.outcome, reason(result)) == (Outcome.NEVER_STARTED, EndReason.SESSION_RESET)
        assert result.session_state is SessionState.RESET
    result = await within(afterwards)
    assert (result.stdout, notices(result)) == ("on\n", [NoticeReason.FRESH_KERNEL])


async def test_a_failure_of_ours_ends_what_waited(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    await place.run("set x 1")
    init = Run.__init__

    def once(*_: object, **__: object) -> None:
        monkeypatch.setattr(Run, "__init__", init)
        raise RuntimeError("broken for a moment")

    monkeypatch.setattr(Run, "__init__", once)
    failed, waiting = await place.start("print never"), await place.start("get x")
    assert (await within(failed)).outcome is Outcome.NEVER_STARTED
    result = await within(waiting)
    assert (result.outcome, reason(result)) == (Outcome.NEVER_STARTED, EndReason.SESSION_RESET)
    assert notices(await place.run("print on")) == [NoticeReason.FRESH_KERNEL]
