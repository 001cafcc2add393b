"""Every store that there is, through the suite that others run theirs through."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cellhouse.artifacts import ArtifactStore, LocalStore
from cellhouse.artifacts.testing import CHECKS, Check, StoreMaker
from cellhouse.model import ArtifactLimits, Clock
from tests.artifacts.in_memory import MemoryStore


def local(directory: Path, *, durable: bool) -> StoreMaker:
    number = iter(range(100))

    @asynccontextmanager
    async def opened(clock: Clock, limits: ArtifactLimits) -> AsyncIterator[ArtifactStore]:
        store = LocalStore(directory / str(next(number)), limits=limits, clock=clock, durable=durable)
        yield store
        await store.close()

    return opened


@asynccontextmanager
async def memory(clock: Clock, limits: ArtifactLimits) -> AsyncIterator[ArtifactStore]:
    yield MemoryStore(clock, limits)


@pytest.mark.parametrize("kind", ["local", "memory"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.__name__))
async def test_conformance(check: Check, kind: str, tmp_path: Path) -> None:
    await check(memory if kind == "memory" else local(tmp_path, durable=False))


async def test_a_durable_one_does_the_same(tmp_path: Path) -> None:
    await CHECKS[0](local(tmp_path, durable=True))
