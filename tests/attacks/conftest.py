"""One set of walls, and one host, for all probes of a file."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.attacks.host import Host, standing


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "walls: an attack or its counter-proof; all are run by `make test-walls`"
    )


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with a short name, for sockets."""
    with tempfile.TemporaryDirectory(dir=tmp_path_factory.getbasetemp(), prefix="a") as directory:
        yield Path(directory)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(short: Path) -> AsyncIterator[Host]:
    async with standing(short) as made:
        yield made
