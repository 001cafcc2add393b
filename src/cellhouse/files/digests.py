"""The SHA-256 of a file that hostile code may write to: by pieces, and without reading the holes of a sparse one."""

import errno
import hashlib
import os
from typing import Final

_BLOCK: Final = 1 << 20
_ZEROS: Final = bytes(_BLOCK)


class FileDigest:
    """Of the file as it is while it is read. From any thread, one at a time; the descriptor stays the caller's.

    `size` is what has been taken in. Whoever calls decides how much is too much: a file may grow for ever.
    """

    def __init__(self, fd: int) -> None:
        self._fd, self._hash = fd, hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        """Of what has been taken in, in hex."""
        return self._hash.hexdigest()

    def advance(self, most: int) -> bool:
        """Take in at most so many bytes more; False once the end has come. Blocks. OSError."""
        until = self.size + most
        while self.size < until:
            if (hole := min(self._data(), until) - self.size) > 0:
                self._take(memoryview(_ZEROS)[: min(hole, _BLOCK)])
                continue
            block = os.pread(self._fd, min(_BLOCK, until - self.size), self.size)
            if not block:
                return False
            self._take(block)
        return True

    def _take(self, block: bytes | memoryview) -> None:
        self._hash.update(block)
        self.size += len(block)

    def _data(self) -> int:
        """Where there is something other than a hole, from here on; the end of the file where there is nothing."""
        try:
            return os.lseek(self._fd, self.size, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # a file system that tells of no holes
                return self.size
            return os.fstat(self._fd).st_size
