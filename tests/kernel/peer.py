"""The other end of a ZMTP connection, in the hands of the test: it may say anything, at any pace."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from cellhouse.kernel.zmtp import Frame, SocketType, ZmtpConnection, ZmtpError

SECONDS = 20.0
"""After which a test that waits for something has failed."""
GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
MORE, LONG, COMMAND = 1, 2, 4


def frame(body: bytes, flags: int = 0, *, announced: int | None = None) -> bytes:
    """One frame; `announced` lies about its length."""
    length = len(body) if announced is None else announced
    if length < 256 and not flags & LONG:
        return bytes([flags, length]) + body
    return bytes([flags | LONG]) + length.to_bytes(8, "big") + body


def message(*frames: bytes) -> bytes:
    return b"".join(frame(body, MORE if n < len(frames) - 1 else 0) for n, body in enumerate(frames))


def ready(socket_type: bytes = b"ROUTER") -> bytes:
    body = b"\x05READY" + bytes([11]) + b"Socket-Type" + len(socket_type).to_bytes(4, "big") + socket_type
    return frame(body, COMMAND)


class Taken:
    """A connection, and what it handed on."""

    connection: ZmtpConnection

    def __init__(self) -> None:
        self.messages: list[list[bytes]] = []
        self.sizes: list[int] = []
        self.closings: list[ZmtpError | None] = []
        self.closed = asyncio.Event()
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def took(self, frames: list[Frame], size: int) -> None:
        self.messages.append([bytes(frame) for frame in frames])
        self.sizes.append(size)
        self._changed.set()

    def was_closed(self, error: ZmtpError | None) -> None:
        self.closings.append(error)
        self.closed.set()

    async def messages_are(self, count: int) -> Sequence[list[bytes]]:
        async with asyncio.timeout(SECONDS):
            while len(self.messages) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.messages

    async def ended(self) -> ZmtpError | None:
        async with asyncio.timeout(SECONDS):
            await self.closed.wait()
        return self.closings[0]


class Ends(Taken):
    """Both ends of a connection: ours, and the peer's socket."""

    def __init__(self, peer: socket.socket) -> None:
        super().__init__()
        self.peer = peer

    async def say(self, data: bytes) -> None:
        async with asyncio.timeout(SECONDS):
            await self._loop.sock_sendall(self.peer, data)

    async def hear(self, count: int) -> bytes:
        data = b""
        async with asyncio.timeout(SECONDS):
            while len(data) < count:
                more = await self._loop.sock_recv(self.peer, count - len(data))
                assert more, f"the connection ended after {data!r}"
                data += more
        return data

    async def shake_hands(self) -> None:
        """The peer's side of a good handshake, up to both being ready."""
        await self.say(GREETING + ready())
        await self.hear(64)
        head = await self.hear(2)
        await self.hear(head[1])
        async with asyncio.timeout(SECONDS):
            await self.connection.ready()


@asynccontextmanager
async def ends(
    socket_type: SocketType = "DEALER", *, identity: bytes = b"me", max_message: int = 1 << 20
) -> AsyncIterator[Ends]:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    made = Ends(theirs)
    made.connection = ZmtpConnection(
        socket_type,
        identity=identity,
        max_message=max_message,
        on_message=made.took,
        on_closed=made.was_closed,
    )
    await asyncio.get_running_loop().create_unix_connection(lambda: made.connection, sock=ours)
    try:
        yield made
    finally:
        made.connection.abort()
        async with asyncio.timeout(SECONDS):
            await made.closed.wait()
        theirs.close()
