"""One client's connection as the proxy sees it: its bytes counted, its idleness timed."""

import asyncio
from typing import Final

from cellhouse.model import NetworkSettings
from cellhouse.network.decisions import Book, Reason, Refused
from cellhouse.network.pipes import Pipes

TOUCH_SECONDS: Final = 1.0


class Client:
    """Reads and writes count against what the runtime may move in all. Refused where that is used up."""

    def __init__(self, pipes: Pipes, book: Book, settings: NetworkSettings) -> None:
        self._pipes, self._book, self._settings = pipes, book, settings
        self._loop = asyncio.get_running_loop()
        self._clock: asyncio.Timeout | None = None
        self._touched = 0.0
        self.answered = False
        """Whether anything was written: then a refusal can't be told any more."""

    async def read(self) -> bytes:
        data = await self._pipes.read()
        self._book.sent += len(data)
        self._check()
        self.touch()
        return data

    async def write(self, data: bytes) -> None:
        if not data:
            return
        self.answered = True
        self._book.received += len(data)
        self._check()
        await self._pipes.write(data)
        self.touch()

    def end_writing(self) -> None:
        self._pipes.end_writing()

    def idling(self) -> asyncio.Timeout:
        """A context in which the connection may be without a byte for so long, and TimeoutError ends it."""
        self._clock = asyncio.timeout(self._settings.idle_seconds)
        self._touched = self._loop.time()
        return self._clock

    def touch(self) -> None:
        now = self._loop.time()
        if self._clock is not None and now - self._touched > TOUCH_SECONDS and not self._clock.expired():
            self._touched = now
            self._clock.reschedule(now + self._settings.idle_seconds)

    def _check(self) -> None:
        if self._book.sent + self._book.received > self._settings.total_bytes:
            raise spent(self._settings)


def spent(settings: NetworkSettings) -> Refused:
    return Refused(
        403,
        Reason.TOTAL_BYTES,
        f"this runtime has moved the {settings.total_bytes} bytes over the network that it may (total_bytes); "
        "go on in a new runtime",
    )
