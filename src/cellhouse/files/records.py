"""Append-only records with length and checksum: any prefix of a file opens, and room for the last record is kept.

A file is the magic, then for each record: length of the payload (u32, little endian), CRC-32 (u32) of those four bytes
and the payload, the payload. A length of zero, a length past the end, or a checksum that is wrong ends the log. So a torn
write costs the record being written, damage costs what follows it, and a tail of zeros is space held in reserve.
"""

import os
import stat
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

from cellhouse.files.errors import DiskFull, NotRecords, RecordTooLong, disk_full_named, takes_nothing

MAGIC = b"CELLREC1"
HEADER_BYTES = 8
MAX_RECORD_BYTES = 64 << 20
DEFAULT_RESERVE = 64 << 10
_CHUNK = 256 << 10
_HEADER = struct.Struct("<II")
_LENGTH = struct.Struct("<I")


def frame(payload: bytes) -> bytes:
    """A payload as it stands in a record file."""
    if not 0 < len(payload) <= MAX_RECORD_BYTES:
        raise RecordTooLong(f"a record has 1 to {MAX_RECORD_BYTES} bytes, not {len(payload)}; split it")
    length = _LENGTH.pack(len(payload))
    return b"".join((length, _LENGTH.pack(zlib.crc32(payload, zlib.crc32(length))), payload))


class RecordReader:
    """Reads records from a descriptor that it does not own, by position, in bounded memory."""

    def __init__(self, fd: int, end: int | None = None) -> None:
        """`end`: read no record that reaches past this byte (a live writer's own end)."""
        self._fd = fd
        self._end = end
        self._buffer = b""
        self._start = 0

    def _bytes(self, offset: int, size: int) -> bytes:
        """`size` bytes at `offset`, fewer at the end of the file."""
        if self._end is not None:
            size = min(size, self._end - offset)
            if size <= 0:
                return b""
        at = offset - self._start
        if at < 0 or at + size > len(self._buffer):
            # Grows with the record, so that a forged length makes us hold no more than the file has.
            self._buffer = _pread(self._fd, max(size, _CHUNK), offset)
            self._start = offset
            at = 0
        return self._buffer[at : at + size]

    def record(self, offset: int) -> bytes | None:
        """The payload of the record whose header is at `offset`; None where the log ends."""
        header = self._bytes(offset, HEADER_BYTES)
        if len(header) < HEADER_BYTES:
            return None
        length, crc = _HEADER.unpack(header)
        if not 0 < length <= MAX_RECORD_BYTES:
            return None
        payload = self._bytes(offset + HEADER_BYTES, length)
        if len(payload) < length or zlib.crc32(payload, zlib.crc32(header[:4])) != crc:
            return None
        return payload

    def records(self, offset: int = 0) -> Iterator[tuple[int, bytes]]:
        """(offset, payload) of each record from `offset` (0: the first) to where the log ends."""
        if offset == 0:
            if self._bytes(0, len(MAGIC)) != MAGIC:
                return
            offset = len(MAGIC)
        while (payload := self.record(offset)) is not None:
            yield offset, payload
            offset += HEADER_BYTES + len(payload)


