"""Linux inotify(7): hints of what may have changed in directories. A hint only: events get lost, and mapped memory makes none."""

import ctypes
import os
import struct
from typing import Final, NamedTuple, Self

MODIFY: Final = 0x2
ATTRIB: Final = 0x4
CLOSE_WRITE: Final = 0x8
OPEN: Final = 0x20
MOVED_FROM: Final = 0x40
MOVED_TO: Final = 0x80
CREATE: Final = 0x100
DELETE: Final = 0x200
DELETE_SELF: Final = 0x400
MOVE_SELF: Final = 0x800
UNMOUNT: Final = 0x2000
OVERFLOW: Final = 0x4000
IGNORED: Final = 0x8000
IS_DIR: Final = 0x40000000
_ONLY_DIR: Final = 0x01000000
_EXCLUDE_UNLINKED: Final = 0x04000000
_MASK: Final = (
    MODIFY | ATTRIB | CLOSE_WRITE | OPEN | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF
    | _ONLY_DIR | _EXCLUDE_UNLINKED
)  # fmt: skip

_HEADER: Final = struct.Struct("iIII")
_READ_BYTES: Final = 1 << 16
_READS: Final = 64
"""Of one drain; code that makes events faster than they are read gets a walk instead."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.inotify_init1.argtypes = (ctypes.c_int,)
_libc.inotify_add_watch.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)


class Hint(NamedTuple):
    """One event: the watch of the directory, what happened, and the name in it."""

    watch: int
    mask: int
    name: bytes


class Inotify:
    """One instance. Never waits."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def open(cls) -> Self | None:
        """None where the host gives no more of them."""
        fd = int(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        return cls(fd) if fd >= 0 else None

    def watch(self, directory: int) -> int:
        """Watch the directory behind a descriptor; -1 where the host has no more watches, or it may not be read."""
        path = b"/proc/self/fd/%d" % directory
        return int(_libc.inotify_add_watch(self._fd, path, _MASK))

    def drain(self) -> list[Hint] | None:
        """The events since the last time; None where some were lost, or there are more than are taken."""
        hints: list[Hint] = []
        for _ in range(_READS):
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return hints
            at = 0
            while at < len(data):
                watch, mask, _, length = _HEADER.unpack_from(data, at)
                at += _HEADER.size
                if mask & (OVERFLOW | UNMOUNT):
                    hints.clear()
                    self._discard()
                    return None
                hints.append(Hint(watch, mask, data[at : at + length].rstrip(b"\0")))
                at += length
        self._discard()
        return None

    def _discard(self) -> None:
        for _ in range(_READS):
            try:
                os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
