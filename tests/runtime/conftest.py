"""A house with fake kernels, for each test its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellhouse import House
from tests.runtime.support import FakeWorld, Place, new_place, settings


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> FakeWorld:
    """From here on houses have fake kernels and fake walls."""
    made = FakeWorld()
    made.install(monkeypatch)
    return made


@pytest.fixture
async def house(fakes: FakeWorld, tmp_path: Path) -> AsyncIterator[House]:
    async with House(settings=settings(tmp_path / "state")) as made:
        yield made


@pytest.fixture
async def place(house: House, fakes: FakeWorld) -> Place:
    """A runtime in it."""
    return await new_place(house, fakes)
