"""Reading an artifact's file: by pieces, none of the last of them before the digest of the whole was found right."""

import hashlib
import os
from collections import OrderedDict
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, Self

from cellhouse.artifacts.checks import damaged
from cellhouse.files.threads import in_thread
from cellhouse.model import StoredArtifact

BLOCK: Final = 1 << 20
REMEMBERED: Final = 4_096


class Verified:
    """Which files were read whole and found right, as they are now: a part of one needs no second reading of all of it."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[int, int, int, int]] = OrderedDict()

    def has(self, ref: str, fd: int) -> bool:
        return self._known.get(ref) == _state(fd)

    def add(self, ref: str, fd: int) -> None:
        self._known[ref] = _state(fd)
        self._known.move_to_end(ref)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)


def _state(fd: int) -> tuple[int, int, int, int]:
    seen = os.fstat(fd)
    return seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


class FileReading:
    """An `ArtifactReading` of a file that is held open."""

    def __init__(self, fd: int, artifact: StoredArtifact, start: int, end: int, verified: Verified) -> None:
        """Takes over the descriptor."""
        self._fd, self._verified = fd, verified
        self._artifact, self._start, self._end = artifact, start, end

    @property
    def artifact(self) -> StoredArtifact:
        return self._artifact

    @property
    def start(self) -> int:
        return self._start

    @property
    def end(self) -> int:
        return self._end

    @property
    def is_part(self) -> bool:
        return (self._start, self._end) != (0, self._artifact.bytes)

    async def verify(self) -> None:
        """INTERNAL, ARTIFACT_DAMAGED, where the file is not what was put."""
        if self._verified.has(self._artifact.ref, self._fd):
            return
        async for _ in self._whole():
            pass

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if not self.is_part:
            async for block in self._whole():
                yield block
            return
        at = self._start
        while at < self._end:
            block = await in_thread(os.pread, self._fd, min(BLOCK, self._end - at), at)
            if not block:
                raise damaged(self._artifact.ref, "its file became shorter")
            yield block
            at += len(block)

    async def _whole(self) -> AsyncIterator[bytes]:
        artifact, digest, at, held = self._artifact, hashlib.sha256(), 0, b""
        while block := await in_thread(self._hashed, digest, at):
            at += len(block)
            if at > artifact.bytes:
                break
            if held:
                yield held
            held = block
        if at != artifact.bytes:
            raise damaged(artifact.ref, f"its file has not the {artifact.bytes} bytes that were put")
        if digest.hexdigest() != artifact.sha256:
            raise damaged(artifact.ref, "its file has another SHA-256 than what was put")
        self._verified.add(artifact.ref, self._fd)
        if held:
            yield held

    def _hashed(self, digest: "hashlib._Hash", at: int) -> bytes:
        block = os.pread(self._fd, BLOCK, at)
        digest.update(block)
        return block

    async def read(self) -> bytes:
        return b"".join([block async for block in self])

    async def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            await in_thread(os.close, fd)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
