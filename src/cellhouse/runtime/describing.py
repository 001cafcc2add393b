"""Files that were made, as they are told: bytes as really read, media type, SHA-256, and put into the store where that is wanted."""

import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cellhouse.artifacts import KIND_FILE, BoundStore
from cellhouse.files import (
    HEAD_BYTES,
    Change,
    FileDigest,
    FileError,
    FileMark,
    HostileDir,
    escape_name,
    exact_name,
    media_type,
    open_for_writing,
)
from cellhouse.files.threads import in_thread
from cellhouse.model import (
    Artifact,
    CaptureLimits,
    CellhouseError,
    ErrorInfo,
    FileReason,
    StoredArtifact,
    rfc3339,
)

INLINE_BYTES: Final = 256 << 10
"""More than this is read in a thread, so that nobody else waits for it."""
INLINE_FILES: Final = 16
_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Described:
    """A file as it is told; `read`: its path, the state that was read whole, the digest, whether it is open for writing."""

    artifact: Artifact
    read: tuple[bytes, FileMark, str, bool] | None = None


@dataclass(slots=True)
class _Budget:
    """What is left of one execution: bytes to be read, bytes to be put into the store, and until when."""

    read: int
    minted: int
    until: float

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self.until


class _Grew(Exception):
    """It has more bytes than it had a moment ago."""


class Describer:
    """Of one runtime's /content, whose files are hostile and read with every care."""

    def __init__(
        self,
        content: HostileDir,
        limits: CaptureLimits,
        artifacts: BoundStore,
        *,
        opening: Callable[[bytes], None],
    ) -> None:
        """`opening` is told of each file just before it is opened."""
        self._content, self._limits, self._artifacts = content, limits, artifacts
        self._opening = opening

    async def all(self, changes: Sequence[Change], *, minted: Sequence[bool], origin: str) -> list[Described]:
        """In the order given, within the limits of one execution."""
        limits = self._limits
        budget = _Budget(
            limits.artifact_bytes, limits.minted_bytes, time.monotonic() + limits.artifact_seconds
        )
        if any(minted):
            described = []
            for change, mint in zip(changes, minted, strict=True):
                if mint and change.mark.is_file:
                    described.append(await self._mint(change, budget, origin))
                else:
                    described.append(await in_thread(self._describe, change, budget))
            return described
        size = sum(change.mark.size for change in changes if change.mark.is_file)
        if size <= INLINE_BYTES and len(changes) <= INLINE_FILES:
            return self._describe_all(changes, budget)
        return await in_thread(self._describe_all, changes, budget)

    def _describe_all(self, changes: Sequence[Change], budget: _Budget) -> list[Described]:
        return [self._describe(change, budget) for change in changes]

    def _describe(self, change: Change, budget: _Budget) -> Described:
        if not change.mark.is_file:
            return Described(_artifact(change, FileReason.NOT_A_FILE, {"kind": change.mark.kind}))
        if (refusal := _over(change, budget)) is not None:
            return Described(refusal)
        try:
            fd = self._open(change.path)
        except (OSError, FileError) as error:
            return Described(_artifact(change, _why(error)))
        try:
            return self._read(change, fd, budget)
        except OSError as error:
            return Described(_artifact(change, _why(error)))
        finally:
            os.close(fd)

    def _open(self, path: bytes) -> int:
        self._opening(path)
        return self._content.open_read(path)

    def _read(self, change: Change, fd: int, budget: _Budget) -> Described:
        before = FileMark.of(os.fstat(fd))
        if before.size > budget.read:
            return Described(_over_bytes(change, before, budget.read))
        digest, head = FileDigest(fd), os.pread(fd, HEAD_BYTES, 0)
        while digest.size <= before.size and digest.advance(min(_BLOCK, before.size + 1 - digest.size)):
            if budget.is_late:
                budget.read -= digest.size
                told = {"readBytes": str(digest.size)}
                return Described(_artifact(change, FileReason.TIME_LIMIT, told, size=before.size))
        count = digest.size
        budget.read -= count
        after = FileMark.of(os.fstat(fd))
        is_open = bool(open_for_writing(fd))
        if count != before.size or after != before:
            artifact = _artifact(change, FileReason.FILE_CHANGES, size=count, head=head, is_open=is_open)
            return Described(artifact, (change.path, after, "", is_open))
        sha256 = digest.sha256
        artifact = Artifact(
            name=exact(change.path),
            bytes=count,
            media_type=media_type(exact(change.path), head),
            sha256=sha256,
            mtime=time_of(before.mtime_ns),
            open=is_open or None,
        )
        return Described(artifact, (change.path, before, sha256, is_open))

    # Minting

    async def _mint(self, change: Change, budget: _Budget, origin: str) -> Described:
        """Into the store, and told as the store tells it; a failure is this entry's own."""
        if change.mark.size > budget.minted or budget.is_late:
            return await in_thread(self._not_minted, change, budget, FileReason.BYTE_LIMIT)
        try:
            fd = await in_thread(self._open, change.path)
        except (OSError, FileError) as error:
            return Described(_artifact(change, _why(error)))
        try:
            before = FileMark.of(os.fstat(fd))
            head = await in_thread(os.pread, fd, HEAD_BYTES, 0)
            name = exact(change.path)
            kind = media_type(name, head)
            label = escape_name(change.path)[:1_024]
            stored = await self._artifacts.put(
                _pieces(fd, before.size, budget),
                kind=KIND_FILE,
                media_type=kind,
                label=label,
                origin=origin,
            )
            return await self._stamped(change, fd, before, stored, kind)
        except _Grew:
            return Described(_artifact(change, FileReason.FILE_CHANGES, size=change.mark.size))
        except TimeoutError:
            return Described(_artifact(change, FileReason.TIME_LIMIT, size=change.mark.size))
        except (CellhouseError, OSError) as error:
            reason = error.reason if isinstance(error, CellhouseError) else "STORE_NOT_WRITABLE"
            return await in_thread(self._not_minted, change, budget, reason)
        finally:
            os.close(fd)

    async def _stamped(
        self, change: Change, fd: int, before: FileMark, stored: StoredArtifact, kind: str
    ) -> Described:
        after = FileMark.of(os.fstat(fd))
        is_open = bool(open_for_writing(fd))
        artifact = Artifact(
            name=exact(change.path),
            bytes=stored.bytes,
            media_type=kind,
            sha256=stored.sha256,
            mtime=time_of(before.mtime_ns),
            ref=stored.ref,
            open=is_open or None,
            error_info=None if after == before else ErrorInfo(reason=FileReason.FILE_CHANGES),
        )
        return Described(artifact, (change.path, after, stored.sha256 if after == before else "", is_open))

    def _not_minted(self, change: Change, budget: _Budget, cause: str) -> Described:
        """Described all the same, with why it has no ref."""
        described = self._describe(change, budget)
        if described.artifact.error_info is not None:
            return described
        info = ErrorInfo(reason=FileReason.MINT_FAILED, metadata={"cause": cause})
        return Described(described.artifact.model_copy(update={"error_info": info}), described.read)


