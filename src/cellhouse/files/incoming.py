"""A file on its way into a directory that hostile code writes to: whole under its name, or not there at all."""

import contextlib
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from cellhouse.files.errors import disk_full_named


@dataclass(frozen=True, slots=True)
class Written:
    """What was put down: bytes and their SHA-256 in hex."""

    size: int
    sha256: str
    # As it was when it had its name.
    seen: os.stat_result | None = field(default=None, compare=False)


class Incoming:
    """Written under a passing name in the directory of its own, then given its name. From any thread, one at a time.

    Ends with `commit` or `discard`; each call after that does nothing.
    """

    def __init__(
        self,
        parent: int,
        fd: int,
        *,
        passing: bytes,
        name: bytes,
        label: str,
        mode: int,
        owner: tuple[int, int] | None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """Takes over both descriptors: of the directory, and of the new file in it. `on_end`: the passing name is none any more."""
        self._on_end = on_end
        self._parent, self._fd = parent, fd
        self._passing, self._name, self._label = passing, name, label
        self._mode, self._owner = mode, owner
        self._digest = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        """Of what was written so far, in hex."""
        return self._digest.hexdigest()

    def write(self, data: bytes | memoryview) -> None:
        """Add every byte. Raises DiskFull."""
        with disk_full_named(self._label):
            self._digest.update(data)
            self.size += write_all(self._fd, data)

    def commit(self) -> Written:
        """Put it in place at once; what stood there is replaced. Raises IsADirectoryError where a directory stands there."""
        with disk_full_named(self._label):
            if self._owner is not None:
                os.fchown(self._fd, *self._owner)
            if os.fstat(self._fd).st_mode & 0o7777 != self._mode:  # the umask took some of it
                os.fchmod(self._fd, self._mode)
            os.rename(self._passing, self._name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
            seen = os.fstat(self._fd)
        self._close()
        return Written(self.size, self.sha256, seen)

    def discard(self) -> None:
        """Take it away, unless it was committed."""
        if self._fd < 0:
            return
        # The code inside may have taken the passing name away or locked the directory; then it is its own.
        with contextlib.suppress(OSError):
            os.unlink(self._passing, dir_fd=self._parent)
        self._close()

    def _close(self) -> None:
        parent, self._parent = self._parent, -1
        fd, self._fd = self._fd, -1
        os.close(fd)
        os.close(parent)
        self._on_end()


def write_all(fd: int, data: bytes | memoryview) -> int:
    """Write every byte; the number of them."""
    view = memoryview(data).cast("B")
    done = 0
    while done < len(view):
        done += os.write(fd, view[done:])
    return done
