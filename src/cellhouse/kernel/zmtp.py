"""The client half of ZMTP 3.0 over a unix socket: every byte bounded, every loss seen.

libzmq bounds its queues in messages, not in bytes, throws an oversized frame away with those behind
it, and reconnects by name to whatever stands there then. A service that reads from hostile kernels
needs the opposite of all three, and the protocol (RFC 23/ZMTP, NULL mechanism) is small.
"""

import asyncio
import contextlib
import mmap
import os
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Literal, cast

SocketType = Literal["SUB", "DEALER"]
Frame = bytes | memoryview

GREETING_BYTES = 64
HANDSHAKE_BYTES = 4096
MAX_FRAMES = 1024
MAX_UNTAKEN_BYTES = 1 << 20
"""A peer that does not take what we send gets no answer to its pings above this, but the end."""
DRAIN_BYTES = 16 << 20
SCRATCH_BYTES = 1 << 18
"""Read at once where so much stands in the socket; what is never filled takes no memory."""
_DRAIN_AT_ONCE_BYTES = 1 << 16
_MAPPED_BYTES = 1 << 20

_MORE, _LONG, _COMMAND = 0x01, 0x02, 0x04
_KNOWN_FLAGS = _MORE | _LONG | _COMMAND


class ZmtpError(Exception):
    """The peer broke the protocol or a limit; `oversized` is the size it announced, where that was it."""

    def __init__(self, message: str, *, oversized: int = 0) -> None:
        super().__init__(message)
        self.oversized = oversized


class State(Enum):
    GREETING = "greeting"
    HANDSHAKE = "handshake"
    READY = "ready"
    CLOSED = "closed"


