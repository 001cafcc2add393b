"""Our end of the socketpair to the supervisor: bounded datagrams with descriptors, read and written without waiting."""

import array
import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Final

from cellhouse.sandbox.protocol import MESSAGE_BYTES, ProtocolError

DESCRIPTORS: Final = 1  # the most that one answer can carry
BATCH: Final = 64  # datagrams read before other work gets its turn


class ChannelClosed(Exception):
    """The other end is gone."""


class Channel:
    """One SOCK_SEQPACKET socket."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._writing = asyncio.Lock()

    @classmethod
    def pair(cls) -> tuple["Channel", socket.socket]:
        """Our end, and the one to hand to the supervisor."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MESSAGE_BYTES)
        return cls(ours), theirs

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            # The other end must hear of it even where a fork of this process holds a copy of the socket.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    async def send(self, data: bytes, descriptors: Sequence[int]) -> None:
        """Send one datagram, waiting where the other end is slow. ChannelClosed, or OSError where it can't be sent."""
        async with self._writing:
            while True:
                if self._socket.fileno() < 0:
                    raise ChannelClosed
                try:
                    socket.send_fds(self._socket, [data], list(descriptors), socket.MSG_NOSIGNAL)
                except BlockingIOError:
                    await self._writable()
                except (BrokenPipeError, ConnectionResetError):
                    raise ChannelClosed from None
                else:
                    return

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        # A descriptor of its own, so that closing the channel meanwhile leaves no stale registration.
        watched = os.dup(self._socket.fileno())
        ready: asyncio.Future[None] = loop.create_future()
        # Level-triggered, so it may be called again before the waiting task has had its turn.
        loop.add_writer(watched, lambda: None if ready.done() else ready.set_result(None))
        try:
            await ready
        finally:
            loop.remove_writer(watched)
            os.close(watched)

    def received(self) -> Iterator[tuple[bytes, int | None]]:
        """The datagrams that are there, each with the descriptor it carried, which is then the caller's.

        ChannelClosed at the end of them all; ProtocolError for one that is too large or carries too much.
        """
        space = socket.CMSG_SPACE(DESCRIPTORS * array.array("i").itemsize)
        for _ in range(BATCH):
            try:
                data, ancillary, flags, _address = self._socket.recvmsg(
                    MESSAGE_BYTES + 1, space, socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                return
            except ConnectionResetError:
                raise ChannelClosed from None
            found = _descriptors(ancillary)
            if len(data) > MESSAGE_BYTES or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) or len(found) > 1:
                discard(found)
                raise ProtocolError(
                    f"a message of more than {MESSAGE_BYTES} bytes or {DESCRIPTORS} descriptors"
                )
            if not data:
                discard(found)
                raise ChannelClosed
            yield data, found[0] if found else None


def _descriptors(ancillary: Sequence[tuple[int, int, bytes]]) -> list[int]:
    found: array.array[int] = array.array("i")
    for level, kind, payload in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(payload[: len(payload) - len(payload) % found.itemsize])
    return list(found)


def discard(descriptors: Sequence[int]) -> None:
    """Close descriptors that a stranger sent: not in this thread, since a close can be made to linger for long."""

    def close() -> None:
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    if descriptors:
        threading.Thread(target=close, name="cellhouse-discard", daemon=True).start()
