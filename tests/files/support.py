"""What tests of files need again and again."""

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


def names(directory: Path) -> list[str]:
    """The names in a directory, in order."""
    return sorted(path.name for path in directory.iterdir())


def descriptors() -> list[str]:
    """The descriptors that this process has open."""
    return names(Path("/proc/self/fd"))


def fill(directory: Path) -> None:
    """Use up every byte that is left on the file system of `directory`."""
    with open(directory / "filler", "ab", buffering=0) as filler:
        for size in (1 << 16, 4_096, 1):
            try:
                while True:
                    filler.write(b"f" * size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def make_room(directory: Path) -> None:
    """Undo `fill`."""
    (directory / "filler").unlink()


@contextlib.contextmanager
def mounted_tmpfs(place: Path, size: str = "1m") -> Iterator[Path]:
    """A file system that can be filled; the test is skipped where it can't be mounted."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)
