"""Printed text on its way to the pipe, in memory that outlives the process: no death takes back what was printed.

The service made the memory, and reads what is left in it when the process has ended; see kernel/printed.py there.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from typing import Any

from .frames import MARK
from .interrupts import Interrupts
from .own import mmap, os
from .pipes import Pipe

HEADER = struct.Struct("<QQQ")
"""The number of the piece that was sent last or is being sent, where it starts, how long it is. The mark before it has the
number, too: so the service knows how much of it has come."""
TEXT_AT = 64
SPILL_BYTES = 32_768
SLICE_BYTES = 16_384
_ZEROS = bytes(1 << 16)


class Printed(mmap.mmap):
    """What a text file writes to, at the speed of memory. `spill` hands it on; the lock is for whoever writes or spills.

    Behind the text there are zeros up to the end: so its length is known to who finds it.
    """

    closed = False

    def belong(self, pipe: Pipe, name: str, interrupts: Interrupts, lock: Any) -> None:
        """To be called once, before anything is written."""
        self.pipe, self.name, self.lock = pipe, name, lock
        self.mark = b""
        """What begins the mark before each piece; none is written while there is none."""
        self._interrupts = interrupts
        self._pid = os.getpid()
        self._number = 0
        self._sent = TEXT_AT
        """Where what has not been sent begins."""
        self._piece = memoryview(b"")
        """What is left of a piece that could not be sent whole."""
        self._spilling = False
        self.before: Callable[[], None] = _nothing
        """Called before text goes out: messages that wait come before it."""
        self.aside: list[bytes] | None = None
        """Where what is printed goes for the moment in which the memory is being emptied.

        A signal handler or finalizer of the user's may print at any moment of our own work.
        """
        self.seek(TEXT_AT)

    def in_fork(self, lock: Any) -> None:
        """In a child of the user's, which has memory of its own by now: whatever its parent was about is not its business."""
        self.lock = lock
        self.aside = None
        self._spilling = False
        self._piece = memoryview(b"")
        self._sent = TEXT_AT
        self.seek(TEXT_AT)

    @property
    def full(self) -> bool:
        """Whether it is time to spill."""
        return self.tell() > SPILL_BYTES

    def append(self, data: Any) -> None:
        """Bytes of any length; much of it goes straight to the reader, which is waited for. KeyboardInterrupt."""
        view = memoryview(data).cast("B")
        with self.lock:
            if self.aside is not None:
                self.aside.append(bytes(view))
                return
            if len(view) > SLICE_BYTES:
                self.spill()
                self._write_through(view)
                self._interrupts.deliver()
                return
            mmap.mmap.write(self, view)
            if self.full:
                self.spill()

    def _write_through(self, view: memoryview) -> None:
        """What an interrupt leaves of it is not printed: whoever prints it is told so."""
        if os.getpid() != self._pid or self.pipe.redirected:
            write_all(self.pipe.number, view)
            return
        self._interrupts.enter()
        try:
            self.pipe.put(view)
        finally:
            self._interrupts.leave()

    def spill(self) -> None:
        """Hand on all of it, waiting for the reader; KeyboardInterrupt where an interrupt ends that (nothing is lost)."""
        self.spill_quietly()
        self._interrupts.deliver()

    def spill_quietly(self) -> None:
        """The same in the middle of our own work, where an interrupt waits for its end."""
        interrupts = self._interrupts
        interrupts.enter()
        try:
            with self.lock:
                if self._spilling:
                    return  # it is this very thread that is at it, and takes this along
                self._spilling = True
                try:
                    if self._send(patient=True):
                        self._begin_anew()
                finally:
                    self._spilling = False
        finally:
            interrupts.leave()

    def spill_some(self) -> bool:
        """Called by the helper thread: as much as goes without waiting; whether there was anything.

        It moves nothing: whoever prints does so without the lock, as long as only one thread does.
        """
        if self._sent == self.tell() or not self.lock.acquire(blocking=False):
            return self._sent != self.tell()
        try:
            self._send(patient=False)
            return True
        finally:
            self.lock.release()

    def _send(self, *, patient: bool) -> bool:
        """All that stands here now; False where it had to stop before the end of that."""
        if os.getpid() != self._pid or self.pipe.redirected:
            end = self.tell()
            data = self[self._sent : end]
            self._sent = end
            write_all(self.pipe.number, data)
            return True
        while self._piece or self._sent < self.tell():
            if not self._piece:
                self.before()
                end = self.tell()
                self._number += 1
                HEADER.pack_into(self, 0, self._number, self._sent, end - self._sent)
                mark = self.mark + MARK.pack(0, self._number) if self.mark else b""
                self._piece = memoryview(mark + self[self._sent : end])
                self._sent = end
            self._piece = self.pipe.put(self._piece, patient=patient)
            if self._piece:
                return False
        return True

    def _begin_anew(self) -> None:
        """From the front again."""
        if self._sent == TEXT_AT:
            return
        aside: list[bytes] = []
        self.aside = aside
        end = self.tell()
        left = self[self._sent : end]
        for at in range(TEXT_AT, end, len(_ZEROS)):
            size = min(len(_ZEROS), end - at)
            self[at : at + size] = _ZEROS[:size]
        HEADER.pack_into(self, 0, self._number, 0, 0)
        self._sent = TEXT_AT
        self.seek(TEXT_AT)
        mmap.mmap.write(self, left)
        self.aside = None
        for data in aside:
            self.append(data)

    # what a text file asks of what it writes to

    def flush(self, *_: Any) -> None:
        if self._interrupts.inside:
            self.spill_quietly()
        else:
            self.spill()

    def close(self) -> None:
        self.flush()
        self.closed = True

    def fileno(self) -> int:
        return self.pipe.number

    def isatty(self) -> bool:
        return False

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


class Buffer(io.BufferedIOBase):
    """What the user's code gets as `sys.stdout.buffer`."""

    def __init__(self, printed: Printed) -> None:
        self._printed = printed
        self.raw = io.FileIO(printed.pipe.number, "w", closefd=False)
        self.name = printed.name
        self.mode = "wb"

    def write(self, data: Any) -> int:
        if isinstance(data, str):
            raise TypeError("a bytes-like object is required, not 'str'")
        if self.closed:
            raise ValueError("write to closed file")
        view = memoryview(data)
        self._printed.append(view)
        return view.nbytes

    def flush(self) -> None:
        self._printed.flush()

    def fileno(self) -> int:
        return self._printed.pipe.number

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True


def _nothing() -> None:
    """There is nothing to come before it."""


def write_all(number: int, data: bytes | memoryview) -> None:
    """To a descriptor that is the user's."""
    left = memoryview(data)
    while left:
        left = left[os.write(number, left) :]
