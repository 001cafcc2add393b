"""Rules for all tests: a world of their own, and nothing left behind in the other one."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cellhouse.environments import Environment, find_environment
from cellhouse.model import CellhouseError
from tests.leftovers import left_behind, look

# Read before tests change anything about either: where this installation is, and what it is to be tested against.
SHARE = Path(sys.prefix, "share", "cellhouse")
GIVEN_ENVIRONMENTS = [
    Path(item) for item in os.environ.get("CELLHOUSE_ENV_PATH", "").split(os.pathsep) if item
]


# A shell ignores these for what it starts in the background, and so would all that tests start.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


LONGEST = (
    "cli",
    "kernels",
    "inside",
    "keepers",
    "attacks",
    "promises",
    "contract",
    "doctor",
    "sandbox",
    "client",
    "runtime",
)
"""Directories whose files take longest, most of it in processes that they start."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first: so no worker has a long file to itself at the end, and short ones fill what is left."""
    here = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        directory = item.path.relative_to(here).parts[0]
        return LONGEST.index(directory) if directory in LONGEST else len(LONGEST)

    items.sort(key=place)


@dataclass(frozen=True)
class World:
    """Directories of one test process, in place of the person's own. Each test has to leave them empty."""

    home: Path
    temporary: Path
    mark: str

    @property
    def directories(self) -> tuple[Path, Path]:
        return self.home, self.temporary


@pytest.fixture(scope="session", autouse=True)
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """HOME and TMPDIR are empty directories, and no setting of the person who runs the tests has a say."""
    # Made before TMPDIR points into it.
    base = tmp_path_factory.getbasetemp()
    made = World(base / "home", base / "tmp", f"{base}/")
    for directory in made.directories:
        directory.mkdir(mode=0o700)
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith(("CELLHOUSE_", "XDG_", "JUPYTER", "IPYTHON")):
                patch.delenv(name)
        patch.setenv("HOME", str(made.home))
        patch.setenv("TMPDIR", str(made.temporary))
        patch.setattr(tempfile, "tempdir", str(made.temporary))
        yield made


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest, world: World) -> Iterator[None]:
    """Fails a test that leaves a process, a thread, a descriptor or a file; `tmp_path` is the place for files.

    Whatever fixtures of a wider scope hold was there before, and so doesn't count. A test that has to leave something
    says so: `@pytest.mark.leaves(reason)`.
    """
    before = look(world.directories)
    yield
    if request.node.get_closest_marker("leaves"):
        return
    left = left_behind(before, directories=world.directories, mark=world.mark)
    if left:
        pytest.fail("the test left behind:\n  " + "\n  ".join(left), pytrace=False)


@pytest.fixture(scope="session")
def environment() -> Environment:
    """The kernel environment `default`. Where it is missing, tests fail and say what to do; they aren't skipped."""
    return _found("default", [*GIVEN_ENVIRONMENTS, SHARE / "environments"])


@pytest.fixture(scope="session")
def bash_environment() -> Environment:
    """A kernel environment with another language: its kernel `bash`."""
    return _found("bash-test", [*GIVEN_ENVIRONMENTS, SHARE / "test-environments"])


def _found(name: str, search: list[Path]) -> Environment:
    try:
        return find_environment(name, search)
    except CellhouseError as error:
        pytest.fail(f"{error}\nFor tests: make setup-dev", pytrace=False)
