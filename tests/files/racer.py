"""A process that swaps names of a directory for others, as fast as the kernel lets it, until it is killed."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

# RENAME_EXCHANGE: both names are there at every moment, and each is now the one thing, now the other.
PROGRAM: Final = """
import ctypes, os, sys
swap = ctypes.CDLL(None, use_errno=True).renameat2
names = [os.fsencode(name) for name in sys.argv[1:]]
rounds = 0
while True:
    for here, there in zip(names[::2], names[1::2]):
        if swap(-100, here, -100, there, 2) and ctypes.get_errno() not in (2, 22):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    rounds += 1
    if rounds == 100:
        print("up", flush=True)
"""


@contextlib.contextmanager
def racing(directory: Path, swaps: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Names that are swapped in turn, relative to the directory. Raises where it did not go on to the end."""
    argv = [sys.executable, "-I", "-S", "-c", PROGRAM, *(name for pair in swaps for name in pair)]
    with subprocess.Popen(argv, cwd=directory, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            yield
            assert process.poll() is None, "the race ended too soon"
        finally:
            process.kill()
