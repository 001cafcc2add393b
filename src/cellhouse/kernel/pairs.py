"""The pairs of pipes that a native kernel's text comes through, and whose text that is."""

import contextlib
import fcntl
import os
from typing import Literal

from cellhouse.kernel.marks import Lane
from cellhouse.kernel.outbox import close_all

STDOUT, STDERR = 0, 1
F_SETPIPE_SZ = 1031
LARGE_BYTES = 1 << 20
NAMES: tuple[Literal["stdout"], Literal["stderr"]] = ("stdout", "stderr")


class Pipe(Lane):
    """Our end of one pipe; `fd` is -1 once it is closed, `watched` says whether the loop looks at it.

    `large`: it holds as much as a pipe may. `resting`: it is not looked at for a moment, so that more gathers. `read_at`: when the loop last had it read,
    `frames`: how many frames had come by then.
    """

    __slots__ = ("fd", "frames", "large", "pair", "read_at", "resting", "watched")

    def __init__(self, stream: int, fd: int, pair: "Pair") -> None:
        super().__init__(stream)
        self.fd, self.pair = fd, pair
        self.watched = self.resting = self.large = False
        self.read_at = 0.0
        self.frames = 0

    def enlarge(self) -> None:
        """Let it hold more. Only where much comes: the system allows a user so many pages in all pipes together."""
        self.large = True
        with contextlib.suppress(OSError):  # it stays as it is
            fcntl.fcntl(self.fd, F_SETPIPE_SZ, LARGE_BYTES)

    def read(self, size: int) -> bytes | None:
        """What stands there, at most `size` bytes; None where nothing does, b"" at the end."""
        try:
            return os.read(self.fd, size)
        except BlockingIOError:
            return None


class Pair:
    """Pipes for stdout and stderr that a kernel gets together, and that the children it starts then keep."""

    __slots__ = ("holders", "old", "stderr", "stdout", "write_ends")

    def __init__(self, writer: tuple[int, int] | None = None) -> None:
        """Raises OSError, and leaves nothing. `write_ends` are the maker's to close.

        `writer` is the uid and gid of the kernel's process, where they are not ours: it may open /dev/stdout.
        """
        ends: list[int] = []
        try:
            for _ in NAMES:
                ends.extend(os.pipe())
                if writer is not None:
                    os.fchown(ends[-1], *writer)
        except OSError:
            close_all(ends)
            raise
        for fd in ends[::2]:
            os.set_blocking(fd, False)
        self.stdout, self.stderr = Pipe(STDOUT, ends[0], self), Pipe(STDERR, ends[2], self)
        self.write_ends = ends[1], ends[3]
        self.holders: set[str] = set()
        """Executions that are over, whose children may write here."""
        self.old = False
        """The kernel itself writes into another pair by now."""

    @property
    def pipes(self) -> tuple[Pipe, Pipe]:
        return self.stdout, self.stderr

    @property
    def open(self) -> bool:
        return self.stdout.fd >= 0 or self.stderr.fd >= 0

    def owner(self, running: str) -> str:
        """Whose text comes here while the kernel itself runs `running`: known where only one can have written it."""
        if self.old:
            running = ""
        if not self.holders:
            return running
        writers = self.holders | {running} if running else self.holders
        return next(iter(writers)) if len(writers) == 1 else ""