def _pread(fd: int, size: int, offset: int) -> bytes:
    parts = []
    while size > 0:
        part = os.pread(fd, min(size, 4 << 20), offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
        size -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read_records(
    source: int | str | os.PathLike[str], offset: int = 0, limit_bytes: int = 4 << 20
) -> list[tuple[int, bytes]]:
    """Records from `offset` (0: the first): at least one where there is one, then no more than `limit_bytes` of payload.

    An empty list: the log ends there. The next offset is the last one plus 8 plus the length of its payload.
    """
    if not isinstance(source, int):
        fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return read_records(fd, offset, limit_bytes)
        finally:
            os.close(fd)
    found: list[tuple[int, bytes]] = []
    for at, payload in RecordReader(source).records(offset):
        if found and len(payload) > limit_bytes:
            break
        found.append((at, payload))
        limit_bytes -= len(payload)
        if limit_bytes <= 0:
            break
    return found


def valid_end(fd: int) -> int:
    """The byte after the last good record. Raises NotRecords where even the magic is missing."""
    if _pread(fd, len(MAGIC), 0) != MAGIC:
        raise NotRecords("the file does not begin with the mark of a record file; it holds no record")
    end = len(MAGIC)
    for at, payload in RecordReader(fd).records():
        end = at + HEADER_BYTES + len(payload)
    return end


class RecordWriter:
    """The one writer of a record file. Not for several threads at once."""

    def __init__(self, fd: int, path: Path, end: int, reserve: int, pad: int, size: int) -> None:
        self._fd = fd
        self._path = path
        self._end = end
        self._reserve = reserve
        self._pad = bytes(pad)
        self._allocated = size
        self._dirty_to = 0

    @classmethod
    def create(
        cls, path: Path, *, reserve: int = DEFAULT_RESERVE, pad: int = 0, first: Iterable[bytes] = ()
    ) -> Self:
        """A new file (mode 0600) with its reserve and, written at once, its `first` records.

        Raises FileExistsError, DiskFull (then no file is left).

        Allocating a reserve and giving it back costs what the file system takes for it, up to milliseconds. `pad` costs
        nothing: so many zeros are written behind each record, so that one no longer than that has its room.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with disk_full_named(path):
            fd = os.open(path, flags, 0o600)
        try:
            writer = cls(fd, path, 0, reserve, pad, 0)
            writer._hold(len(MAGIC) + reserve, spare=reserve)
            writer._write(MAGIC + b"".join(map(frame, first)), writer._pad)
        except BaseException:
            os.close(fd)
            path.unlink(missing_ok=True)
            raise
        return writer

    @classmethod
    def reopen(
        cls, path: Path, *, reserve: int = DEFAULT_RESERVE, end: int | None = None, pad: int = 0
    ) -> Self:
        """Go on with an existing file behind its last good record; what stands after that is wiped with zeros.

        `end` saves looking for it where the caller wrote the file itself. The reserve left from before is kept and not
        asked for anew until the next append, so this works on a full disk. Raises NotRecords, FileNotFoundError.
        """
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise NotRecords(f"{path} is no regular file; it holds no record")
            writer = cls(fd, path, valid_end(fd) if end is None else end, reserve, pad, found.st_size)
            writer._wipe_tail()
        except BaseException:
            os.close(fd)
            raise
        return writer

    @property
    def fd(self) -> int:
        """The descriptor, for reading by position; it stays ours. -1 once closed."""
        return self._fd

    @property
    def end(self) -> int:
        """The byte after the last record."""
        return self._end

    def append(self, payload: bytes) -> tuple[int, int]:
        """Write one record; (offset, length in the file). Raises DiskFull before the reserve is touched."""
        data = frame(payload)
        self._hold(self._end + len(data) + self._reserve, spare=self._reserve)
        return self._write(data, self._pad)

    def append_final(self, payload: bytes) -> tuple[int, int]:
        """As `append`, but it may use what is kept: `reserve - 8` bytes of payload, or `pad - 8`, fit on a full disk."""
        data = frame(payload)
        self._hold(self._end + len(data), spare=0)
        return self._write(data)

    def sync(self) -> None:
        """Return when what was appended survives power loss."""
        os.fdatasync(self._fd)

    def close(self, *, keep_reserve: bool = False) -> None:
        """Give the unused reserve back and let go of the file; calling it again does nothing."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        try:
            if not keep_reserve and self._allocated > self._end:
                os.ftruncate(fd, self._end)
        except OSError as error:
            if not takes_nothing(error):  # else it keeps the reserve, which is no part of a record
                raise
        finally:
            os.close(fd)

    def _hold(self, upto: int, spare: int) -> None:
        """See that the file has blocks up to `upto`, with some to spare where there is room."""
        if not self._reserve or self._allocated >= upto or self._fd < 0:
            return
        # Larger steps for larger files: the cost stays in proportion, the waste below an eighth.
        for target in (upto + max(spare, upto // 8), upto) if spare else (upto,):
            try:
                os.posix_fallocate(self._fd, self._allocated, target - self._allocated)
            except OSError as error:
                if not takes_nothing(error):
                    raise
                failure = error
            else:
                self._allocated = target
                return
        raise DiskFull(str(self._path), failure.errno or 0) from failure

    def _write(self, data: bytes, pad: bytes = b"") -> tuple[int, int]:
        if self._fd < 0:
            raise ValueError(f"the record file {self._path} is closed; reopen it to go on")
        offset = self._end
        # What an earlier failed write left behind is covered, so that it can never pass for a record.
        padded = data + pad
        if self._dirty_to > offset + len(padded):
            padded += bytes(self._dirty_to - offset - len(padded))
        done = 0
        try:
            while done < len(padded):
                done += os.pwrite(self._fd, padded[done:] if done else padded, offset + done)
        except BaseException as error:
            self._dirty_to = max(self._dirty_to, offset + done)
            self._allocated = max(self._allocated, offset + done)
            if isinstance(error, OSError) and takes_nothing(error):
                raise DiskFull(str(self._path), error.errno or 0) from error
            raise
        self._end = offset + len(data)
        self._dirty_to = 0
        self._allocated = max(self._allocated, offset + len(padded))
        return offset, len(data)

    def _wipe_tail(self) -> None:
        """Zero what follows the last record, back to front, so that at no moment something forged stands behind it."""
        at = self._allocated
        while at > self._end:
            start = max(self._end, at - _CHUNK)
            if any(_pread(self._fd, at - start, start)):
                with disk_full_named(self._path):
                    _pwrite_all(self._fd, bytes(at - start), start)
            at = start


def _pwrite_all(fd: int, data: bytes, offset: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], offset + done)
