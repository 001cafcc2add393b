"""How an end is decided: a row for each way in which an execution can end (contract, section 3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from cellhouse.kernel import Died, End, Trouble
from cellhouse.model import EndReason, ExecutionError, LimitHit, NoticeReason, Outcome, SessionState
from cellhouse.runtime.outcome import (
    MAX_VALUE_CHARS,
    Asked,
    Ending,
    Verdict,
    decide,
    ended_before_the_code,
    never_started,
)

OK = {"status": "ok"}
KEYBOARD = ExecutionError(name="KeyboardInterrupt")
VALUE_ERROR = ExecutionError(name="ValueError", value="no", traceback=("ValueError: no",))


def error_reply(error: ExecutionError) -> dict[str, Any]:
    return {"status": "error", "ename": error.name, "evalue": error.value, "traceback": list(error.traceback)}


NONE_TYPE = error_reply(ExecutionError(name="NoneType", value="None"))


def ended(reply: Mapping[str, Any] | None = OK, *, idle: bool = True, **more: Any) -> End:
    return End(reply, idle, **more)


def killed_by(number: int, **more: Any) -> End:
    return End(None, False, died=Died(None, number), **more)


MEMORY = LimitHit("memory", 100, 120)


def killed_by_limit(hit: LimitHit) -> End:
    return End(None, False, died=Died(None, 9, limit_hit=hit))


def exited(status: int, **more: Any) -> End:
    return End(None, False, died=Died(status, None), **more)


def asked(**what: Any) -> Asked:
    return Asked(timeout_seconds=2.5, **what)


@dataclass(frozen=True)
class Row:
    """What is there to be weighed, and what it comes to."""

    id: str
    end: End
    outcome: Outcome
    state: SessionState = SessionState.PRESERVED
    reason: str = ""
    asked: Asked = field(default_factory=asked)
    first_error: ExecutionError | None = None
    error: str = ""  # name of the executionError
    notices: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    shown: bool = False
    python: bool = True
    reply_error: bool = False


IGNORED = (NoticeReason.INTERRUPT_IGNORED,)
RESET, GONE = SessionState.RESET, SessionState.GONE
LIMIT = {"limitSeconds": "2.5"}
TOO_LARGE = Trouble(
    "MESSAGE_SIZE", "sent 200 bytes", fatal=True, metadata={"sizeBytes": "200", "limitBytes": "9"}
)
CLOSED = Trouble("CHANNEL_CLOSED", "the kernel closed its iopub channel", fatal=True)

ROWS = [
    Row("ran to the end", ended(), Outcome.OK),
    Row("an error on iopub and an ok reply", ended(), Outcome.OK, first_error=VALUE_ERROR),
    Row("no idle status", ended(idle=False), Outcome.OK),
    Row("asked to exit, and lives on", ended(asked_exit=True), Outcome.OK),
    Row(
        "raised", ended(error_reply(VALUE_ERROR)), Outcome.ERROR, reason=EndReason.CODE_RAISED,
        first_error=VALUE_ERROR, error="ValueError", reply_error=True,
    ),
    Row(
        "SystemExit", ended(error_reply(ExecutionError(name="SystemExit", value="0"))), Outcome.ERROR,
        reason=EndReason.CODE_RAISED, first_error=ExecutionError(name="SystemExit", value="0"),
        error="SystemExit", reply_error=True,
    ),
    Row(
        "a KeyboardInterrupt of its own", ended(error_reply(KEYBOARD)), Outcome.ERROR,
        reason=EndReason.CODE_RAISED, first_error=KEYBOARD, error="KeyboardInterrupt", reply_error=True,
    ),
    Row(
        "an error reply that says nothing", ended({"status": "error"}), Outcome.ERROR,
        reason=EndReason.CODE_RAISED, error="Error", reply_error=True,
    ),
    Row("a representation failed, the value was shown", ended(NONE_TYPE), Outcome.OK, shown=True),
    Row(
        "nothing could be shown", ended(NONE_TYPE), Outcome.ERROR, reason=EndReason.CODE_RAISED,
        first_error=ExecutionError(name="ZeroDivisionError"), error="ZeroDivisionError", reply_error=True,
    ),
    Row("idle and no reply", ended(None), Outcome.ERROR, reason=EndReason.KERNEL_LOST, error="ReplyLost"),
    Row(
        "idle, no reply, an error on iopub", ended(None), Outcome.ERROR, reason=EndReason.KERNEL_LOST,
        first_error=VALUE_ERROR, error="ValueError", reply_error=True,
    ),
    *(
        Row(
            f"a reply that says {status!r}", ended({"status": status}), Outcome.ERROR,
            reason=EndReason.KERNEL_LOST, error="ReplyLost",
        )
        for status in (None, "", "fine", ["ok"])
    ),
    Row("a reply without a status", ended({}), Outcome.ERROR, reason=EndReason.KERNEL_LOST, error="ReplyLost"),
    # Interrupts
    Row(
        "interrupted", ended(error_reply(KEYBOARD)), Outcome.INTERRUPTED, reason=EndReason.INTERRUPT_REQUESTED,
        asked=asked(interrupt=True), first_error=KEYBOARD, error="KeyboardInterrupt", reply_error=True,
    ),
    Row(
        "interrupted in an await", ended(error_reply(ExecutionError(name="CancelledError"))), Outcome.INTERRUPTED,
        reason=EndReason.INTERRUPT_REQUESTED, asked=asked(interrupt=True),
        first_error=ExecutionError(name="CancelledError"), error="CancelledError", reply_error=True,
    ),
    Row(
        "another language interrupted", ended(error_reply(ExecutionError(name="", value="130"))),
        Outcome.INTERRUPTED, reason=EndReason.INTERRUPT_REQUESTED, asked=asked(interrupt=True),
        first_error=ExecutionError(name="", value="130"), python=False, reply_error=True,
    ),
    Row("swallowed, or faster than it", ended(), Outcome.OK, asked=asked(interrupt=True), notices=IGNORED),
    Row(
        "raised something else", ended(error_reply(VALUE_ERROR)), Outcome.ERROR, reason=EndReason.CODE_RAISED,
        asked=asked(interrupt=True), first_error=VALUE_ERROR, error="ValueError", notices=IGNORED,
        reply_error=True,
    ),
    Row(
        "aborted when interrupted", ended({"status": "aborted"}), Outcome.INTERRUPTED,
        reason=EndReason.INTERRUPT_REQUESTED, asked=asked(interrupt=True), error="Aborted", reply_error=True,
    ),
    Row(
        "aborted by itself", ended({"status": "aborted"}), Outcome.NEVER_STARTED,
        reason=EndReason.KERNEL_ABORTED, error="NeverStarted",
    ),
    Row(
        "aborted in the words of old", ended({"status": "abort"}), Outcome.NEVER_STARTED,
        reason=EndReason.KERNEL_ABORTED, error="NeverStarted",
    ),
    Row(
        "the interrupt that was asked for ended the process", killed_by(2), Outcome.INTERRUPTED, RESET,
        reason=EndReason.INTERRUPT_REQUESTED, asked=asked(interrupt=True), error="Interrupted",
        metadata={"signal": "2", "signalName": "SIGINT"},
    ),
    # executionTimeout
    Row(
        "timed out and interrupted", ended(error_reply(KEYBOARD)), Outcome.TIMED_OUT,
        reason=EndReason.EXECUTION_TIMEOUT, asked=asked(timed_out=True), first_error=KEYBOARD,
        error="KeyboardInterrupt", reply_error=True, metadata={**LIMIT, "endedBy": "interrupt"},
    ),
    Row(
        "timed out and killed", killed_by(9), Outcome.TIMED_OUT, RESET, reason=EndReason.EXECUTION_TIMEOUT,
        asked=asked(timed_out=True, killed=True), error="TimedOut", metadata={**LIMIT, "endedBy": "kill"},
    ),
    Row(
        "timed out and aborted", ended({"status": "aborted"}), Outcome.TIMED_OUT,
        reason=EndReason.EXECUTION_TIMEOUT, asked=asked(timed_out=True), error="Aborted", reply_error=True,
        metadata={**LIMIT, "endedBy": "interrupt"},
    ),
    Row("timed out and swallowed", ended(), Outcome.OK, asked=asked(timed_out=True), notices=IGNORED),
    Row(
        "timed out and raised something else", ended(error_reply(VALUE_ERROR)), Outcome.ERROR,
        reason=EndReason.CODE_RAISED, asked=asked(timed_out=True), first_error=VALUE_ERROR,
        error="ValueError", notices=IGNORED, reply_error=True,
    ),
    Row(
        "the interrupt after the time ended the process", killed_by(2), Outcome.TIMED_OUT, RESET,
        reason=EndReason.EXECUTION_TIMEOUT, asked=asked(timed_out=True), error="TimedOut",
        metadata={**LIMIT, "endedBy": "interrupt"},
    ),
    Row(
        "timed out, asked too, and interrupted", ended(error_reply(KEYBOARD)), Outcome.TIMED_OUT,
        reason=EndReason.EXECUTION_TIMEOUT, asked=asked(timed_out=True, interrupt=True), first_error=KEYBOARD,
        error="KeyboardInterrupt", reply_error=True, metadata={**LIMIT, "endedBy": "interrupt"},
    ),
    # Deaths
    *(
        Row(
            f"exit {status}", exited(status), Outcome.EXITED, RESET, reason=EndReason.KERNEL_EXITED,
            error="KernelExited", metadata={"exitStatus": str(status)},
        )
        for status in (0, 1, 139, 255)
    ),
    Row(
        "quit() after its reply", ended(died=Died(0, None), asked_exit=True), Outcome.EXITED, RESET,
        reason=EndReason.KERNEL_EXITED, error="KernelExited", metadata={"exitStatus": "0"},
    ),
    *(
        Row(
            name, killed_by(number), Outcome.KERNEL_DIED, RESET, reason=EndReason.KERNEL_SIGNALLED,
            error="KernelDied", metadata={"signal": str(number), "signalName": name},
        )
        for number, name in (
            (2, "SIGINT"), (4, "SIGILL"), (6, "SIGABRT"), (8, "SIGFPE"), (9, "SIGKILL"), (11, "SIGSEGV"),
            (15, "SIGTERM"), (35, "SIG35"),
        )
    ),
    Row(
        "a cause that could not be learnt", End(None, False, died=Died(None, None)), Outcome.KERNEL_DIED, RESET,
        reason=EndReason.KERNEL_LOST, error="KernelDied",
    ),
    Row(
        "a death while an interrupt was asked for", killed_by(11), Outcome.KERNEL_DIED, RESET,
        reason=EndReason.KERNEL_SIGNALLED, asked=asked(interrupt=True), error="KernelDied",
        metadata={"signal": "11", "signalName": "SIGSEGV"},
    ),
    Row(
        "a message over the limit", killed_by(9, trouble=TOO_LARGE), Outcome.RESOURCE_KILLED, RESET,
        reason=EndReason.MESSAGE_SIZE, error="ResourceKilled", metadata={"sizeBytes": "200", "limitBytes": "9"},
    ),
    Row(
        "a channel closed by the kernel", killed_by(9, trouble=CLOSED), Outcome.KERNEL_DIED, RESET,
        reason=EndReason.KERNEL_LOST, error="KernelDied",
        metadata={"cause": "the kernel closed its iopub channel"},
    ),
    Row(
        "it was to be killed, and its end could not be learnt",
        End(None, False, died=Died(None, None), trouble=CLOSED), Outcome.KERNEL_DIED, RESET,
        reason=EndReason.KERNEL_LOST, error="KernelDied",
        metadata={"cause": "the kernel closed its iopub channel"},
    ),
    Row(
        "its own end came before ours", exited(7, trouble=CLOSED), Outcome.EXITED, RESET,
        reason=EndReason.KERNEL_EXITED, error="KernelExited", metadata={"exitStatus": "7"},
    ),
    # Limits
    *(
        Row(
            f"memory, {what}", End(None, False, died=Died(None, number, limit_hit=MEMORY)), Outcome.OUT_OF_MEMORY,
            RESET, reason=EndReason.MEMORY, error="OutOfMemory", asked=done,
            metadata={"limitBytes": "100", "peakBytes": "120"},
        )
        for what, number, done in (
            ("by a signal", 9, asked()), ("by no word of the supervisor", None, asked()),
            ("while an interrupt was asked for", 9, asked(interrupt=True)),
            ("while it was to end in time", 9, asked(timed_out=True)),
        )
    ),
    Row(
        "memory, with nothing measured", killed_by_limit(LimitHit("memory", 100)), Outcome.OUT_OF_MEMORY, RESET,
        reason=EndReason.MEMORY, error="OutOfMemory", metadata={"limitBytes": "100"},
    ),
    *(
        Row(
            f"memory that ended the walls, {what}",
            End(None, False, died=Died(None, number, limit_hit=LimitHit("memory", 100, 120, walls=True))),
            Outcome.OUT_OF_MEMORY, SessionState.GONE, reason=EndReason.MEMORY, error="OutOfMemory", asked=done,
            metadata={"limitBytes": "100", "peakBytes": "120"},
        )
        for what, number, done in (
            ("before anybody knew", None, asked()), ("with a signal", 9, asked()),
            ("as the runtime knew already", None, asked(ending=Ending.RUNTIME_LOST, ending_text="it went away")),
        )
    ),
    Row(
        "deleted while memory ended the walls", killed_by_limit(LimitHit("memory", 100, walls=True)),
        Outcome.SESSION_DELETED, SessionState.GONE, reason=EndReason.SESSION_DELETED, error="SessionDeleted",
        asked=asked(ending=Ending.DELETE_SESSION),
    ),
    Row(
        "processes", killed_by_limit(LimitHit("processes", 16, 17)), Outcome.RESOURCE_KILLED, RESET,
        reason=EndReason.PROCESSES, error="ResourceKilled", metadata={"limitProcesses": "16", "peakProcesses": "17"},
    ),
    Row(
        "disk", killed_by_limit(LimitHit("content", 100, 200)), Outcome.RESOURCE_KILLED, RESET,
        reason=EndReason.DISK, error="ResourceKilled", metadata={"limitBytes": "100", "peakBytes": "200"},
    ),
    Row(
        "killed by us for its time, whatever else there was", killed_by_limit(MEMORY), Outcome.TIMED_OUT, RESET,
        reason=EndReason.EXECUTION_TIMEOUT, asked=asked(timed_out=True, killed=True), error="TimedOut",
        metadata={**LIMIT, "endedBy": "kill"},
    ),
    Row(
        "a MemoryError that the code did not catch", ended(error_reply(ExecutionError(name="MemoryError"))),
        Outcome.ERROR, reason=EndReason.CODE_RAISED, first_error=ExecutionError(name="MemoryError"),
        error="MemoryError", reply_error=True,
    ),
    # Ended by us
    Row(
        "restarted", killed_by(9), Outcome.INTERRUPTED, RESET, reason=EndReason.SESSION_RESET,
        asked=asked(ending=Ending.RESTART), error="Interrupted",
    ),
    Row(
        "session deleted", killed_by(9), Outcome.SESSION_DELETED, GONE, reason=EndReason.SESSION_DELETED,
        asked=asked(ending=Ending.DELETE_SESSION), error="SessionDeleted",
    ),
    Row(
        "runtime deleted", killed_by(9), Outcome.SESSION_DELETED, GONE, reason=EndReason.RUNTIME_DELETED,
        asked=asked(ending=Ending.DELETE_RUNTIME), error="SessionDeleted",
    ),
    Row(
        "runtime lost", killed_by(9), Outcome.RUNTIME_LOST, GONE, reason=EndReason.RUNTIME_LOST,
        asked=asked(ending=Ending.RUNTIME_LOST), error="RuntimeLost", metadata={"mayHaveRun": "true"},
    ),
    Row(
        "done before the restart could reach it", ended(), Outcome.OK, asked=asked(ending=Ending.RESTART),
        state=SessionState.RESET,
    ),
    Row(
        "done before the delete could reach it", ended(), Outcome.OK, asked=asked(ending=Ending.DELETE_SESSION),
        state=SessionState.GONE,
    ),
    Row(
        "done as it was being killed", ended(), Outcome.OK, asked=asked(timed_out=True, killed=True),
        state=SessionState.RESET, notices=IGNORED,
    ),
    Row(
        "gone with the walls", End(None, False, died=Died(None, None, walls_gone="its first process was killed")),
        Outcome.RUNTIME_LOST, GONE, reason=EndReason.RUNTIME_LOST, error="RuntimeLost", metadata={"mayHaveRun": "true"},
    ),
]  # fmt: skip


def verdict_of(row: Row) -> Verdict:
    return decide(row.end, row.asked, first_error=row.first_error, shown=row.shown, python=row.python)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_one_outcome_with_its_cause(row: Row) -> None:
    verdict = verdict_of(row)
    assert (verdict.outcome, verdict.session_state) == (row.outcome, row.state)
    assert (verdict.info.reason if verdict.info else "") == row.reason
    assert (verdict.info.metadata if verdict.info else {}) == row.metadata
    assert (verdict.error.name if verdict.error else "") == row.error
    assert tuple(notice.reason for notice in verdict.notices) == row.notices
    assert verdict.reply_error is row.reply_error
    assert verdict.kernel_lost is (row.state is not SessionState.PRESERVED)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_what_is_not_ok_says_why(row: Row) -> None:
    verdict = verdict_of(row)
    assert (verdict.error is None) is (verdict.outcome is Outcome.OK)
    assert (verdict.info is None) is (verdict.outcome is Outcome.OK)
    if verdict.error is not None and not verdict.reply_error:
        assert verdict.error.value
        assert verdict.error.traceback == ()


def test_every_outcome_of_the_contract_has_a_row() -> None:
    assert {row.outcome for row in ROWS} == set(Outcome)


@pytest.mark.parametrize(
    "hit",
    [
        MEMORY,
        LimitHit("processes", 16, 17),
        LimitHit("content", 100, 200, "hidden"),
        replace(MEMORY, walls=True),
    ],
)
def test_the_limit_that_ended_it_is_told_with_its_figures(hit: LimitHit) -> None:
    error = decide(killed_by_limit(hit), asked(), first_error=None, shown=False, python=True).error
    assert error is not None
    assert f"{hit.limit}" in error.value
    assert f"it had come to {hit.peak}" in error.value
    assert hit.detail in error.value
    behind = ended_before_the_code(End(None, False, died=Died(None, 9, limit_hit=hit), sent=False), asked())
    assert behind.error is not None
    assert f"{hit.limit}" in behind.error.value


def test_the_code_that_swallowed_an_interrupt_is_told_apart() -> None:
    timed_out = decide(ended(), asked(timed_out=True), first_error=None, shown=False, python=True)
    assert "executionTimeout of 2.5 s passed" in timed_out.notices[0].text
    interrupted = decide(ended(), asked(interrupt=True), first_error=None, shown=False, python=True)
    assert "an interrupt was asked for" in interrupted.notices[0].text


def test_who_ended_it_is_named() -> None:
    what = asked(ending=Ending.RUNTIME_LOST, ending_text="the house was closed")
    error = decide(killed_by(9), what, first_error=None, shown=False, python=True).error
    assert error is not None
    assert error.value == "the house was closed while the code ran"


@pytest.mark.parametrize(
    ("ending", "reason", "state"),
    [
        (None, EndReason.SESSION_RESET, RESET),
        (Ending.RESTART, EndReason.SESSION_RESET, RESET),
        (Ending.DELETE_SESSION, EndReason.SESSION_DELETED, GONE),
        (Ending.DELETE_RUNTIME, EndReason.RUNTIME_DELETED, GONE),
        (Ending.RUNTIME_LOST, EndReason.RUNTIME_LOST, GONE),
    ],
)
def test_a_kernel_that_ended_before_the_code(
    ending: Ending | None, reason: EndReason, state: SessionState
) -> None:
    end = End(None, False, died=Died(None, 15), sent=False)
    verdict = ended_before_the_code(end, asked(ending=ending))
    assert (verdict.outcome, verdict.session_state) == (Outcome.NEVER_STARTED, state)
    assert verdict.info is not None
    assert verdict.error is not None
    assert verdict.info.reason == reason
    assert "before the code was sent" in verdict.error.value
    assert verdict.kernel_lost


def test_never_started() -> None:
    verdict = never_started(EndReason.CANCELLED, "x" * 2 * MAX_VALUE_CHARS, SessionState.PRESERVED, log="y")
    assert (verdict.outcome, verdict.session_state) == (Outcome.NEVER_STARTED, SessionState.PRESERVED)
    assert verdict.error is not None
    assert verdict.info is not None
    assert (verdict.error.name, len(verdict.error.value)) == ("NeverStarted", MAX_VALUE_CHARS)
    assert verdict.info.metadata == {"log": "y"}
    assert not verdict.kernel_lost
