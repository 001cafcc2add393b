"""What can be wrong with a file that we did not make ourselves.

FileError
├── HostilePath      the path itself is refused: absolute, "..", empty, NUL, too long, a bad escape
├── PathEscapes      a component is a symbolic link, or leads into another mount
├── NotRegularFile   a directory, fifo, socket or device stands where a regular file is needed
├── FileTooLarge     the file has more bytes than the reader may take
├── FileBusy         somebody holds a lease that would make us wait
└── NotRecords       the file does not begin as a record file does
RecordTooLong (a ValueError)   one record can't hold that much
DiskFull (an OSError)   no space, the quota is used up, or the disk is read-only by now
"""

import errno
import os
from types import TracebackType

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
# What a kernel makes of a disk that fails, and what an operator does to one: like a full one it keeps all it has.
_TAKES_NOTHING = _DISK_FULL | {errno.EROFS}


class FileError(Exception):
    """Base of everything that `files` refuses to do; a missing file stays a plain FileNotFoundError."""


class HostilePath(FileError):
    """The path may not be used at all, whatever stands there."""


class PathEscapes(FileError):
    """Following the path would leave the directory that is held."""


class NotRegularFile(FileError):
    """Something that is no regular file stands at the path; it was not opened."""


class FileTooLarge(FileError):
    """The file has more than `limit` bytes; `size` is what it had when it was looked at."""

    def __init__(self, name: str, size: int, limit: int) -> None:
        super().__init__(f"{name} has {size} bytes and the reader takes at most {limit}; read it in ranges")
        self.size = size
        self.limit = limit


class FileBusy(FileError):
    """Opening would have waited for another process (a lease); we never wait for a hostile neighbour."""


class NotRecords(FileError):
    """The file lacks the mark that every record file begins with."""


class RecordTooLong(ValueError):
    """The payload of a record is longer than one may be; nothing was written."""


class DiskFull(OSError):
    """ENOSPC, EDQUOT or EROFS: nothing that was there before is damaged."""

    def __init__(self, name: str, code: int = errno.ENOSPC) -> None:
        super().__init__(code, os.strerror(code), name)

    def __str__(self) -> str:
        if self.errno == errno.EROFS:
            return f"{self.filename} can't be written ({self.strerror}); {self.remedy}"
        return f"no space is left for {self.filename} ({self.strerror}); free space or raise the quota"

    @property
    def state(self) -> str:
        """What is the matter with the disk."""
        return "read-only" if self.errno == errno.EROFS else "full"

    @property
    def remedy(self) -> str:
        return "make it writable again" if self.errno == errno.EROFS else "free some space"


def is_disk_full(error: OSError) -> bool:
    """True where `error` says that space or quota ran out."""
    return error.errno in _DISK_FULL


def takes_nothing(error: OSError) -> bool:
    """True where `error` says that the disk takes nothing more: it is full, or read-only."""
    return error.errno in _TAKES_NOTHING


class disk_full_named:  # noqa: N801  # read as what it does: `with disk_full_named(path):`
    """Turns ENOSPC, EDQUOT and EROFS of its block into DiskFull, which names the file. Cheap: it is around every write."""

    __slots__ = ("_name",)

    def __init__(self, name: str | os.PathLike[str]) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError) and not isinstance(error, DiskFull) and takes_nothing(error):
            raise DiskFull(os.fspath(self._name), error.errno or errno.ENOSPC) from error
