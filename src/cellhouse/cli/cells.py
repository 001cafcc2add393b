"""Shows a notebook that is run: each cell as it begins and ends, and a summary of all."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from cellhouse.cli.run import Opened, RunOptions
from cellhouse.cli.service import drop_stdout
from cellhouse.cli.show import Show, size_text
from cellhouse.model import Event, TailFrame
from cellhouse.notebooks import Cell, CellRun, CellStatus, Given, failed, runs
from cellhouse.notebooks.text import quoted

LINE_CHARS: Final = 72
SUMMARY_CELLS: Final = 100
"""So many cells have a line of their own in the summary; of more, those that did not run well."""
_STYLES: Final = {
    CellStatus.OK: "green",
    CellStatus.RAISED: "green",
    CellStatus.EXITED: "bold",
    CellStatus.FAILED: "bold red",
    CellStatus.SKIPPED: "dim",
    CellStatus.NOT_RUN: "yellow",
}


class Progress:
    """What a person sees: output of the cells on standard output, everything else on standard error.

    Nothing with `--json`; where the notebook itself goes to standard output, all is on standard error. Where nobody reads
    standard output any more and there is a file to be written, the rest is not shown.
    """

    def __init__(self, given: Given, options: RunOptions, output: str | None) -> None:
        self._show = None if options.json else Show(out=sys.stderr if output == "-" else None)
        self._to_file = output not in (None, "-")
        self._name = given.name
        self._all = sum(1 for cell in given.cells if runs(cell))
        self._begun = 0

    def event(self, event: Event | TailFrame) -> None:
        if self._show is None:
            return
        try:
            self._show.event(event)
        except BrokenPipeError:
            if not self._to_file:
                raise
            self._show = None
            drop_stdout()

    def begins(self, number: int, cell: Cell) -> None:
        self._begun += 1
        first = next((line.strip() for line in cell["source"].splitlines() if line.strip()), "")
        line = quoted(first, LINE_CHARS)
        self._say(f"cell {number} ({self._begun} of {max(self._begun, self._all)}): {line}", "bold cyan")

    def ended(self, run: CellRun) -> None:
        if run.result is not None and run.status is CellStatus.FAILED:
            self._say(f"cell {run.number}: {_end(run)}", _STYLES[run.status])

    def remark(self, text: str) -> None:
        self._say(f"{self._name}: {text}" if self._name not in text else text, "yellow")

    def summary(self, done: list[CellRun], opened: Opened, output: str | None, saved: Iterable[Path]) -> None:
        """A line for each code cell, and what became of all."""
        for path in saved:
            self._say(f"saved: {path}", "green")
        short = len(done) <= SUMMARY_CELLS
        for run in done:
            if short or run.status not in (CellStatus.OK, CellStatus.SKIPPED):
                self._say(f"{run.number:>5}  {_end(run)}", _STYLES[run.status])
        counts = [(status, sum(run.status is status for run in done)) for status in CellStatus]
        told = ", ".join(f"{count} {_word(status)}" for status, count in counts if count) or "no code cells"
        written = f"; written to {output}" if output not in (None, "-") else ""
        self._say(f"{told}{written}; {opened.session} in {opened.state_dir or opened.place}", "dim")

    def _say(self, text: str, style: str) -> None:
        if self._show is not None:
            self._show.remark(text, style)


def _word(status: CellStatus) -> str:
    return status.value.lower().replace("_", " ") if status is not CellStatus.OK else "OK"


def _end(run: CellRun) -> str:
    """What became of a cell, on one line."""
    result = run.result
    if result is None:
        return f"{_word(run.status)}{f': {quoted(run.why, 200)}' if run.why else ''}"
    parts = [_word(run.status)]
    error = result.execution_error
    if error is not None:
        what = f"{error.name}: {error.value}" if error.value else error.name
        parts = [f"{parts[0]} ({result.outcome}): {quoted(what, 200)}"]
    if result.usage is not None and result.usage.wall_seconds is not None:
        parts.append(f"{result.usage.wall_seconds:.2f} s")
    if result.rich_outputs:
        size = sum(each.size_bytes for each in result.rich_outputs)
        parts.append(
            f"{len(result.rich_outputs)} rich output{'s' * (len(result.rich_outputs) > 1)}, {size_text(size)}"
        )
    if result.artifacts:
        parts.append(f"files: {', '.join(quoted(each.name, 60) for each in result.artifacts[:5])}")
    return "; ".join(parts)


def document_of(given: Given, done: list[CellRun], opened: Opened, output: str | None) -> dict[str, Any]:
    """`--json`: what became of each code cell. Keys without a value are left out."""
    return {
        "notebook": given.name,
        "session": opened.session,
        "ok": failed(done) is None,
        "cells": [_cell_document(run) for run in done],
        **({"output": output} if output is not None else {}),
        **({"stateDir": str(opened.state_dir)} if opened.state_dir is not None else {}),
        **({"remarks": given.remarks} if given.remarks else {}),
    }


def _cell_document(run: CellRun) -> dict[str, Any]:
    document: dict[str, Any] = {"number": run.number, "id": run.cell["id"], "status": run.status.value}
    if run.why:
        document["why"] = run.why
    if run.result is not None:
        document["result"] = run.result.to_wire()
    return document
