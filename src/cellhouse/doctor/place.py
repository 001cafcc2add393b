"""The throw-away directory that one run of doctor works in, where state lives; what a killed one left is removed."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cellhouse.runtime.store import remove_tree
from cellhouse.sandbox import remove_leftovers

DIRECTORY: Final = "doctor"
LOCK: Final = "lock"
WALLS: Final = "walls"
HOUSE: Final = "house"


@contextlib.contextmanager
def working_in(root: Path) -> Iterator[Path]:
    """A new directory below `root`/doctor, held while it is in use. OSError where none can be made. Blocks."""
    parent = root / DIRECTORY
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for entry in sorted(parent.iterdir()):
        _remove_unless_held(entry)
    made = Path(tempfile.mkdtemp(dir=parent))
    try:
        with (made / "unlocked").open("x") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.rename(made / "unlocked", made / LOCK)  # under this name it is never seen without its lock
            yield made
    finally:
        _remove(made)
        with contextlib.suppress(OSError):  # another run is at work in it
            parent.rmdir()


def _remove_unless_held(directory: Path) -> None:
    try:
        lock = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # just being made, or being removed
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(OSError):  # what resists is tried again by the next run
            _remove(directory)
    except BlockingIOError:
        return
    finally:
        os.close(lock)


def _remove(directory: Path) -> None:
    """What sandboxes left first: disks may still be mounted in it."""
    for runtime in [*directory.glob(f"{WALLS}/*"), *directory.glob(f"{HOUSE}/runtimes/*")]:
        if runtime.is_dir() and not runtime.is_symlink():
            remove_leftovers(runtime)
            remove_tree(runtime)
    remove_tree(directory)
