"""One connection of a client inside, as a pair of pipes.

Pipes and no sockets: whatever holds the other end may be hostile code, which could put descriptors into a socket, and
closing those can take as long as it likes (SO_LINGER). A pipe carries bytes and nothing else.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Any, Final

CHUNK: Final = 65_536

_Add = Callable[[int, Callable[[], None]], Any]
_Remove = Callable[[int], bool]


class Pipes:
    """Our two ends. Nothing is buffered here: who writes waits until the other end has taken it."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._loop = asyncio.get_running_loop()

    @classmethod
    def pair(cls) -> tuple["Pipes", tuple[int, int]]:
        """Ours, and the two descriptors for the other side: what it writes to, and what it reads. OSError where there are none."""
        ours_read, theirs_write = os.pipe2(os.O_CLOEXEC)
        try:
            theirs_read, ours_write = os.pipe2(os.O_CLOEXEC)
        except OSError:
            os.close(ours_read)
            os.close(theirs_write)
            raise
        os.set_blocking(ours_read, False)
        os.set_blocking(ours_write, False)
        return cls(ours_read, ours_write), (theirs_write, theirs_read)

    async def read(self) -> bytes:
        """What is there, at most `CHUNK` bytes; empty at the end."""
        while True:
            try:
                return os.read(self._read, CHUNK)
            except BlockingIOError:
                await self._until(self._loop.add_reader, self._loop.remove_reader, self._read)

    async def write(self, data: bytes) -> None:
        """All of it. BrokenPipeError where nobody reads any more."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._write, rest) :]
            except BlockingIOError:
                await self._until(self._loop.add_writer, self._loop.remove_writer, self._write)

    def write_at_once(self, data: bytes) -> None:
        """As much as the pipe takes now; a new one takes some thousand bytes."""
        with contextlib.suppress(OSError):
            os.write(self._write, data)

    async def _until(self, add: _Add, remove: _Remove, descriptor: int) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()
        add(descriptor, lambda: None if ready.done() else ready.set_result(None))
        try:
            await ready
        finally:
            remove(descriptor)

    def end_writing(self) -> None:
        """The other side sees the end of what we write."""
        if self._write >= 0:
            os.close(self._write)
            self._write = -1

    def close(self) -> None:
        """To be called when nobody reads or writes here any more."""
        self.end_writing()
        if self._read >= 0:
            os.close(self._read)
            self._read = -1
