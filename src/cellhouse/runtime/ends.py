"""Ends that are no run's: of what never started, and of what the house itself fails."""

from dataclasses import replace

from cellhouse.kernel import KernelStartFailed
from cellhouse.model import (
    EndReason,
    ErrorInfo,
    ExecutionError,
    Outcome,
    SessionState,
    mint_uid,
)
from cellhouse.runtime.execution import Execution, Stage
from cellhouse.runtime.logs import logger
from cellhouse.runtime.outcome import Ending, Verdict, never_started

_logger = logger()


def end_unstarted(execution: Execution, verdict: Verdict) -> None:
    """Write the end of one whose code was never sent. Never raises: a broken disk must not keep others from theirs."""
    try:
        execution.freeze(verdict)
    except Exception as error:
        _logger.error("an end could not be written", execution=str(execution.name), exc_info=error)
        end_after_failure(execution, error, verdict)
    else:
        execution.seal()


def end_after_failure(execution: Execution, error: Exception, verdict: Verdict | None = None) -> None:
    """Log our failure and end what it hit, with the verdict that it has already or one that tells of the failure.

    Never raises. Where no end can be written, whoever waits is told so (INTERNAL), and the next owner of the
    journal writes it.
    """
    verdict = verdict or our_fault(execution, error)
    for freeze in (execution.freeze, execution.freeze_without_output):
        if execution.stage is Stage.FINISHED:
            break
        try:
            freeze(verdict)
        except Exception:
            _logger.exception("its end could not be written", execution=str(execution.name))
    execution.seal()
    execution.let_go()


def our_fault(execution: Execution, error: Exception) -> Verdict:
    """Log a failure of the house under an id, and the verdict that names the id. Its kernel is not to be used again."""
    error_id, sent = mint_uid(), execution.log.sent
    _logger.error(
        "an execution failed in the house", execution=str(execution.name), error_id=error_id, exc_info=error
    )
    text = (
        f"the service failed {'while the code ran' if sent else 'before the code was sent'} "
        f"({type(error).__name__}); errorId {error_id} is in its log"
    )
    if not sent:
        verdict = never_started(EndReason.RUNTIME_LOST, text, SessionState.RESET, errorId=error_id)
        return replace(verdict, kernel_lost=True)
    return Verdict(
        Outcome.RUNTIME_LOST,
        SessionState.RESET,
        ExecutionError(name="RuntimeLost", value=text),
        ErrorInfo(reason=EndReason.RUNTIME_LOST, metadata={"errorId": error_id, "mayHaveRun": "true"}),
        kernel_lost=True,
    )


def ending_reason(ending: Ending) -> EndReason:
    """The reason in the results of those whom it ends."""
    return {
        Ending.RESTART: EndReason.SESSION_RESET,
        Ending.DELETE_SESSION: EndReason.SESSION_DELETED,
        Ending.DELETE_RUNTIME: EndReason.RUNTIME_DELETED,
        Ending.RUNTIME_LOST: EndReason.RUNTIME_LOST,
    }[ending]


def because(verdict: Verdict) -> str:
    """What they are told who waited behind the one that ended like this."""
    return f"the kernel was lost: {verdict.error.value if verdict.error else verdict.outcome}"


def log_of(error: KernelStartFailed) -> str:
    """What the kernel wrote that did not start, as the end of a sentence."""
    return f"; it wrote: {error.log[-2000:]}" if error.log else ""
