"""A kernel environment for each Python and the oldest or newest IPython that it takes, kept from run to run."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cellhouse.environments import read_environment
from cellhouse.model import CellhouseError
from tests.inside.versions.pythons import Python

CACHE = Path(sys.prefix, "share", "cellhouse", "version-environments")
OLDEST = "8.18.1"
"""Of IPython; requirements/kernel-oldest-test.in has the same."""
BESIDES = ("comm", "matplotlib-inline")
LEAST_OF_OUR_PIP = (3, 10)
UNFINISHED = ".cellhouse-unfinished"
STAMP = ".cellhouse-stamp"


class CanNotBeMade(Exception):
    """An environment that pip or venv failed to make, with their last words."""


@dataclass(frozen=True, slots=True)
class Prefix:
    name: str
    path: Path
    python: Python
    ipython: str

    @property
    def interpreter(self) -> Path:
        return self.path / "bin" / "python"


def prefixes(python: Python, *, fresh: bool = False) -> Iterator[Prefix]:
    """With the newest IPython, and, where that is another one, with the oldest. Raises CanNotBeMade."""
    newest = make(python, "newest", "ipython", fresh=fresh)
    yield newest
    if newest.ipython != OLDEST:
        yield make(python, "oldest", f"ipython=={OLDEST}", fresh=fresh)


def make(python: Python, age: str, ipython: str, *, fresh: bool) -> Prefix:
    name = f"py{python.version[0]}{python.version[1]}-{age}"
    path = CACHE / name
    stamp = f"1 {python} {python.path} {path} {ipython}\n"
    if fresh or not _fits(path, stamp):
        print(f"making the environment {name}", flush=True)
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        (path / UNFINISHED).touch()
        own_pip = python.version[:2] < LEAST_OF_OUR_PIP
        options = [] if own_pip else ["--without-pip"]
        _do([str(python.path), "-m", "venv", str(path), *options])
        install(python, path / "bin" / "python", ipython, *BESIDES)
        (path / UNFINISHED).unlink()
        (path / STAMP).write_text(stamp)
    try:
        environment = read_environment(path)
    except CellhouseError as error:
        raise CanNotBeMade(str(error)) from error
    return Prefix(name, path, python, environment.ipython)


def install(python: Python, interpreter: Path, *what: str) -> None:
    """`pip install` into the environment of `interpreter`, or where the options in `what` say. Raises CanNotBeMade.

    With our own pip, or, into a Python that it does not know, with that Python's.
    """
    own_pip = python.version[:2] < LEAST_OF_OUR_PIP
    pip: list[str | Path] = (
        [interpreter, "-m", "pip"] if own_pip else [sys.executable, "-m", "pip", "--python", interpreter]
    )
    _do([*pip, "install", "-qq", "--disable-pip-version-check", "--no-input", *what])


def _fits(path: Path, stamp: str) -> bool:
    try:
        return (path / STAMP).read_text() == stamp
    except OSError:
        return False


def _do(argv: Sequence[str | Path]) -> None:
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise CanNotBeMade(f"{' '.join(map(str, argv))}:\n{done.stdout[-2000:]}")
