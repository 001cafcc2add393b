"""Which cells run, where it stops, and what the notebook says of it; without a kernel."""

from dataclasses import dataclass, field
from typing import Any

import nbformat
import pytest

from cellhouse.model import (
    CallReason,
    ErrorEvent,
    ExecuteCodeResult,
    ExecutionError,
    NotFound,
    Outcome,
    SessionState,
)
from cellhouse.notebooks import Cell, CellRun, Given, executed, failed, run_cells
from tests.notebooks.given import code, file_of, read, text
from tests.notebooks.support import SESSION, Records, note_of, notes, out, result_of


@dataclass
class Told:
    begun: list[int] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)

    def begins(self, number: int, cell: Cell) -> None:
        self.begun.append(number)

    def ended(self, run: CellRun) -> None:
        self.ends.append(run.status.value)


def ended(source: str) -> ExecuteCodeResult:
    """What code of one word does."""
    word, _, rest = source.partition(" ")
    if word == "gone":
        raise NotFound("there is no runtime", reason=CallReason.NO_SUCH_RUNTIME)
    if word == "raise":
        return result_of(outcome=Outcome.ERROR, execution_error=ExecutionError(name=rest, value="0"))
    if word == "die":
        state = SessionState.GONE if rest else SessionState.RESET
        error = ExecutionError(name="KernelDied", value="by a signal")
        return result_of(outcome=Outcome.KERNEL_DIED, execution_error=error, session_state=state)
    return result_of()


async def run(
    *cells: Any, keep_going: bool = False, stop_at: int = 99
) -> tuple[Given, list[CellRun], list[str]]:
    given, told = read(file_of(*cells)), Told()

    async def execute(source: str) -> ExecuteCodeResult:
        return ended(source)

    def stopped() -> str:
        return "the run was interrupted" if len(told.begun) >= stop_at else ""

    done = await run_cells(given, execute, told, keep_going=keep_going, stopped=stopped)
    return given, done, told.ends


async def test_cells_run_in_their_order_and_others_are_left_alone() -> None:
    _, done, ends = await run(text("x"), code("a"), code(" \n"), code("b", "skip-execution"), code("c"))
    assert ends == ["OK", "SKIPPED", "SKIPPED", "OK"]
    assert [each.number for each in done] == [2, 3, 4, 5]
    assert failed(done) is None


@pytest.mark.parametrize(
    ("cell", "keep_going", "ends"),
    [
        (code("raise ValueError"), False, ["OK", "FAILED", "NOT_RUN", "SKIPPED"]),
        (code("raise ValueError"), True, ["OK", "FAILED", "OK", "SKIPPED"]),
        (code("raise ValueError", "raises-exception"), False, ["OK", "RAISED", "OK", "SKIPPED"]),
        (code("b", "raises-exception"), False, ["OK", "OK", "OK", "SKIPPED"]),
        (code("die", "raises-exception"), False, ["OK", "FAILED", "NOT_RUN", "SKIPPED"]),
        (code("die"), True, ["OK", "FAILED", "OK", "SKIPPED"]),
        (code("die whole"), True, ["OK", "FAILED", "NOT_RUN", "SKIPPED"]),
        (code("gone"), True, ["OK", "NOT_RUN", "NOT_RUN", "SKIPPED"]),
        (code("raise SystemExit"), False, ["OK", "EXITED", "NOT_RUN", "SKIPPED"]),
        (code("raise SystemExit"), True, ["OK", "EXITED", "OK", "SKIPPED"]),
    ],
)
async def test_where_it_stops(cell: dict[str, Any], keep_going: bool, ends: list[str]) -> None:
    _, done, told = await run(code("a"), cell, code("c"), code(""), keep_going=keep_going)
    assert told == ends
    bad = failed(done)
    assert (bad is not None) == (told[1] in ("FAILED", "NOT_RUN"))
    assert bad is None or bad.number == 2


async def test_whoever_stops_it_stops_it_also_with_keep_going() -> None:
    _, done, ends = await run(code("a"), code("b"), code("c"), keep_going=True, stop_at=1)
    assert ends == ["OK", "NOT_RUN", "NOT_RUN"]
    assert done[1].why == "the run was interrupted"


async def notebook_of(given: Given, done: list[CellRun], records: Records) -> dict[str, Any]:
    made = await executed(records, given, done, session=SESSION, language="python", parameters={"a": 1})
    nbformat.validate(made, version=4, version_minor=5)
    return made


async def test_the_notebook_has_what_was_given_and_what_was_put_out() -> None:
    old = {"output_type": "stream", "name": "stdout", "text": "old\n"}
    given, done, _ = await run(
        text("x", attachments={"a": {"text/plain": "b"}}),
        code("a", "mine", outputs=[old], execution_count=8),
        code("b", "skip-execution", outputs=[old], execution_count=8),
        code("gone", outputs=[old], execution_count=8),
        metadata_free := code("c"),
    )
    assert metadata_free["metadata"] == {}
    made = await notebook_of(given, done, Records([out("new\n"), out("shown\n", source="display")]))
    first, ran, skipped, gone, after = made["cells"]
    assert first == given.cells[0]
    assert [each.get("text") or each["data"] for each in ran["outputs"]] == ["new\n", {"text/plain": "shown"}]
    assert (ran["execution_count"], ran["metadata"]["tags"], ran["id"]) == (1, ["mine"], "cell-1")
    assert (skipped["outputs"], skipped["execution_count"]) == ([old], 8)
    assert skipped["metadata"]["cellhouse"] == {"status": "SKIPPED"}
    for cell in (gone, after):
        assert (notes(cell["outputs"]), cell["execution_count"]) == (["[not run: there is no runtime]"], None)
    assert made["metadata"]["language_info"] == {"name": "python"}
    assert made["metadata"]["cellhouse"] == {"session": SESSION, "parameters": {"a": 1}}


async def test_a_death_is_a_note_and_an_error() -> None:
    given, done, _ = await run(code("die"))
    records = Records([out("before\n")], result=ended("die"))
    outputs = (await notebook_of(given, done, records))["cells"][0]["outputs"]
    assert [note_of(each) for each in outputs] == ["", "outcome", ""]
    assert (outputs[2]["output_type"], outputs[2]["ename"]) == ("error", "KernelDied")


async def test_an_interrupted_cell_has_its_traceback_once() -> None:
    error = ExecutionError(name="KeyboardInterrupt", value="", traceback=("frame",))
    result = result_of(outcome=Outcome.INTERRUPTED, execution_error=error)
    given, done, _ = await run(code("a"))
    records = Records([ErrorEvent(name="KeyboardInterrupt", value="", traceback=("frame",))], result=result)
    outputs = (await notebook_of(given, done, records))["cells"][0]["outputs"]
    assert sorted(note_of(each) or each["ename"] for each in outputs) == ["KeyboardInterrupt", "outcome"]
