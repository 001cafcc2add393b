"""A sandbox of each level, started and ended."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellhouse.sandbox.registry import create_sandbox
from cellhouse.sandbox.supervised import SupervisedSandbox
from tests.sandbox.support import spec

LEVELS = ("none", "bubblewrap")


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def sandbox(level: str, tmp_path: Path) -> AsyncIterator[SupervisedSandbox]:
    made = create_sandbox(level, spec(tmp_path / "state"))
    assert isinstance(made, SupervisedSandbox)
    async with made:
        yield made


@pytest.fixture
async def walls(tmp_path: Path) -> AsyncIterator[SupervisedSandbox]:
    """Bubblewrap only."""
    made = create_sandbox("bubblewrap", spec(tmp_path / "state"))
    assert isinstance(made, SupervisedSandbox)
    async with made:
        yield made
