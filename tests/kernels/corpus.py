"""The corpus: cells of everything that people do in a notebook, in groups that share a kernel."""

from collections.abc import Mapping, Sequence

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

GROUPS: Mapping[str, Sequence[Cell]] = {
    "values": values.CELLS,
    "text": text.CELLS,
    "displays": displays.CELLS,
    "errors": errors.CELLS,
    "magics": magics.CELLS,
    "children": children.CELLS,
    "asking": asking.CELLS,
    "concurrency": concurrency.CELLS,
    "world": world.CELLS,
    "libraries": libraries.CELLS,
}
