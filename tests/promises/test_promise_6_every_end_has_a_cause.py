"""Promise 6: every end has a cause."""

import pytest

from cellhouse.model import EndReason, NoticeReason, Outcome, SessionState
from tests.promises.support import Caller

pytestmark = pytest.mark.asyncio(loop_scope="module")

BEFORE = "x = 1\nimport os, signal, sys, time, ctypes\nprint('so far', flush=True)\n"


@pytest.mark.parametrize(
    ("code", "options", "outcome", "reason", "metadata"),
    [
        ("1/0", {}, Outcome.ERROR, EndReason.CODE_RAISED, {}),
        ("sys.exit(3)", {}, Outcome.ERROR, EndReason.CODE_RAISED, {}),
        (
            "while True: time.sleep(0.01)",
            {"execution_timeout": 0.3},
            Outcome.TIMED_OUT,
            EndReason.EXECUTION_TIMEOUT,
            {"limitSeconds": "0.3", "endedBy": "interrupt"},
        ),
    ],
)
async def test_ends_that_keep_the_session(
    caller: Caller,
    code: str,
    options: dict[str, object],
    outcome: Outcome,
    reason: EndReason,
    metadata: dict[str, str],
) -> None:
    result = await caller.run(BEFORE + code, **options)
    assert (result.outcome, result.session_state) == (outcome, SessionState.PRESERVED)
    assert result.stdout == "so far\n"
    assert result.execution_error is not None
    assert result.execution_error.name
    assert result.execution_error.traceback
    assert result.outcome_info is not None
    assert (result.outcome_info.reason, result.outcome_info.metadata) == (reason, metadata)
    assert (await caller.run("x")).result == "1"


async def test_an_interrupt_that_a_caller_asked_for(caller: Caller) -> None:
    running = await caller.printing(BEFORE + "time.sleep(600)", "so far")
    await running.cancel()
    result = await running
    assert (result.outcome, result.session_state) == (Outcome.INTERRUPTED, SessionState.PRESERVED)
    assert result.stdout == "so far\n"
    assert (await caller.run("x")).result == "1"


@pytest.mark.parametrize(
    ("code", "options", "outcome", "reason", "metadata"),
    [
        ("os._exit(7)", {}, Outcome.EXITED, EndReason.KERNEL_EXITED, {"exitStatus": "7"}),
        ("os._exit(139)", {}, Outcome.EXITED, EndReason.KERNEL_EXITED, {"exitStatus": "139"}),
        (
            "sys.stdout.flush(); time.sleep(0.3); ctypes.string_at(0)",
            {},
            Outcome.KERNEL_DIED,
            EndReason.KERNEL_SIGNALLED,
            {"signal": "11", "signalName": "SIGSEGV"},
        ),
        (
            "signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)",
            {"execution_timeout": 0.3},
            Outcome.TIMED_OUT,
            EndReason.EXECUTION_TIMEOUT,
            {"limitSeconds": "0.3", "endedBy": "kill"},
        ),
    ],
)
async def test_ends_that_lose_it_are_told_and_told_again(
    caller: Caller,
    code: str,
    options: dict[str, object],
    outcome: Outcome,
    reason: EndReason,
    metadata: dict[str, str],
) -> None:
    own = caller.in_session("own")
    dying = await own.printing(BEFORE + "time.sleep(0.2)\n" + code, "so far", **options)
    behind = await own.start("print('never')")
    result = await dying
    assert (result.outcome, result.session_state) == (outcome, SessionState.RESET)
    assert result.stdout == "so far\n"
    assert result.execution_error is not None
    assert result.execution_error.value
    assert result.outcome_info is not None
    assert (result.outcome_info.reason, result.outcome_info.metadata) == (reason, metadata)
    # What waited was not run in the empty namespace that came after.
    waited = await behind
    assert (waited.outcome, waited.stdout) == (Outcome.NEVER_STARTED, "")
    assert waited.outcome_info is not None
    assert waited.outcome_info.reason == EndReason.SESSION_RESET
    # And who comes next is told.
    fresh = await own.run("'x' in globals()")
    assert fresh.result == "False"
    assert [notice.reason for notice in fresh.notices or ()] == [NoticeReason.FRESH_KERNEL]
    await own.house.delete_session(own.session)
