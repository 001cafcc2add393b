"""A notebook of executions: nbformat 4.5, one code cell each, in the order in which they are given."""

from collections.abc import AsyncIterator
from typing import Any

from cellhouse.notebooks.cell import CellMaker, cell_id
from cellhouse.notebooks.limits import BookLimits, Room
from cellhouse.notebooks.notes import MARK
from cellhouse.notebooks.source import Asked, Source

_HEAD = (
    "# {name}\n\n"
    "What was executed, exported by Cellhouse from its record. Outputs in square brackets whose metadata have the key "
    "`cellhouse` are notes of the exporter; the code has no say in them."
)


async def notebook(
    source: Source, name: str, asked: AsyncIterator[Asked], limits: BookLimits | None = None
) -> dict[str, Any]:
    """The notebook as a JSON-ready object. `name` is that of the session or execution it is of.

    Bundles are read one at a time. What is past the limits is a note in its place.
    """
    room = Room(limits or BookLimits())
    cells = [_markdown(f"{name} head", _HEAD.format(name=f"`{name}`"))]
    left_over = 0
    async for each in asked:
        if len(cells) > room.limits.cells:
            left_over += 1
            continue
        cells.append(await CellMaker(source, each, room).make())
    if len(cells) == 1:
        cells.append(_markdown(f"{name} none", "(Nothing is on record that was executed here.)"))
    if left_over:
        text = f"({left_over:,} further executions are not shown: a notebook takes {room.limits.cells:,}.)"
        cells.append(_markdown(f"{name} more", text))
    return {
        "cells": cells,
        "metadata": {"title": name, MARK: {"exported": name}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _markdown(key: str, text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": cell_id(key), "metadata": {MARK: {"note": "head"}}, "source": text}