async def _pieces(fd: int, size: int, budget: _Budget) -> AsyncIterator[bytes]:
    """As many bytes as it had when it was opened, and no more: it may grow for ever."""
    at = 0
    while at < size and (block := await in_thread(os.pread, fd, min(_BLOCK, size - at), at)):
        if budget.is_late:
            raise TimeoutError
        at += len(block)
        budget.minted -= len(block)
        yield block
    more = await in_thread(os.pread, fd, 1, size)
    if at != size or more:
        raise _Grew


def exact(path: bytes) -> str:
    """The name as documents have it."""
    return exact_name(path)


def _over(change: Change, budget: _Budget) -> Artifact | None:
    if change.mark.size > budget.read:
        return _over_bytes(change, change.mark, budget.read)
    return _artifact(change, FileReason.TIME_LIMIT, size=change.mark.size) if budget.is_late else None


def _over_bytes(change: Change, mark: FileMark, left: int) -> Artifact:
    told = {"leftBytes": str(max(0, left))}
    if mark.allocated < mark.size:
        told["allocatedBytes"] = str(mark.allocated)
    return _artifact(change, FileReason.BYTE_LIMIT, told, size=mark.size)


def _artifact(
    change: Change,
    reason: str,
    metadata: Mapping[str, str] | None = None,
    *,
    size: int | None = None,
    head: bytes | None = None,
    is_open: bool = False,
) -> Artifact:
    """A file that was not read whole, and why; `size` is what is known of it."""
    mark = change.mark
    name = exact(change.path)
    return Artifact(
        name=name,
        bytes=(mark.size if size is None else size) if mark.is_file else None,
        media_type=media_type(name, head) if head is not None else None,
        mtime=time_of(mark.mtime_ns) if mark.is_file else None,
        open=is_open or None,
        error_info=ErrorInfo(reason=reason, metadata=dict(metadata or {})),
    )


def _why(error: Exception) -> FileReason:
    return FileReason.FILE_GONE if isinstance(error, FileNotFoundError) else FileReason.FILE_UNREADABLE


def time_of(mtime_ns: int) -> str | None:
    """None where the code gave the file a date that no calendar has."""
    try:
        return rfc3339(datetime.fromtimestamp(mtime_ns / 1e9, UTC))
    except (ValueError, OverflowError, OSError):
        return None
