"""At most once: finding the execution that an executionId already names."""

import hashlib

from cellhouse.journal import ExecutionLog, Journal, LogState, Tombstone
from cellhouse.model import (
    AlreadyExists,
    CallReason,
    CellhouseError,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    ExecutionName,
    Internal,
    Late,
    NotFound,
    Unavailable,
)
from cellhouse.runtime.logs import logger

_logger = logger()


def code_digest(code: str) -> str:
    """What stands for the code in records and tombstones."""
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()


def known_execution(journal: Journal, request: ExecuteCodeRequest) -> ExecutionName | None:
    """The execution that has the request's executionId in its session (or runtime) already; None where none has.

    ALREADY_EXISTS where it ran other code. NOT_FOUND, EVICTED, where its record is gone: it is not run again.
    """
    if not request.execution_id:
        return None
    check_readable(journal)
    found = journal.find(session=request.session, runtime=request.runtime, execution_id=request.execution_id)
    if found is None:
        return None
    if found.code_sha256 != code_digest(request.code):
        raise AlreadyExists(
            f"executionId {request.execution_id!r} was used for other code in {request.session or request.runtime}; "
            "use a new id for new code",
            reason=CallReason.EXECUTION_ID_REUSED,
        )
    if isinstance(found, Tombstone):
        raise NotFound(
            f"executionId {request.execution_id!r} ran before and its record was evicted; it is not run again. "
            "Use a new id to run the code anew",
            reason=CallReason.EVICTED,
        )
    return ExecutionName.parse(found.name)


def recorded_result(log: ExecutionLog, late: Late | None = None) -> ExecuteCodeResult | None:
    """The frozen result, with what background work put out since beside it; None before the end."""
    result = log.finished
    if result is None:
        return None
    late = late or log.late()
    return result if late is None else result.model_copy(update={"late": late})


def no_end(log: ExecutionLog) -> CellhouseError:
    """Why a log that nobody writes any more tells of no end."""
    if log.state is LogState.ABANDONED:
        return Unavailable(f"{log.name}: the house was closed", reason=CallReason.SHUTTING_DOWN)
    error = Internal(
        f"{log.name} has no end on record, for it could not be written; the next start of the service writes it",
        execution=log.name,
    )
    _logger.error("an execution without an end was asked for", execution=log.name, error_id=error.error_id)
    return error


def unreadable(log: ExecutionLog, seq: int) -> CellhouseError:
    """For a record that counts an event which is not to be had from it."""
    error = Internal(f"{log.name}: event {seq} can't be read from its record", execution=log.name)
    _logger.error("a record misses an event", execution=log.name, seq=seq, error_id=error.error_id)
    return error


def check_readable(journal: Journal) -> None:
    """UNAVAILABLE where its house was closed, and somebody still asks."""
    if journal.closed:
        raise Unavailable(
            "the house was closed; the next one on its directory has its records",
            reason=CallReason.SHUTTING_DOWN,
        )


def find_log(journal: Journal, name: ExecutionName) -> ExecutionLog:
    """The log of an execution. NOT_FOUND says whether it never was, or was evicted."""
    check_readable(journal)
    log = journal.get(str(name))
    if log is not None:
        return log
    if journal.was_evicted(str(name)):
        raise NotFound(f"the record of {name} was evicted", reason=CallReason.EVICTED)
    raise NotFound(f"there is no execution {name}", reason=CallReason.NO_SUCH_EXECUTION)
