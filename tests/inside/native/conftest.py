"""A session over a native kernel of its own for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from cellhouse.environments import Environment
from tests.contract.native_rig import native_rig
from tests.contract.rig import Rig


@pytest_asyncio.fixture
async def native(environment: Environment, tmp_path: Path) -> AsyncIterator[Rig]:
    async with native_rig(tmp_path, environment) as rig:
        yield rig
