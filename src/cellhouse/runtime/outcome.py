"""How an end is decided: from what the kernel said and what was asked of it to one outcome with its cause."""

import signal as signals
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from cellhouse.kernel import Died, End
from cellhouse.model import (
    EndReason,
    ErrorInfo,
    ExecutionError,
    LimitHit,
    Notice,
    NoticeReason,
    Outcome,
    SessionState,
)
from cellhouse.runtime import limit_ends

NO_EXCEPTION = "NoneType"
"""The class ipykernel names when a display failed though the code did not raise."""
INTERRUPT_NAMES = frozenset({"KeyboardInterrupt", "CancelledError"})
MAX_VALUE_CHARS = 8_192


class Ending(Enum):
    """Who ended the kernel under a running execution, where it was one of us."""

    RESTART = "restart"
    DELETE_SESSION = "delete session"
    DELETE_RUNTIME = "delete runtime"
    RUNTIME_LOST = "runtime lost"


@dataclass(slots=True)
class Asked:
    """What was asked of one execution while it ran."""

    interrupt: bool = False
    timed_out: bool = False
    killed: bool = False
    timeout_seconds: float | None = None
    ending: Ending | None = None
    ending_text: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end of one execution, and what it does to its session."""

    outcome: Outcome
    session_state: SessionState
    error: ExecutionError | None = None
    info: ErrorInfo | None = None
    reply_error: bool = False
    notices: tuple[Notice, ...] = ()
    kernel_lost: bool = False


def decide(
    end: End, asked: Asked, *, first_error: ExecutionError | None, shown: bool, python: bool
) -> Verdict:
    """CONTRACT §3, "How an end is decided". `first_error`: the first exception on iopub, else the reply's own."""
    if end.died is not None:
        return _died(end, asked)
    verdict = _replied(end, asked, first_error=first_error, shown=shown, python=python)
    if asked.ending is None and not asked.killed:
        return verdict
    # It was faster than the end that was asked for, but its kernel goes all the same.
    state = SessionState.RESET if asked.ending in (None, Ending.RESTART) else SessionState.GONE
    return replace(verdict, session_state=state, kernel_lost=True)


def _replied(
    end: End, asked: Asked, *, first_error: ExecutionError | None, shown: bool, python: bool
) -> Verdict:
    status = end.reply.get("status") if end.reply is not None else None
    if status in ("aborted", "abort"):
        return _aborted(end, asked)
    if end.reply is None or status not in ("ok", "error"):
        return _no_reply(asked, first_error)
    if status != "error" or only_a_representation_failed(end.reply, shown):
        return _ran_to_its_end(asked)
    error = first_error or ExecutionError(
        name="Error", value="the kernel reported an error and did not say which"
    )
    if (asked.interrupt or asked.timed_out) and (error.name in INTERRUPT_NAMES or not python):
        return _interrupted(asked, error)
    return Verdict(
        Outcome.ERROR,
        SessionState.PRESERVED,
        error,
        _info(EndReason.CODE_RAISED),
        reply_error=True,
        notices=_ignored(asked, "raised something else"),
    )


def never_started(reason: str, text: str, session_state: SessionState, **metadata: str) -> Verdict:
    """The end of an execution whose code was never sent."""
    return Verdict(
        Outcome.NEVER_STARTED,
        session_state,
        ExecutionError(name="NeverStarted", value=text[:MAX_VALUE_CHARS]),
        _info(reason, **metadata),
    )


def ended_before_the_code(end: End, asked: Asked) -> Verdict:
    """The end of an execution whose kernel was gone before the code could be sent: it was behind that death."""
    reason, state = {
        None: (EndReason.SESSION_RESET, SessionState.RESET),
        Ending.RESTART: (EndReason.SESSION_RESET, SessionState.RESET),
        Ending.DELETE_SESSION: (EndReason.SESSION_DELETED, SessionState.GONE),
        Ending.DELETE_RUNTIME: (EndReason.RUNTIME_DELETED, SessionState.GONE),
        Ending.RUNTIME_LOST: (EndReason.RUNTIME_LOST, SessionState.GONE),
    }[asked.ending]
    how = asked.ending_text or how_it_died(end.died)
    return replace(never_started(reason, f"{how} before the code was sent", state), kernel_lost=True)


