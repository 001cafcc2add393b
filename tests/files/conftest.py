"""Fixtures for files: a tiny file system that can be filled, where this user may mount one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.files.support import mounted_tmpfs


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 1 MiB."""
    with mounted_tmpfs(tmp_path / "small") as place:
        yield place
