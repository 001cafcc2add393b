"""Keepers over real kernels: one template for all tests of a file, a state directory for each test."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from cellhouse.environments import Environment
from cellhouse.keepers import KeptHouse, Template
from tests.keepers.disk import Disk
from tests.keepers.support import ready, settings


@pytest.fixture(scope="module")
def template() -> Iterator[Template]:
    made = Template()
    try:
        ready(made)
        yield made
    finally:
        made.close()


@pytest.fixture
async def kept(template: Template, environment: Environment, tmp_path: Path) -> AsyncIterator[KeptHouse]:
    """A kept house with the runtime `runtimes/here`."""
    async with KeptHouse(settings(tmp_path / "state", environment), template=template) as house:
        await house.create_runtime(runtime_id="here")
        yield house


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[Disk]:
    made = Disk(tmp_path)
    made.mount()
    yield made
    await made.unmount(all_of_it=True)
