"""What tests of the journal need again and again."""

import contextlib
import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from cellhouse.journal import ExecutionLog, Journal, StartRecord
from cellhouse.model import (
    ErrorInfo,
    ExecuteCodeResult,
    ExecutionError,
    ExecutionState,
    Outcome,
    RetentionLimits,
    mint_uid,
    rfc3339,
)

SESSION = "runtimes/r/sessions/s"
RUNTIME = "runtimes/r"
WAIT = 10.0


class ManualClock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        self._monotonic = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds


@contextlib.asynccontextmanager
async def opened(
    directory: Path,
    clock: ManualClock | None = None,
    retention: RetentionLimits | None = None,
    **options: Any,
) -> AsyncIterator[Journal]:
    """A journal, closed in order."""
    journal = await Journal.open(
        directory, clock=clock or ManualClock(), retention=retention or RetentionLimits(), **options
    )
    try:
        yield journal
    finally:
        await journal.close()


def start(
    execution_id: str = "",
    *,
    name: str = "",
    code: str = "1 + 1",
    session: str = SESSION,
    target: Literal["session", "runtime"] = "session",
    clock: ManualClock | None = None,
) -> StartRecord:
    """A start record; the name is made from the id, or from the uid."""
    uid = mint_uid()
    return StartRecord(
        uid=uid,
        name=f"{session}/executions/{name or execution_id or uid}",
        session=session,
        runtime=session.partition("/sessions/")[0],
        execution_id=execution_id,
        code=code,
        code_sha256=digest(code),
        target=target,
        created=rfc3339((clock or ManualClock()).now()),
    )


def digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


def ok(log: ExecutionLog, **fields: Any) -> ExecuteCodeResult:
    """A result with outcome OK."""
    return ExecuteCodeResult(
        execution=log.name, session=SESSION, state=ExecutionState.FINISHED, outcome=Outcome.OK, **fields
    )


def failed(log: ExecutionLog, error: ExecutionError, **fields: Any) -> ExecuteCodeResult:
    return ExecuteCodeResult(
        execution=log.name,
        session=SESSION,
        state=ExecutionState.FINISHED,
        outcome=Outcome.ERROR,
        outcome_info=ErrorInfo(reason="CODE_RAISED"),
        execution_error=error,
        **fields,
    )


async def crash(journal: Journal) -> None:
    """Leave the directory as a killed owner does: nothing is said, nothing written any more, nothing truncated."""
    held = journal._held
    for log in list(journal._logs.values()):
        log.abandon()
    journal._closed = True
    held.index._unwritten.clear()
    await held.run(lambda: held.index.finish(closed=False))
    held.index.close()
    held.graveyard._writer.close(keep_reserve=True)
    held.lock.close()


def record_file(directory: Path, uid: str) -> Path:
    (found,) = (directory / "executions").glob(f"*/{uid}.rec")
    return found
