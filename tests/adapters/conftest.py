"""Adapters in the frameworks that they are for, which are in a prefix of their own: `make test-adapters`."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import pytest

from cellhouse import House
from cellhouse.environments import Environment
from cellhouse.runners import BlockingRunner, SessionCodeRunner
from tests.runners.support import settings_of

# Elsewhere there is nothing here to collect.
collect_ignore_glob = [] if all(map(find_spec, ("agents", "langchain_core", "smolagents"))) else ["test_*.py"]


class HouseRunner(SessionCodeRunner):
    """A runner with a house of its own, in a given place."""

    def __init__(self, directory: Path, environment: Environment, **options: object) -> None:
        self.made = House(settings=settings_of(directory, environment))
        super().__init__(self.made, data_bytes=1_000_000, **options)  # type: ignore[arg-type]

    async def __aenter__(self) -> Self:
        await self.made.__aenter__()
        return self

    async def close(self) -> None:
        await super().close()
        await self.made.close()


@pytest.fixture
def runner(tmp_path: Path, environment: Environment) -> HouseRunner:
    """Not entered yet."""
    return HouseRunner(tmp_path, environment)


@pytest.fixture
def blocking(runner: HouseRunner) -> Iterator[BlockingRunner]:
    with BlockingRunner(runner) as made:
        yield made