def how_it_died(died: Died | None) -> str:
    """One clause that says how a kernel's process ended, as far as it is known."""
    if died is not None and died.limit_hit is not None:
        return limit_ends.told(died.limit_hit)
    if died is not None and died.signal is not None:
        return f"the kernel's process was ended by signal {died.signal} ({_signal_name(died.signal)})"
    if died is not None and died.exit_status is not None:
        return f"the kernel's process ended by exit with status {died.exit_status}"
    return "the kernel's process ended; how could not be learnt"


def names_no_exception(reply: Mapping[str, Any] | None) -> bool:
    """Whether an error reply stems from a display that failed, and not from the code."""
    return reply is not None and reply.get("status") == "error" and reply.get("ename") == NO_EXCEPTION


def only_a_representation_failed(reply: Mapping[str, Any], shown: bool) -> bool:
    """A rich repr raised beside a good plain one: the code did not raise, and its value was shown."""
    return names_no_exception(reply) and shown


def _ran_to_its_end(asked: Asked) -> Verdict:
    return Verdict(Outcome.OK, SessionState.PRESERVED, notices=_ignored(asked, "ended by itself"))


def _ignored(asked: Asked, what: str) -> tuple[Notice, ...]:
    if asked.timed_out:
        text = f"executionTimeout of {asked.timeout_seconds:g} s passed; the code swallowed the interrupt and {what}"
    elif asked.interrupt:
        text = f"an interrupt was asked for; the code swallowed it, or was faster, and {what}"
    else:
        return ()
    return (Notice(reason=NoticeReason.INTERRUPT_IGNORED, text=text),)


def _interrupted(asked: Asked, error: ExecutionError) -> Verdict:
    if asked.timed_out:
        return Verdict(
            Outcome.TIMED_OUT,
            SessionState.PRESERVED,
            error,
            _timeout_info(asked, "interrupt"),
            reply_error=True,
        )
    info = _info(EndReason.INTERRUPT_REQUESTED)
    return Verdict(Outcome.INTERRUPTED, SessionState.PRESERVED, error, info, reply_error=True)


def was_refused(end: End, asked: Asked) -> bool:
    """Whether the kernel aborted the request before it ran it, of its own accord."""
    aborted = end.reply is not None and end.reply.get("status") in ("aborted", "abort")
    return aborted and end.died is None and not (asked.interrupt or asked.timed_out)


def _aborted(end: End, asked: Asked) -> Verdict:
    if was_refused(end, asked):
        text = "the kernel aborted the request before running it"
        return never_started(EndReason.KERNEL_ABORTED, text, SessionState.PRESERVED)
    return _interrupted(
        asked, ExecutionError(name="Aborted", value="the kernel aborted the code when interrupted")
    )


def _no_reply(asked: Asked, first_error: ExecutionError | None) -> Verdict:
    """No reply, or one that says nothing: how the code ended is not known, and silence is no success.

    The reference kernel loses its reply where an interrupt hits it between the code's end and the reply.
    """
    if asked.interrupt or asked.timed_out:
        text = "the interrupt that was asked for ended it, and the kernel gave no reply"
        return _interrupted(asked, first_error or ExecutionError(name="Interrupted", value=text))
    error = first_error or ExecutionError(
        name="ReplyLost",
        value="the kernel gave no reply that can be read: whether the code succeeded is not known",
    )
    return Verdict(
        Outcome.ERROR,
        SessionState.PRESERVED,
        error,
        _info(EndReason.KERNEL_LOST),
        reply_error=first_error is not None,
    )


