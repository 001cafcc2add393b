"""The corpus: cells of everything that people do in a notebook, in groups that share a kernel."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.kernels.cell import Cell
from tests.kernels.cells import (
    asking,
    children,
    concurrency,
    displays,
    errors,
    libraries,
    magics,
    text,
    values,
    world,
)
from tests.kernels.differences import DIFFERENCES


def _told(cells: Sequence[Cell]) -> list[Cell]:
    return [replace(cell, difference=DIFFERENCES.get(cell.name, "")) for cell in cells]


GROUPS: Mapping[str, Sequence[Cell]] = {
    "values": _told(values.CELLS),
    "text": _told(text.CELLS),
    "displays": _told(displays.CELLS),
    "errors": _told(errors.CELLS),
    "magics": _told(magics.CELLS),
    "children": _told(children.CELLS),
    "asking": _told(asking.CELLS),
    "concurrency": _told(concurrency.CELLS),
    "world": _told(world.CELLS),
    "libraries": _told(libraries.CELLS),
}
