"""The way to the service: frames over one socket, and the marks in the two pipes that order text against them."""

from __future__ import annotations

import collections
import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .frames import MARK, encode, frame, split
from .interrupts import Interrupts
from .own import _thread, os, select, socket
from .pipes import WAIT_MILLISECONDS, Pipe, wait

READ_BYTES = 262_144
MAX_DESCRIPTORS = 8
PIECES = 64  # sent at once


class Link:
    """One session's end of the socket, and our own ends of its two pipes. Used by every thread of the kernel.

    The only waiting is for a reader that does not read (`wait`), and an interrupt may end that: what was not sent then
    stays in the queue, whole, and goes out first with whatever is sent next.
    """

    def __init__(
        self,
        sock: socket.socket,
        pipes: Sequence[Pipe],
        interrupts: Interrupts,
    ) -> None:
        self.flush: Callable[[], None] = _nothing
        """Hands on what is printed, so that it comes before a frame."""
        self.sock = sock
        sock.setblocking(False)
        self.interrupts = interrupts
        self.pid = os.getpid()
        self.pipes = pipes
        self.inbox: collections.deque[tuple[dict[str, Any], dict[str, Any], list[bytes]]] = (
            collections.deque()
        )
        self.answers: collections.deque[str] = collections.deque()
        """To questions (input_reply)."""
        self.descriptors: list[int] = []
        self._receiving = _thread.allocate_lock()
        self._received = bytearray()
        self._unsent: collections.deque[memoryview] = collections.deque()
        self._queued: collections.deque[tuple[dict[str, Any], bytes, Sequence[memoryview], bool]] = (
            collections.deque()
        )
        self._lock: Any = _thread.RLock()
        self._mark = b""
        self._epoch = 0
        self._frames = 0

    def start(self, mark: bytes) -> None:
        """From now on there are marks; `mark` is what each begins with."""
        self._mark = mark

    # out

    def send(
        self,
        msg_type: str,
        content: Mapping[str, Any] | bytes,
        *,
        parent: str,
        channel: str = "iopub",
        metadata: Mapping[str, Any] | None = None,
        buffers: Sequence[memoryview] = (),
        ordered: bool = True,
        more: bool = False,
        **header: Any,
    ) -> None:
        """One message. TypeError or ValueError where its content can't be JSON; nothing is sent then.

        `ordered`: text printed before comes before it. `more`: another one follows at once, which takes it along.
        """
        if os.getpid() != self.pid:
            return  # a fork of the user's: what it has to show has no place
        body = content if isinstance(content, bytes) else encode(content)
        header.update(type=msg_type, channel=channel, parent=parent)
        if metadata:
            header["metadata"] = metadata
        if buffers:
            header["buffers"] = [buffer.nbytes for buffer in buffers]
        with self.interrupts:
            if ordered:
                self.flush()
            self._queued.append((header, body, buffers, ordered))
            if not more:
                self._send_queued()

    def send_waiting(self) -> None:
        """Before something that has to come behind it."""
        if self._queued and os.getpid() == self.pid:
            with self.interrupts:
                self._send_queued()

    def mark(self) -> None:
        """Order what was printed to either pipe against what will be printed to the other."""
        if os.getpid() == self.pid and self._mark:
            with self.interrupts, self._ours() as ours:
                if ours:
                    self._write_marks(0)

    def _send_queued(self) -> None:
        with self._ours() as ours:
            # Whoever is sending takes this along: a finalizer may run, and print, at any moment of its work.
            while ours and self._queued:
                count = len(self._queued)
                if self._mark and any(each[3] for each in itertools.islice(self._queued, count)):
                    self._write_marks(count)  # one for all that go together: no text came between
                for _ in range(count):
                    header, body, buffers, ordered = self._queued.popleft()
                    header["epoch"] = self._epoch if ordered and self._mark else 0
                    header["number"] = self._frames + 1
                    self._unsent.extend(frame(header, body, buffers))
                    self._frames += 1
                self._drain()

    @contextlib.contextmanager
    def _ours(self) -> Iterator[bool]:
        """The right to send; False where this thread has it already."""
        if self._lock._is_owned():  # also where a handler of the user's came before we could note it
            yield False
            return
        while not self._lock.acquire(timeout=WAIT_MILLISECONDS / 1000):
            if self.interrupts.cut_short:
                yield False
                return
        try:
            yield True
        finally:
            self._lock.release()

    def _write_marks(self, coming: int) -> None:
        self._epoch += 1
        mark = self._mark + MARK.pack(self._epoch, self._frames + coming)
        for pipe in self.pipes:
            pipe.write(mark)  # whole or not at all: it is shorter than PIPE_BUF

    def _drain(self) -> None:
        unsent = self._unsent
        while unsent:
            try:
                sent = self.sock.sendmsg(list(itertools.islice(unsent, PIECES)))
            except BlockingIOError:
                if not wait(self.sock.fileno(), select.POLLOUT, self.interrupts):
                    return
                continue
            except OSError:
                os._exit(0)  # the service is gone, and with it everybody who could want anything
            while unsent and sent >= len(unsent[0]):
                sent -= len(unsent.popleft())
            if sent:
                unsent[0] = unsent[0][sent:]

    # in

    def receive(self) -> None:
        """Take in what has come, unless another thread is at it; into `inbox` goes what is whole."""
        if not self._receiving.acquire(blocking=False):
            return
        try:
            self._receive()
        finally:
            self._receiving.release()

    def _receive(self) -> None:
        try:
            data, ancillary, _, _ = self.sock.recvmsg(READ_BYTES, socket.CMSG_SPACE(4 * MAX_DESCRIPTORS))
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", []
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self.descriptors.extend(
                    int.from_bytes(payload[at : at + 4], byteorder=sys.byteorder)
                    for at in range(0, len(payload) - 3, 4)
                )
        if not data:
            os._exit(0)  # the service is gone
        self._received += data
        while (whole := split(self._received)) is not None:
            if whole[0].get("type") == "input_reply":
                self.answers.append(str(whole[1].get("value", "")))
            else:
                self.inbox.append(whole)


def _nothing() -> None:
    """There is nothing yet."""
