"""Our own end of the pipe behind descriptor 1 or 2: text and marks, whole and in order, whatever interrupts."""

from __future__ import annotations

import _thread
import collections
import os
import select
from typing import Any

from .interrupts import Interrupts

WAIT_MILLISECONDS = 50  # between two looks whether an interrupt ends a wait


def wait(fd: int, event: int, interrupts: Interrupts) -> bool:
    """Wait until the other end reads, or writes; False where an interrupt ends that."""
    poll = select.poll()
    poll.register(fd, event)
    while not poll.poll(WAIT_MILLISECONDS):
        if interrupts.cut_short:
            return False
    return True


class Pipe:
    """Writes to a description of its own that does not block, so that descriptor 1 stays blocking for children.

    Who writes waits for the reader. Where an interrupt ends that wait, what is left is owed: it goes out before anything
    else does.
    """

    def __init__(self, number: int, interrupts: Interrupts) -> None:
        """`number`: the descriptor, 1 or 2."""
        self.number = number
        self.written = 0
        """Bytes of text that went through; somebody watches whether it grows."""
        self._fd = -1
        self._interrupts = interrupts
        self._owed: collections.deque[bytes] = collections.deque()
        self._owing = _thread.allocate_lock()
        self._spare = -1
        self._identity: tuple[int, int] = (0, 0)
        self.reopen()

    def reopen(self) -> None:
        """The descriptor is another pipe by now."""
        fd = os.open(f"/proc/self/fd/{self.number}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        spare = os.open(f"/proc/self/fd/{self.number}", os.O_WRONLY | os.O_CLOEXEC)
        for old in (self._fd, self._spare):
            if old >= 0:
                os.close(old)
        self._fd, self._spare = fd, spare
        status = os.fstat(fd)
        self._identity = (status.st_dev, status.st_ino)

    def heal(self) -> None:
        """Bring the descriptor back where the user's code has closed it."""
        try:
            os.fstat(self.number)
        except OSError:
            os.dup2(self._spare, self.number)

    @property
    def redirected(self) -> bool:
        """Whether the user's code has put something else in the descriptor's place."""
        try:
            status = os.fstat(self.number)
        except OSError:
            return False  # closed: what is printed still has us
        return (status.st_dev, status.st_ino) != self._identity

    def write(self, data: Any) -> None:
        """All of it, now or as soon as the reader reads."""
        if self._owed and not self.settle():
            self._owed.append(bytes(data))
            return
        left = memoryview(data)
        while True:
            try:
                sent = os.write(self._fd, left)
            except BlockingIOError:
                if not wait(self._fd, select.POLLOUT, self._interrupts):
                    self._owed.append(bytes(left))
                    return
                continue
            except BrokenPipeError:
                os._exit(0)  # the service is gone
            if sent == len(left):
                return
            left = left[sent:]

    def write_some(self, data: Any) -> int | None:
        """As much of it as goes without waiting; None where nothing does."""
        if self._owed and not self.settle(patient=False):
            return None
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return None
        except BrokenPipeError:
            os._exit(0)

    def settle(self, *, patient: bool = True) -> bool:
        """Write what is owed; whether nothing is any more."""
        if not self._owing.acquire(blocking=False):
            return not self._owed  # somebody is at it
        try:
            while self._owed:
                data = self._owed[0]
                try:
                    sent = os.write(self._fd, data)
                except BlockingIOError:
                    if not patient or not wait(self._fd, select.POLLOUT, self._interrupts):
                        return False
                    continue
                except BrokenPipeError:
                    os._exit(0)
                if sent == len(data):
                    self._owed.popleft()
                else:
                    self._owed[0] = data[sent:]
            return True
        finally:
            self._owing.release()
