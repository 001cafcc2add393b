"""What goes to a native kernel: sent now where that is possible, else when its socket takes more."""

import array
import asyncio
import os
import socket
from collections import deque
from collections.abc import Iterable


class Outbox:
    """The sending half of a socket. Owns the descriptors that are to be sent, not the socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[memoryview, tuple[int, ...]]] = deque()
        self.unsent = 0
        """Bytes the peer has not taken yet."""

    def send(self, data: bytes, descriptors: tuple[int, ...] = ()) -> None:
        """Send, or queue; `descriptors` go with the first byte and are closed then. Raises OSError on a broken socket."""
        left = memoryview(data)
        if not self._queue:
            left, descriptors = self._send_some(left, descriptors)
            if not left:
                return
            self._loop.add_writer(self._socket, self._send_more)
        self._queue.append((left, descriptors))
        self.unsent += len(left)

    def close(self) -> None:
        """Forget what was not sent. To be called before the socket is closed, perhaps twice."""
        if self._queue:
            self._loop.remove_writer(self._socket)
        while self._queue:
            close_all(self._queue.popleft()[1])
        self.unsent = 0

    def _send_some(
        self, data: memoryview, descriptors: tuple[int, ...]
    ) -> tuple[memoryview, tuple[int, ...]]:
        """What of it could not be sent now."""
        try:
            if descriptors:
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
                sent = self._socket.sendmsg([data], rights)
            else:
                sent = self._socket.send(data)
        except BlockingIOError:
            return data, descriptors
        except OSError:
            close_all(descriptors)
            raise
        close_all(descriptors)
        return data[sent:], ()

    def _send_more(self) -> None:
        while self._queue:
            data, descriptors = self._queue[0]
            try:
                self._queue[0] = left, _ = self._send_some(data, descriptors)
            except OSError:  # whoever reads the socket learns why
                self._queue[0] = data, ()
                self.close()
                return
            self.unsent -= len(data) - len(left)
            if left:
                return
            self._queue.popleft()
        self._loop.remove_writer(self._socket)


def close_all(descriptors: Iterable[int]) -> None:
    for fd in descriptors:
        os.close(fd)
