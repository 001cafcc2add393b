"""One set of walls, and one host, for all probes of a file."""

import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.attacks.host import Host, standing


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "walls: an attack or its counter-proof; all are run by `make test-walls`"
    )


# What may be left out: things that this machine has not, and counter-proofs that root's run has given.
SKIPPED = ("this machine has no ", "this kernel has no ", "is for ", "only root can do it", "not root: ")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """An attack that is left out though it could be tried here is a failure."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not reason.startswith(SKIPPED):
            report.outcome = "failed"
            report.longrepr = f"left out for no good reason: {reason}"
    return report


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with a short name, for sockets."""
    with tempfile.TemporaryDirectory(dir=tmp_path_factory.getbasetemp(), prefix="a") as directory:
        yield Path(directory)


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def loop() -> None:
    """A module's loop, made before a test could be taken for the one that left it."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(short: Path) -> AsyncIterator[Host]:
    async with standing(short) as made:
        yield made
