"""Files of /content in and out by pieces, with every read and write in a thread and none of them unbounded."""

import contextlib
import os
import stat
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from cellhouse.files import (
    DiskFull,
    FileDigest,
    FileError,
    HostileDir,
    Incoming,
    ScanEntry,
    Written,
    exact_name,
    relative_path,
    unescape_name,
)
from cellhouse.files.threads import in_thread
from cellhouse.model import (
    CallReason,
    FailedPrecondition,
    FileEntry,
    FileList,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    rfc3339,
)

BLOCK = 1 << 20
DIGEST_BYTES = 32 << 20
"""Taken into a digest before anybody may change his mind: some hundredths of a second."""
LISTED = 10_000
"""Names of one listing; where there are more, it says so."""
OUTPUTS_DIR = b".dsm_outputs"


@contextlib.contextmanager
def told_of_file(path: str) -> Iterator[None]:
    """What can be wrong with a path of a caller's, or with what stands there, in the words of the contract."""
    try:
        yield
    except DiskFull as error:
        remedy = "remove some files" if error.state == "full" else error.remedy
        raise ResourceExhausted(
            f"{path} can't be written: the disk of /content is {error.state}; {remedy}",
            reason=CallReason.SERVER_DISK_FULL,
            limit="/content",
            server=True,
        ) from None
    except FileNotFoundError:
        raise NotFound(f"there is no {path[:200]!a} in /content", reason=CallReason.NO_SUCH_FILE) from None
    except FileError as error:
        raise InvalidArgument.of_field("path", f"{error}") from None
    except (IsADirectoryError, NotADirectoryError, PermissionError) as error:
        # Not in its own words, which name directories of the host.
        raise InvalidArgument.of_field("path", f"{path[:200]!a}: {error.strerror}") from None


def begin(content: HostileDir, path: str) -> Incoming:
    """A new file in place of whatever stands at `path`; directories that are missing are made."""
    relative_path(path)  # all of it, before a directory is made for the first part
    if "/" in path:
        content.subdir(path.rpartition("/")[0], create=True).close()
    return content.incoming(path)


async def receive(
    content: HostileDir,
    path: str,
    chunks: AsyncIterable[bytes],
    *,
    limit: int,
    sha256: str = "",
    commit: Callable[[Incoming, str], Awaitable[Written]],
) -> Written:
    """Write a file whole from pieces as they come. It is there when all has come, and has the digest asked for.

    `commit` gives it its name.
    """
    with told_of_file(path):
        incoming = begin(content, path)
        try:
            waiting, size = bytearray(), 0
            async for chunk in chunks:
                size += len(chunk)
                if size > limit:
                    raise InvalidArgument.of_field(
                        "body",
                        f"{path[:200]!a} has more than {limit} bytes, which is the limit (file_bytes); send it in parts",
                        reason=CallReason.BODY_TOO_LARGE,
                    )
                waiting += chunk
                if len(waiting) >= BLOCK:
                    block, waiting = waiting, bytearray()
                    await in_thread(incoming.write, memoryview(block))
            await in_thread(incoming.write, memoryview(waiting))
            if sha256 and incoming.sha256 != sha256.lower():
                raise InvalidArgument.of_field(
                    "sha256",
                    f"{incoming.sha256} was received and {sha256[:64]} announced; send the file again",
                )
            return await commit(incoming, path)
        finally:
            incoming.discard()


class ContentFile:
    """A regular file of /content that is held open for reading: what is read is of this file, whatever comes in its place."""

    def __init__(self, fd: int) -> None:
        """Takes over the descriptor."""
        self._fd = fd
        seen = os.fstat(fd)
        self.size = seen.st_size
        self.modified = _time_of(seen)
        self.version = f"{seen.st_ino:x}-{seen.st_mtime_ns:x}-{seen.st_size:x}"
        """Changes with every change of the file that moves its time."""

    @classmethod
    def open(cls, content: HostileDir, path: str) -> Self:
        """NOT_FOUND where there is none, INVALID_ARGUMENT where it is no regular file beneath /content."""
        with told_of_file(path):
            return cls(content.open_read(path))

    async def read(self, offset: int, size: int) -> bytes:
        """At most `size` bytes; none at the end, which may have moved."""
        return await in_thread(os.pread, self._fd, size, offset)

    async def sha256(self) -> str:
        """Of the whole file as it is now, in hex."""
        digest = FileDigest(self._fd)
        more = True
        while more:
            more = await in_thread(digest.advance, DIGEST_BYTES)
            if digest.size > self.size:
                raise FailedPrecondition(
                    "the file grows while it is read, so it has no digest; ask again when it is written",
                    reason=CallReason.FILE_CHANGES,
                )
        return digest.sha256

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def listing(content: HostileDir, path: str, *, recursive: bool) -> FileList:
    """What is in a directory of /content ("": /content itself), sorted by name; outputs of executions are left out."""
    with told_of_file(path):
        if path:
            with content.subdir(path) as below:
                scan = below.scan(LISTED, depth=_depth(recursive))
        else:
            scan = content.scan(LISTED, depth=_depth(recursive), skip=(OUTPUTS_DIR,))
        base = unescape_name(path) + b"/" if path else b""
        files = sorted((_entry(base, entry) for entry in scan.entries), key=lambda entry: entry.name)
    cut = tuple(sorted(scan.cut - ({"depth"} if not recursive else set())))
    return FileList(files=tuple(files), incomplete=cut or None)


def _depth(recursive: bool) -> int:
    return 64 if recursive else 1


def _entry(base: bytes, entry: ScanEntry) -> FileEntry:
    regular = stat.S_ISREG(entry.stat.st_mode)
    return FileEntry(
        name=exact_name(base + entry.path),
        kind=entry.kind,
        bytes=entry.stat.st_size if regular else None,
        mtime=_time_of(entry.stat),
    )


def _time_of(seen: os.stat_result) -> str | None:
    """None where the code gave the file a date that no calendar has."""
    try:
        return rfc3339(datetime.fromtimestamp(seen.st_mtime_ns / 1e9, UTC))
    except (ValueError, OverflowError, OSError):
        return None
