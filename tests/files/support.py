"""What tests of files need again and again."""

import errno
from pathlib import Path


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
