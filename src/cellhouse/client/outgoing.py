"""What is sent as a file: counted and hashed as it goes."""

import asyncio
import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from cellhouse.model import InvalidArgument

BLOCK: Final = 256 << 10

Progress: TypeAlias = Callable[[int, int | None], object]
"""Called with the bytes that have gone over, and how many there are in all, None where that is not known."""
Source: TypeAlias = Path | bytes | bytearray | memoryview | Iterable[bytes]
AsyncSource: TypeAlias = Source | AsyncIterable[bytes]


class Outgoing:
    """A body whose pieces are read when they are sent. OSError where a file can't be read."""

    def __init__(self, source: AsyncSource, progress: Progress | None) -> None:
        if isinstance(source, str):
            raise InvalidArgument.of_field(
                "source", "a text is neither content nor a path; give bytes, or a Path of the file"
            )
        self._progress = progress
        self._source: Path | bytes | Iterable[bytes] | AsyncIterable[bytes]
        self._source = bytes(source) if isinstance(source, bytearray | memoryview) else source
        self.total: int | None = None
        if isinstance(self._source, bytes):
            self.total = len(self._source)
        elif isinstance(self._source, Path):
            self.total = self._source.stat().st_size
        # Everything else may be gone once it has been read.
        self.replayable = isinstance(self._source, bytes | Path | list | tuple)
        self.size, self._hash = 0, hashlib.sha256()
        # What the source itself raised, so that nobody takes it for something of the connection.
        self.failed: BaseException | None = None

    @property
    def sha256(self) -> str:
        """Of what has been sent since the last beginning."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[bytes]:
        """The pieces, from the beginning."""
        self._begin()
        try:
            for piece in self._raw():
                self._hash.update(piece)
                yield self._told(piece)
        except GeneratorExit:
            raise
        except BaseException as error:
            self.failed = error
            raise

    async def pieces(self) -> AsyncIterator[bytes]:
        """The same for an event loop, which no file or iterable holds up."""
        self._begin()
        try:
            if isinstance(self._source, AsyncIterable):
                async for piece in self._source:
                    await asyncio.to_thread(self._hash.update, piece)
                    yield self._told(piece)
                return
            raw = self._raw()
            while (block := await asyncio.to_thread(self._hashed, raw)) is not None:
                yield self._told(block)
        except GeneratorExit:
            raise
        except BaseException as error:
            self.failed = error
            raise

    def _begin(self) -> None:
        self.size, self._hash, self.failed = 0, hashlib.sha256(), None

    def _hashed(self, pieces: Iterator[bytes]) -> bytes | None:
        """The next piece, once it is in the digest."""
        if (piece := next(pieces, None)) is not None:
            self._hash.update(piece)
        return piece

    def _told(self, piece: bytes) -> bytes:
        self.size += len(piece)
        if self._progress is not None:
            self._progress(self.size, self.total)
        return piece

    def _raw(self) -> Iterator[bytes]:
        source = self._source
        if isinstance(source, bytes):
            return (source[start : start + BLOCK] for start in range(0, len(source), BLOCK))
        if isinstance(source, Path):
            return _blocks(source, self.total or 0)
        if isinstance(source, AsyncIterable):
            raise InvalidArgument.of_field(
                "source",
                "only AsyncClient can send what has to be awaited; give bytes, a Path or an iterable",
            )
        return iter(source)


def _blocks(path: Path, size: int) -> Iterator[bytes]:
    """As many bytes as were announced, also where it grows meanwhile."""
    with path.open("rb") as file:
        while size > 0 and (block := file.read(min(BLOCK, size))):
            size -= len(block)
            yield block
    if size > 0:
        raise OSError(f"{path} became shorter while it was being sent; send it again")
