"""The cells of a notebook run one after the other in one session: which run, and where it stops."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from cellhouse.model import CellhouseError, ExecuteCodeResult, Outcome, SessionState
from cellhouse.model.result import is_successful_exit
from cellhouse.notebooks.given import MAY_RAISE, Cell, Given, runs, tags_of


class CellStatus(StrEnum):
    """What became of a code cell."""

    OK = "OK"
    RAISED = "RAISED"
    """An exception that the tag `raises-exception` allows."""
    EXITED = "EXITED"
    """It ended itself, and with it the notebook, by a `sys.exit()` that says that all is well."""
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    """No code in it, or the tag `skip-execution`."""
    NOT_RUN = "NOT_RUN"


@dataclass(frozen=True, slots=True)
class CellRun:
    """One code cell. `number` counts all cells of the notebook from 1; `why` says what kept it from being run."""

    number: int
    cell: Cell
    status: CellStatus
    result: ExecuteCodeResult | None = None
    why: str = ""


class Watcher(Protocol):
    """Who is told of each cell: before it runs, and of what became of it."""

    def begins(self, number: int, cell: Cell) -> None: ...
    def ended(self, run: CellRun) -> None: ...


Execute = Callable[[str], Awaitable[ExecuteCodeResult]]
"""Runs code in the session, to its end. CellhouseError where that can't be asked for."""


async def run_cells(
    given: Given, execute: Execute, watcher: Watcher, *, keep_going: bool, stopped: Callable[[], str]
) -> list[CellRun]:
    """Run what is to be run. It stops at the first failure, unless it is to keep going, and wherever `stopped` gives a reason."""
    done: list[CellRun] = []
    stop = ""
    for number, cell in enumerate(given.cells, 1):
        if cell["cell_type"] != "code":
            continue
        stop = stop or stopped()
        if not runs(cell):
            run = CellRun(number, cell, CellStatus.SKIPPED)
        elif stop:
            run = CellRun(number, cell, CellStatus.NOT_RUN, why=stop)
        else:
            watcher.begins(number, cell)
            run = await _run(number, cell, execute)
            stop = _stops(run, keep_going)
        watcher.ended(run)
        done.append(run)
    return done


async def _run(number: int, cell: Cell, execute: Execute) -> CellRun:
    try:
        result = await execute(cell["source"])
    except CellhouseError as error:
        return CellRun(number, cell, CellStatus.NOT_RUN, why=error.message)
    return CellRun(number, cell, _status(cell, result), result)


def _status(cell: Cell, result: ExecuteCodeResult) -> CellStatus:
    if result.outcome is Outcome.OK:
        return CellStatus.OK
    if result.outcome is not Outcome.ERROR:
        return CellStatus.FAILED
    if MAY_RAISE in tags_of(cell):
        return CellStatus.RAISED
    error = result.execution_error
    well = error is not None and is_successful_exit(error.name, error.value)
    return CellStatus.EXITED if well else CellStatus.FAILED


def _stops(run: CellRun, keep_going: bool) -> str:
    """Why no later cell is run; "" where the next one is."""
    if run.status is CellStatus.NOT_RUN:
        return run.why
    result = run.result
    if result is None or run.status in (CellStatus.OK, CellStatus.RAISED):
        return ""
    if result.session_state is SessionState.GONE:
        return f"cell {run.number} ended as {result.outcome}, and its session is gone"
    if keep_going:
        return ""
    error = result.execution_error
    what = f" ({error.name}{f': {error.value[:200]}' if error.value else ''})" if error is not None else ""
    return f"cell {run.number} ended as {result.outcome}{what}"


def failed(done: list[CellRun]) -> CellRun | None:
    """The first cell that failed, or was not run though nothing before it had ended the notebook; None: all went well."""
    for run in done:
        if run.status is CellStatus.EXITED:
            return next((each for each in done if each.status is CellStatus.FAILED), None)
        if run.status in (CellStatus.FAILED, CellStatus.NOT_RUN):
            return run
    return None