class ZmtpConnection(asyncio.BufferedProtocol):
    """One connection to one socket of a kernel.

    `on_message(frames, size)` gets each whole message, `on_closed(error)` is called once, with None for
    an orderly end of the stream. `pause()` stops reading: the peer is then held back by the socket.
    """

    def __init__(
        self,
        socket_type: SocketType,
        *,
        identity: bytes = b"",
        max_message: int,
        on_message: Callable[[list[Frame], int], None],
        on_closed: Callable[[ZmtpError | None], None],
    ) -> None:
        self._type = socket_type
        self._identity = identity
        self._max_message = max_message
        self._on_message = on_message
        self._on_closed = on_closed
        self._transport: asyncio.Transport | None = None
        self._state = State.GREETING
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._scratch = bytearray(SCRATCH_BYTES)
        self._view = memoryview(self._scratch)
        self._start = self._end = 0
        self._frames: list[Frame] = []
        self._size = 0
        self._body: memoryview | None = None
        self._filled = 0
        self._flags = 0

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # not every loop's is a subclass of it
        self._transport.write(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._body is not None:
            return self._body[self._filled :]
        if self._start:
            rest = self._scratch[self._start : self._end]
            self._scratch[: len(rest)] = rest
            self._start, self._end = 0, len(rest)
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        try:
            if self._body is not None:
                self._filled += nbytes
                if self._filled < len(self._body):
                    return
                body, self._body = self._body, None
                self._frame_done(self._flags, body)
                return
            self._end += nbytes
            self._parse()
        except ZmtpError as error:
            self._close(error)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        begun = self._body is not None or bool(self._frames) or self._end > self._start
        torn = begun and self._state is State.READY
        self._close(ZmtpError("the connection ended inside a message") if torn else None)

    # the caller's side

    async def ready(self) -> None:
        """Returns once the handshake is done; raises ZmtpError where the peer refused or closed."""
        await self._ready

    def send(self, frames: Sequence[bytes]) -> None:
        """Queue one message. Raises ZmtpError on a closed connection."""
        if self._state is not State.READY or self._transport is None:
            raise ZmtpError(f"cannot send: the connection is {self._state.value}")
        self._transport.writelines(
            piece
            for number, frame in enumerate(frames)
            for piece in (_header(frame, _MORE if number < len(frames) - 1 else 0), frame)
        )

    def pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def drain(self) -> None:
        """Take in what stands in the socket now, paused or not; at most `DRAIN_BYTES` (others may hold its other end)."""
        if self._transport is None or self._transport.is_closing():
            return
        fd = self._transport.get_extra_info("socket").fileno()
        left = DRAIN_BYTES
        while left > 0 and self._state is not State.CLOSED:
            try:
                count = os.readv(fd, [self.get_buffer(-1)[:_DRAIN_AT_ONCE_BYTES]])
            except OSError:  # nothing there, or broken: the loop sees that too
                return
            if count == 0:
                return
            self.buffer_updated(count)
            left -= count

    @property
    def unsent(self) -> int:
        """Bytes the peer has not taken yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # the protocol

    def _parse(self) -> None:
        """What stands in the scratch buffer: up to a head that is not whole, or a body that goes on behind it."""
        if self._state is State.GREETING:
            if self._end - self._start < GREETING_BYTES:
                return
            self._start += GREETING_BYTES
            self._greeting(self._view[self._start - GREETING_BYTES : self._start].tobytes())
        scratch, view = self._scratch, self._view
        while self._state is not State.CLOSED:
            start, end = self._start, self._end
            if end - start < 2:
                return
            flags, length = scratch[start], scratch[start + 1]
            if flags > _KNOWN_FLAGS or (flags & _MORE and flags & _COMMAND):
                raise ZmtpError(f"frame flags {flags:#x} do not exist")
            start += 2
            if flags & _LONG:
                if end - start < 7:
                    return
                length = int.from_bytes(scratch[start - 1 : start + 7], "big")
                start += 7
            plain = not flags & _COMMAND and self._state is State.READY
            if not plain or self._size + length > self._max_message or len(self._frames) >= MAX_FRAMES:
                self._admit(flags, length)
            after = start + length
            if end < after:
                self._begin_body(flags, start, length)
                return
            self._start = after
            body = view[start:after].tobytes()
            if plain and flags & _MORE:
                self._frames.append(body)  # most frames; all others take the longer way
                self._size += length
            else:
                self._frame_done(flags, body)

    def _admit(self, flags: int, length: int) -> None:
        """Raises for a frame, or the message that it belongs to, that is too large: before it is read."""
        if flags & _COMMAND or self._state is State.HANDSHAKE:
            if length > HANDSHAKE_BYTES:
                raise ZmtpError(f"a command of {length} bytes")
        elif self._size + length > self._max_message:
            raise ZmtpError(
                f"a message of at least {self._size + length} bytes, limit {self._max_message}",
                oversized=self._size + length,
            )
        elif len(self._frames) >= MAX_FRAMES:
            raise ZmtpError(f"a message of more than {MAX_FRAMES} frames")

    def _begin_body(self, flags: int, start: int, length: int) -> None:
        """A frame that goes on behind the scratch buffer is read into a buffer of its own."""
        body = memoryview(_mapping(length) if length >= _MAPPED_BYTES else bytearray(length))
        self._filled = self._end - start
        body[: self._filled] = self._view[start : self._end]
        self._start = self._end
        self._flags, self._body = flags, body

    def _frame_done(self, flags: int, body: Frame) -> None:
        if flags & _COMMAND or self._state is State.HANDSHAKE:
            self._command(bytes(body))
            return
        self._frames.append(body)
        self._size += len(body)
        if not flags & _MORE:
            frames, size = self._frames, self._size
            self._frames, self._size = [], 0
            self._on_message(frames, size)

    def _greeting(self, greeting: bytes) -> None:
        if greeting[0] != 0xFF or greeting[9] != 0x7F or greeting[10] < 3:
            raise ZmtpError("the peer does not speak ZMTP 3")
        mechanism = greeting[12:32].rstrip(b"\0")
        if mechanism != b"NULL":
            raise ZmtpError(f"the peer asks for the security mechanism {mechanism!r}")
        self._state = State.HANDSHAKE
        properties = _property(b"Socket-Type", self._type.encode()) + _property(b"Identity", self._identity)
        body = b"\x05READY" + properties
        self._write(bytes([_COMMAND, len(body)]) + body)

    def _command(self, body: bytes) -> None:
        name = body[1 : 1 + body[0]] if body and body[0] < len(body) else b""
        if self._state is State.HANDSHAKE:
            if name != b"READY":
                raise ZmtpError(f"the peer refused the handshake: {body[:100]!r}")
            self._state = State.READY
            if self._type == "SUB":
                self._write(b"\x00\x01\x01")  # ZMTP 3.0: subscribe to everything
            if not self._ready.done():
                self._ready.set_result(None)
        elif name == b"PING":
            if self.unsent > MAX_UNTAKEN_BYTES:
                raise ZmtpError("the peer sends pings and takes no answers")
            pong = b"\x04PONG" + body[7:23]
            self._write(bytes([_COMMAND, len(pong)]) + pong)

    def _write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def _close(self, error: ZmtpError | None) -> None:
        if self._state is State.CLOSED:
            return
        self._state = State.CLOSED
        self._frames, self._body = [], None
        if self._transport is not None:
            self._transport.abort()
        if not self._ready.done():
            self._ready.set_exception(error or ZmtpError("the peer closed the connection"))
            self._ready.exception()  # whoever awaits it still gets it; nobody awaiting is no fault
        self._on_closed(error)


def _mapping(length: int) -> mmap.mmap:
    """A buffer that costs memory only as it fills, in large pages where there are any, and gives it back when it goes."""
    made = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without such pages
        made.madvise(mmap.MADV_HUGEPAGE)
    return made


def _header(frame: bytes, more: int) -> bytes:
    if len(frame) < 256:
        return bytes([more, len(frame)])
    return bytes([more | _LONG]) + len(frame).to_bytes(8, "big")


def _property(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + len(value).to_bytes(4, "big") + value
