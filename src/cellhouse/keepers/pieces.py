"""The two halves of a stream over a connection: a sender that waits, and a reader that says what it has taken."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from cellhouse.keepers.frames import Kind, ProtocolError

if TYPE_CHECKING:
    from cellhouse.keepers.link import Link

WINDOW: Final = 256 << 10
"""Bytes of a stream that may be on their way before the reader has taken any; one piece more is let through."""


class LinkLost(Exception):
    """The connection has ended, so nobody knows what became of the call."""


class Outgoing:
    """The sending half of a stream: waits where the reader has not taken what it was sent."""

    def __init__(self, link: "Link", call: int) -> None:
        self._link, self._call = link, call
        self._credit = WINDOW
        self._more = asyncio.Event()
        self._more.set()

    async def send(self, data: bytes) -> None:
        """One piece, of whatever length; returns when it is on its way. LinkLost."""
        while self._credit <= 0:
            self._more.clear()
            await self._more.wait()
        await self._link.writable()
        self._credit -= len(data)
        self._link.send(Kind.DATA, self._call, data)

    def grant(self, count: int) -> None:
        """The reader has taken so many bytes."""
        self._credit += count
        self._more.set()


class Incoming:
    """The reading half: what has come and was not taken, bounded by what the sender was granted."""

    def __init__(self, link: "Link", call: int) -> None:
        self._link, self._call = link, call
        self._held: deque[bytes] = deque()
        self._room = asyncio.Event()
        self._error: BaseException | None = None
        self._over = False
        self._bytes = 0

    def put(self, data: bytes) -> None:
        """What has come. ProtocolError where it was sent in spite of us."""
        if self._bytes >= WINDOW:
            raise ProtocolError("a stream that goes on past what it was granted")
        self._bytes += len(data)
        self._held.append(data)
        self._room.set()

    def end(self, error: BaseException | None = None) -> None:
        """Nothing more will come; or the error that the reader gets behind all that came."""
        if not self._over:
            self._over, self._error = True, error
            self._room.set()

    @property
    def over(self) -> bool:
        return self._over

    def take(self) -> bytes | None:
        """The next piece, empty where there is none yet, None at the end. Raises the error that ended it."""
        if self._held:
            data = self._held.popleft()
            self._bytes -= len(data)
            self._link.grant(self._call, len(data))
            return data
        if not self._over:
            return b""
        if self._error is not None:
            raise self._error
        return None

    async def wait(self) -> None:
        """Until `take` has something to say."""
        if not self._held and not self._over:
            self._room.clear()
            await self._room.wait()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (data := self.take()) is not None:
            if data:
                yield data
            else:
                await self.wait()
