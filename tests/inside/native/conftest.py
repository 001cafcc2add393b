"""A session over a native kernel of its own for each test, over the newest and the oldest IPython."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from cellhouse.environments import Environment
from tests.conftest import GIVEN_ENVIRONMENTS, SHARE, _found
from tests.contract.native_rig import native_rig
from tests.contract.rig import Rig
from tests.inside.versions.interpreter import Interpreter

SEARCH = [*GIVEN_ENVIRONMENTS, SHARE / "environments", SHARE / "test-environments"]
# `make test-versions` names others; read before tests change anything about it.
ENVIRONMENTS = os.environ.get("CELLHOUSE_NATIVE_ENVIRONMENTS", "default oldest-test").split()


@pytest.fixture(scope="session", params=ENVIRONMENTS)
def environment(request: pytest.FixtureRequest) -> Environment:
    """Each environment whose IPython a native kernel has to get along with."""
    return _found(request.param, SEARCH)


@pytest_asyncio.fixture
async def native(environment: Environment, tmp_path: Path) -> AsyncIterator[Rig]:
    async with native_rig(tmp_path, environment) as rig:
        yield rig


@pytest.fixture(scope="module")
def interpreter(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Interpreter]:
    """The environment's Python, with IPython imported and nothing of the native kernel."""
    made = Interpreter(environment.python, tmp_path_factory.mktemp("interpreter"))
    yield made
    made.close()