def _died(end: End, asked: Asked) -> Verdict:
    assert end.died is not None
    status, number = end.died.exit_status, end.died.signal
    trouble, hit = end.trouble, end.died.limit_hit
    if hit is not None and hit.walls and asked.ending in (None, Ending.RUNTIME_LOST):
        return replace(_by_limit(hit), session_state=SessionState.GONE)
    if asked.ending is not None:
        return _ended_by_us(asked)
    if end.died.walls_gone:
        text = f"the sandbox went away ({end.died.walls_gone})"
        return _ended_by_us(replace(asked, ending=Ending.RUNTIME_LOST, ending_text=text))
    if number == signals.SIGINT and (asked.interrupt or asked.timed_out):
        return _ended_by_the_interrupt(asked)
    if asked.timed_out and asked.killed:
        value = (
            f"the code ran longer than {asked.timeout_seconds:g} s, did not heed an interrupt, and was killed"
        )
        return _lost(Outcome.TIMED_OUT, "TimedOut", value, _timeout_info(asked, "kill"))
    if hit is not None:
        return _by_limit(hit)
    if trouble is not None and status is None and number in (signals.SIGKILL, None):
        if trouble.reason == EndReason.MESSAGE_SIZE:
            info = _info(EndReason.MESSAGE_SIZE, **trouble.metadata)
            return _lost(Outcome.RESOURCE_KILLED, "ResourceKilled", trouble.text, info)
        info = _info(EndReason.KERNEL_LOST, cause=trouble.text[:500])
        return _lost(Outcome.KERNEL_DIED, "KernelDied", f"{trouble.text}; its process was ended", info)
    how = how_it_died(end.died)
    if number is not None:
        info = _info(EndReason.KERNEL_SIGNALLED, signal=str(number), signalName=_signal_name(number))
        return _lost(Outcome.KERNEL_DIED, "KernelDied", how, info)
    if status is not None:
        return _lost(
            Outcome.EXITED, "KernelExited", how, _info(EndReason.KERNEL_EXITED, exitStatus=str(status))
        )
    return _lost(Outcome.KERNEL_DIED, "KernelDied", how, _info(EndReason.KERNEL_LOST))


def _by_limit(hit: LimitHit) -> Verdict:
    value = limit_ends.told(hit)
    return _lost(limit_ends.outcome_of(hit), limit_ends.error_name(hit), value, limit_ends.info_of(hit))


def _ended_by_the_interrupt(asked: Asked) -> Verdict:
    value = "the interrupt that was asked for ended the kernel's process, which did not handle it"
    if asked.timed_out:
        return _lost(Outcome.TIMED_OUT, "TimedOut", value, _timeout_info(asked, "interrupt"))
    info = _info(EndReason.INTERRUPT_REQUESTED, signal=str(int(signals.SIGINT)), signalName="SIGINT")
    return _lost(Outcome.INTERRUPTED, "Interrupted", value, info)


def _ended_by_us(asked: Asked) -> Verdict:
    match asked.ending:
        case Ending.RESTART:
            value = "the session was restarted while the code ran"
            info = _info(EndReason.SESSION_RESET)
            return _lost(Outcome.INTERRUPTED, "Interrupted", value, info)
        case Ending.DELETE_SESSION:
            value, reason, outcome = (
                "the session was deleted",
                EndReason.SESSION_DELETED,
                Outcome.SESSION_DELETED,
            )
        case Ending.DELETE_RUNTIME:
            value, reason, outcome = (
                "the runtime was deleted",
                EndReason.RUNTIME_DELETED,
                Outcome.SESSION_DELETED,
            )
        case _:
            value, reason, outcome = "the runtime went away", EndReason.RUNTIME_LOST, Outcome.RUNTIME_LOST
    value = f"{asked.ending_text or value} while the code ran"
    name = "RuntimeLost" if outcome is Outcome.RUNTIME_LOST else "SessionDeleted"
    extra = {"mayHaveRun": "true"} if outcome is Outcome.RUNTIME_LOST else {}
    error = ExecutionError(name=name, value=value)
    return Verdict(outcome, SessionState.GONE, error, _info(reason, **extra), kernel_lost=True)


def _lost(outcome: Outcome, name: str, value: str, info: ErrorInfo) -> Verdict:
    error = ExecutionError(name=name, value=value[:MAX_VALUE_CHARS])
    return Verdict(outcome, SessionState.RESET, error, info, kernel_lost=True)


def _timeout_info(asked: Asked, ended_by: str) -> ErrorInfo:
    return _info(EndReason.EXECUTION_TIMEOUT, limitSeconds=f"{asked.timeout_seconds:g}", endedBy=ended_by)


def _info(reason: str, **metadata: str) -> ErrorInfo:
    return ErrorInfo(reason=str(reason), metadata=metadata)


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"SIG{number}"
