"""Fixtures for the journal."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from cellhouse.journal import Journal
from tests.files.support import mounted_tmpfs
from tests.journal.support import ManualClock, opened


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
async def journal(directory: Path, clock: ManualClock) -> AsyncIterator[Journal]:
    async with opened(directory, clock) as made:
        yield made


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 4 MiB."""
    with mounted_tmpfs(tmp_path / "small", "4m") as place:
        yield place
