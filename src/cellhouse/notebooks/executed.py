"""The notebook that was given, with what its cells put out: nbformat 4.5."""

from collections.abc import Sequence
from typing import Any

from cellhouse.model import CellhouseError
from cellhouse.notebooks.cell import CellMaker
from cellhouse.notebooks.given import Cell, Given
from cellhouse.notebooks.limits import BookLimits, Room
from cellhouse.notebooks.notes import MARK, NotebookOutput, note
from cellhouse.notebooks.parameters import storable
from cellhouse.notebooks.running import CellRun, CellStatus
from cellhouse.notebooks.source import Asked, Source

WIDGETS = "application/vnd.jupyter.widget-state+json"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


async def executed(
    source: Source,
    given: Given,
    done: Sequence[CellRun],
    *,
    session: str,
    language: str = "",
    parameters: dict[str, Any] | None = None,
    limits: BookLimits | None = None,
) -> dict[str, Any]:
    """The notebook as a JSON-ready object. Displays stand in their last state, whichever cell updated them.

    Cells, ids and metadata are those given. A cell that was run has its outputs as `cellhouse export` makes them, with notes
    for what is not there; one that was not run has none but a note of why.
    """
    room = Room(limits or BookLimits())
    cells = list(given.cells)
    for run in done:
        cells[run.number - 1] = await _cell(source, run, room)
    metadata = dict(given.metadata)
    if language and "language_info" not in metadata:
        metadata["language_info"] = {"name": language}
    metadata.pop("widgets", None)  # those of an earlier run
    ours: dict[str, Any] = {"session": session}
    if parameters:
        ours["parameters"] = storable(parameters)
    metadata[MARK] = ours
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": given.minor}


async def _cell(source: Source, run: CellRun, room: Room) -> Cell:
    cell = dict(run.cell)
    if run.status is CellStatus.SKIPPED:
        return {**cell, "metadata": {**cell["metadata"], MARK: {"status": f"{run.status}"}}}
    # What an earlier run said of its times is not so of this one.
    kept = {key: value for key, value in cell["metadata"].items() if key != "execution"}
    ours: dict[str, Any] = {"status": f"{run.status}"}
    if run.result is None:
        why = note("notRun", f"not run: {run.why}")
        return {**cell, "metadata": {**kept, MARK: ours}, "execution_count": None, "outputs": [why]}
    try:
        ran = await CellMaker(source, Asked(run.result.execution), room).ran()
    except CellhouseError as error:
        gone = note("gone", f"what this cell put out can't be read: {error.message}")
        ours["execution"] = run.result.execution
        return {**cell, "metadata": {**kept, MARK: ours}, "execution_count": None, "outputs": [gone]}
    metadata = {**kept, **ran.metadata, MARK: {**ran.metadata[MARK], **ours}}
    outputs = [output for output in ran.outputs if not _clearing(output)]
    return {**cell, "metadata": metadata, "execution_count": ran.count, "outputs": outputs}


def _clearing(output: NotebookOutput) -> bool:
    """A cell that clears its own output does as notebooks do; `metadata.cellhouse.cleared` has how much that was."""
    marked = output.get("metadata", {}).get(MARK)
    return isinstance(marked, dict) and marked.get("note") == "cleared"


def shows_widgets(notebook: dict[str, Any]) -> bool:
    """Whether any output is the view of a widget, which a reader can show only with the widgets' state."""
    return any(
        WIDGET_VIEW in output.get("data", {})
        for cell in notebook["cells"]
        for output in cell.get("outputs", ())
    )
