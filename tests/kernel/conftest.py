"""Kernels in plain processes, closed after each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.kernel.native_support import Natives
from tests.kernel.support import Kernels


@pytest.fixture
async def kernels(tmp_path: Path) -> AsyncIterator[Kernels]:
    made = Kernels(tmp_path)
    yield made
    await made.close()


@pytest.fixture
async def natives(tmp_path: Path) -> AsyncIterator[Natives]:
    made = Natives(tmp_path)
    yield made
    await made.close()
