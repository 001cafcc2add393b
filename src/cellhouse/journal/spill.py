"""Whole texts kept beside a record, for paging."""

import os
from pathlib import Path

from cellhouse.files import DiskFull, takes_nothing


class SpillBudget:
    """Bytes that the texts of one execution may still take together."""

    __slots__ = ("left",)

    def __init__(self, limit: int) -> None:
        self.left = limit


class SpillWriter:
    """Appends to one text. Made on the first write, so that a file that is there begins at the text's beginning."""

    __slots__ = ("_budget", "_fd", "_kept", "_path")

    def __init__(self, path: Path, budget: SpillBudget) -> None:
        self._path = path
        self._budget = budget
        self._fd = -1
        self._kept = 0

    @property
    def bytes_kept(self) -> int:
        """Bytes in the file."""
        return self._kept

    @property
    def limit(self) -> int:
        """Bytes that this text could have at most, as things stand."""
        return self._kept + self._budget.left

    def write(self, data: bytes) -> int:
        """Append; the bytes kept, fewer than given where the budget ends, then cut before a character.

        Raises DiskFull; the text is then as it was before.
        """
        part = _whole_characters(data, self._budget.left)
        if not part:
            return 0
        if self._fd < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                self._fd = os.open(self._path, flags, 0o600)
            except OSError as error:
                if takes_nothing(error):
                    raise DiskFull(str(self._path), error.errno or 0) from error
                raise
        done = 0
        try:
            while done < len(part):
                done += os.pwrite(self._fd, part[done:] if done else part, self._kept + done)
        except OSError as error:
            self._undo()
            if takes_nothing(error):
                raise DiskFull(str(self._path), error.errno or 0) from error
            raise
        self._kept += done
        self._budget.left -= done
        return done

    def _undo(self) -> None:
        os.ftruncate(self._fd, self._kept)
        if not self._kept:
            self.close()
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _whole_characters(data: bytes, size: int) -> bytes:
    """At most `size` bytes, cut before the character that doesn't fit."""
    if len(data) <= size:
        return data
    while size > 0 and data[size] & 0xC0 == 0x80:
        size -= 1
    return data[:size]
