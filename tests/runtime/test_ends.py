"""How executions end in a session: time, interrupts, deaths, replies that say too little. Over a fake kernel."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellhouse import House
from cellhouse.kernel import Trouble
from cellhouse.model import (
    CallReason,
    EndReason,
    ExecutionState,
    FailedPrecondition,
    InputRequestedEvent,
    NotFound,
    NoticeReason,
    Outcome,
    SessionLimits,
    SessionState,
)
from tests.runtime.support import (
    FakeWorld,
    Place,
    event_of,
    events_of,
    kinds,
    metadata,
    new_place,
    notices,
    reason,
    settings,
    until,
    within,
)

QUICK = SessionLimits(interrupt_grace=0.02, settle_seconds=0.02, exit_seconds=0.02)


@pytest.fixture
async def place(fakes: FakeWorld, tmp_path: Path) -> AsyncIterator[Place]:
    """A runtime in which nothing is awaited for long."""
    async with House(settings=settings(tmp_path / "state", session=QUICK)) as house:
        yield await new_place(house, fakes)


# executionTimeout


async def test_timed_out_and_interrupted(place: Place) -> None:
    result = await place.run("print so far\nhold", execution_timeout=0.02)
    assert (result.outcome, result.session_state) == (Outcome.TIMED_OUT, SessionState.PRESERVED)
    assert (reason(result), result.stdout) == (EndReason.EXECUTION_TIMEOUT, "so far\n")
    assert metadata(result) == {"limitSeconds": "0.02", "endedBy": "interrupt"}
    assert result.execution_error is not None
    assert result.execution_error.name == "KeyboardInterrupt"
    assert notices(await place.run("print on")) == []


async def test_timed_out_and_killed(place: Place) -> None:
    result = await place.run("print so far\nstubborn", execution_timeout=0.02)
    assert (result.outcome, result.session_state) == (Outcome.TIMED_OUT, SessionState.RESET)
    assert (reason(result), result.stdout) == (EndReason.EXECUTION_TIMEOUT, "so far\n")
    assert metadata(result) == {"limitSeconds": "0.02", "endedBy": "kill"}
    assert place.launcher.made[0].interrupts == 1
    assert notices(await place.run("print on")) == [NoticeReason.FRESH_KERNEL]


async def test_timed_out_and_swallowed(place: Place) -> None:
    result = await place.run("swallow\nprint on", execution_timeout=0.02)
    assert (result.outcome, result.stdout) == (Outcome.OK, "on\n")
    assert notices(result) == [NoticeReason.INTERRUPT_IGNORED]


async def test_timed_out_and_raised_something_else(place: Place) -> None:
    result = await place.run("swallow\nraise ValueError no", execution_timeout=0.02)
    assert (result.outcome, reason(result)) == (Outcome.ERROR, EndReason.CODE_RAISED)
    assert notices(result) == [NoticeReason.INTERRUPT_IGNORED]


async def test_time_counts_from_the_start_of_the_code(place: Place) -> None:
    held = await place.running("hold")
    waiting = await place.start("print on", execution_timeout=0.01)
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.03, done.set_result, None)
    await done
    assert (await waiting.snapshot()).state is ExecutionState.QUEUED
    place.kernel.release.set()
    await within(held)
    assert (await within(waiting)).outcome is Outcome.OK


async def test_time_that_ends_after_the_code_reaches_nobody(place: Place) -> None:
    assert (await place.run("print x", execution_timeout=0.3)).outcome is Outcome.OK
    held = await place.running("hold")
    over = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.5, over.set_result, None)
    await over
    assert (await held.snapshot()).state is ExecutionState.RUNNING
    assert place.kernel.interrupts == 0
    place.kernel.release.set()
    assert (await within(held)).outcome is Outcome.OK


# Interrupts


async def test_an_interrupt_that_is_swallowed(place: Place) -> None:
    running = await place.running("swallow\nprint on")
    await running.cancel()
    result = await within(running)
    assert (result.outcome, notices(result)) == (Outcome.OK, [NoticeReason.INTERRUPT_IGNORED])


async def test_an_interrupt_that_raises_something_else(place: Place) -> None:
    running = await place.running("swallow\nraise ValueError no")
    await running.cancel()
    result = await within(running)
    assert (result.outcome, notices(result)) == (Outcome.ERROR, [NoticeReason.INTERRUPT_IGNORED])
    assert result.execution_error is not None
    assert result.execution_error.name == "ValueError"


async def test_an_interrupt_that_races_the_end(place: Place) -> None:
    for _ in range(10):
        running = await place.running("hold\nprint done")
        place.kernel.release.set()
        await running.cancel()
        result = await within(running)
        assert result.outcome in (Outcome.OK, Outcome.INTERRUPTED)
        if result.outcome is Outcome.OK:
            assert notices(result) == [NoticeReason.INTERRUPT_IGNORED]
        # Whichever it was, it does not reach what comes next.
        assert (await place.run("print next")).stdout == "next\n"


async def test_an_interrupt_waits_for_the_code(place: Place) -> None:
    """Before the kernel runs the code it would be ignored; the code would go on for ever."""
    await place.run("print warm")
    place.kernel.hesitate.clear()
    place.kernel.asked.clear()
    handle = await place.start("hold")
    await within(place.kernel.asked.wait())
    await handle.cancel()
    assert place.kernel.interrupts == 0
    place.kernel.hesitate.set()
    assert (await within(handle)).outcome is Outcome.INTERRUPTED
    assert place.kernel.interrupts == 1


# Replies and deaths


async def test_no_reply(place: Place) -> None:
    result = await place.run("print x\nsilence")
    assert (result.outcome, result.session_state) == (Outcome.ERROR, SessionState.PRESERVED)
    assert reason(result) == EndReason.KERNEL_LOST
    assert notices(result) == [NoticeReason.REPLY_LOST]
    assert result.execution_error is not None
    assert result.execution_error.name == "ReplyLost"


async def test_no_idle(place: Place) -> None:
    result = await place.run("print x\nno-idle")
    assert (result.outcome, notices(result)) == (Outcome.OK, [NoticeReason.IOPUB_LOST])


async def test_a_kernel_that_aborts(place: Place) -> None:
    result = await place.run("abort")
    assert (result.outcome, reason(result)) == (Outcome.NEVER_STARTED, EndReason.KERNEL_ABORTED)
    assert result.session_state is SessionState.PRESERVED


async def test_nothing_could_be_shown(place: Place) -> None:
    assert (await place.run("raise-none")).outcome is Outcome.ERROR
    assert (await place.run("value 4\nraise-none")).outcome is Outcome.OK


@pytest.mark.parametrize(
    ("death", "outcome", "told"),
    [
        ("exit 3", Outcome.EXITED, {"exitStatus": "3"}),
        ("signal 11", Outcome.KERNEL_DIED, {"signal": "11", "signalName": "SIGSEGV"}),
        ("vanish", Outcome.KERNEL_DIED, {}),
    ],
)
async def test_a_death_keeps_all_output(
    place: Place, death: str, outcome: Outcome, told: dict[str, str]
) -> None:
    handle = await place.start(f"print x\ndisplay <b>\nwrite made.txt hello\n{death}")
    result = await within(handle)
    assert (result.outcome, metadata(result)) == (outcome, told)
    assert (result.stdout, len(result.rich_outputs)) == ("x\n", 1)
    assert result.artifacts is not None
    assert [artifact.name for artifact in result.artifacts] == ["made.txt"]
    assert kinds(await events_of(handle)) == [
        "queued",
        "started",
        "stream",
        "display",
        "artifact",
        "finished",
    ]


async def test_a_kernel_that_cannot_be_used_any_more(place: Place) -> None:
    running = await place.running("hold")
    place.kernel.put(Trouble("MESSAGE_SIZE", "sent too much", fatal=True, metadata={"sizeBytes": "9"}))
    result = await within(running)
    assert (result.outcome, reason(result)) == (Outcome.RESOURCE_KILLED, EndReason.MESSAGE_SIZE)
    assert metadata(result) == {"sizeBytes": "9"}


async def test_trouble_between_executions_is_told_to_the_next(place: Place) -> None:
    await place.run("print x")
    place.kernel.put(Trouble("CHANNEL_CLOSED", "the kernel closed its shell channel", fatal=True))
    await until(lambda: place.kernel.closed)
    result = await place.run("print y")
    assert (result.outcome, notices(result)) == (Outcome.OK, [NoticeReason.FRESH_KERNEL])
    assert len(place.launcher.made) == 2


async def test_a_failure_of_our_own_is_an_end_too(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somewhere in the house something breaks while code runs: said, with an id, and the session goes on."""
    running = await place.running("print x\nhold")
    waiting = await place.start("print never")

    def break_down(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr("cellhouse.runtime.run.decide", break_down)
        place.kernel.release.set()
        result = await within(running)
    assert (result.outcome, reason(result)) == (Outcome.RUNTIME_LOST, EndReason.RUNTIME_LOST)
    assert metadata(result).keys() == {"errorId", "mayHaveRun"}
    assert result.stdout == "x\n"
    assert (await within(waiting)).outcome is Outcome.NEVER_STARTED
    assert notices(await place.run("print on")) == [NoticeReason.FRESH_KERNEL]


async def test_an_end_that_cannot_be_put_together_is_an_end_too(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await place.running("print x\nhold")

    def break_down(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr("cellhouse.runtime.run.Recorder.captured", break_down)
        place.kernel.release.set()
        result = await within(running)
    assert (result.outcome, reason(result)) == (Outcome.RUNTIME_LOST, EndReason.RUNTIME_LOST)
    assert notices(result) == [NoticeReason.OUTPUT_LOST]
    assert kinds(await events_of(running)) == ["queued", "started", "stream", "finished"]
    assert (await place.run("print on")).stdout == "on\n"


# Variables of one execution


async def test_variables_of_one_execution_are_set_and_restored(place: Place) -> None:
    running = await place.running("hold", environment={"A": "1"})
    assert len(place.kernel.silent_codes) == 1
    assert "json.loads" in place.kernel.silent_codes[0]
    place.kernel.release.set()
    result = await within(running)
    assert (result.outcome, result.execution_count) == (Outcome.OK, 1)
    await place.run("print next")
    assert len(place.kernel.silent_codes) == 2
    assert place.kernel.codes == ["hold", "print next"]


async def test_a_kernel_that_dies_while_variables_are_set(place: Place) -> None:
    await place.run("print x")
    place.kernel.hesitate.clear()
    place.kernel.asked.clear()
    handle = await place.start("print never", environment={"A": "1"})
    await within(place.kernel.asked.wait())
    place.kernel.die(signal=11)
    result = await within(handle)
    assert (result.outcome, result.session_state) == (Outcome.NEVER_STARTED, SessionState.RESET)
    assert notices(await place.run("print on")) == [NoticeReason.FRESH_KERNEL]


async def test_a_kernel_that_dies_while_variables_are_restored(place: Place) -> None:
    running = await place.running("hold", environment={"A": "1"})
    place.kernel.die_at_next = True
    place.kernel.release.set()
    assert (await within(running)).outcome is Outcome.OK
    result = await place.run("print on")
    while result.outcome is Outcome.NEVER_STARTED:  # it was handed in before the death was seen
        result = await place.run("print on")
    assert (result.stdout, notices(result)) == ("on\n", [NoticeReason.FRESH_KERNEL])


# Input


async def test_input_is_answered(place: Place) -> None:
    handle = await place.start("ask how many?\nask and?", allow_stdin=True)
    first = await event_of(handle, "inputRequested")
    assert isinstance(first, InputRequestedEvent)
    assert (first.prompt, first.password) == ("how many?", False)
    await handle.provide_input("3")
    await event_of(handle, "inputRequested", after=first.seq)
    await place.house.provide_input(str(handle.name), "4")
    result = await within(handle)
    assert (result.outcome, result.stdout) == (Outcome.OK, "got '3'\ngot '4'\n")


async def test_input_that_is_not_allowed_ends_at_once(place: Place) -> None:
    result = await place.run("ask how many?")
    assert (result.stdout, notices(result)) == ("got '\\x04'\n", [NoticeReason.INPUT_REFUSED])


async def test_input_that_nobody_answers_ends(fakes: FakeWorld, tmp_path: Path) -> None:
    limits = SessionLimits(input_wait=0.02)
    async with House(settings=settings(tmp_path, session=limits)) as house:
        result = await (await new_place(house, fakes)).run("ask how many?", allow_stdin=True)
        assert (result.stdout, notices(result)) == ("got '\\x04'\n", [NoticeReason.INPUT_UNANSWERED])


async def test_input_counts_against_the_time_of_the_code(place: Place) -> None:
    result = await place.run("ask how many?\n", allow_stdin=True, execution_timeout=0.02)
    assert result.outcome is Outcome.TIMED_OUT


async def test_input_that_nobody_asked_for(place: Place) -> None:
    running = await place.running("hold")
    waiting = await place.start("print x")
    for handle in (running, waiting):
        with pytest.raises(FailedPrecondition) as refused:
            await handle.provide_input("x")
        assert refused.value.reason == CallReason.NOT_WAITING_FOR_INPUT
    place.kernel.release.set()
    await within(running)
    await within(waiting)
    with pytest.raises(FailedPrecondition):
        await running.provide_input("x")
    with pytest.raises(NotFound):
        await place.house.provide_input(f"{place.session()}/executions/none", "x")
