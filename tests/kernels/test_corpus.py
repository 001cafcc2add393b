"""Cell by cell the native kernel tells what ipykernel tells, but where the corpus says otherwise."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from cellhouse.environments import Environment
from tests.kernels.cell import Cell
from tests.kernels.comparison import difference
from tests.kernels.corpus import GROUPS
from tests.kernels.differences import DIFFERENCES, WANTED
from tests.kernels.native import is_there
from tests.kernels.recording import Recording
from tests.kernels.running import record

EACH_CELL = pytest.mark.parametrize(
    ("group", "cell"),
    [pytest.param(group, cell, id=cell.name) for group, cells in GROUPS.items() for cell in cells],
)
Recordings = dict[str, list[Recording]]


class Beside:
    """Two kernels that record a whole group beside each other when its first cell is asked for."""

    def __init__(self, environment: Environment, directory: Path, kinds: Sequence[str]) -> None:
        self._environment, self._directory, self._kinds = environment, directory, kinds
        self._recorded: dict[str, list[Recordings]] = {}

    async def of(self, group: str, cell: Cell) -> list[list[Recording]]:
        """What each of the kernels told of this cell."""
        if group not in self._recorded:
            self._recorded[group] = await asyncio.gather(
                *(
                    record(kind, GROUPS[group], self._environment, self._directory / f"{group}-{number}")
                    for number, kind in enumerate(self._kinds, start=1)
                )
            )
        return [recordings[cell.name] for recordings in self._recorded[group]]


@pytest.fixture(scope="module")
def both(library_environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Beside:
    return Beside(library_environment, tmp_path_factory.mktemp("both"), ("ipykernel", "native"))


@pytest.fixture(scope="module")
def twice(library_environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Beside:
    return Beside(library_environment, tmp_path_factory.mktemp("twice"), ("ipykernel", "ipykernel"))


def test_each_cell_has_its_own_name_and_each_difference_a_cell() -> None:
    names = [cell.name for cells in GROUPS.values() for cell in cells]
    assert len(names) == len(set(names)) > 200
    assert set(DIFFERENCES) <= set(names)


def test_each_difference_is_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "kernels.md").read_text("utf-8")
    assert [reason for reason in WANTED if f"| {reason} |" not in text] == []


@EACH_CELL
@pytest.mark.native
@pytest.mark.skipif(not is_there(), reason="this checkout has no native kernel yet")
async def test_the_native_kernel_tells_what_ipykernel_tells(group: str, cell: Cell, both: Beside) -> None:
    reference, native = await both.of(group, cell)
    assert all(recording.ended for recording in native), "the cell had to be interrupted"
    found = difference(cell, reference, native)
    if cell.difference:
        assert found, f"told alike by now, so it can't be true any more that {cell.difference}"
    else:
        assert not found, f"{cell.name}:\n{cell.code}\n{found}"


@EACH_CELL
@pytest.mark.slow
async def test_ipykernel_tells_the_same_twice(group: str, cell: Cell, twice: Beside) -> None:
    """Else the normal form lacks something that chance decides."""
    one, other = await twice.of(group, cell)
    assert all(recording.ended for recording in [*one, *other])
    assert not difference(cell, one, other)
