"""A service with fake kernels, for each test its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.doors.support import Door, opened
from tests.runtime.conftest import fakes
from tests.runtime.support import FakeWorld

__all__ = ["fakes"]


@pytest.fixture
async def door(fakes: FakeWorld, tmp_path: Path) -> AsyncIterator[Door]:
    """With one runtime in it."""
    async with opened(fakes, tmp_path / "state") as made:
        await made.make(runtimeId="here")
        yield made
