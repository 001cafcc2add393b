"""Our own end of the pipe behind descriptor 1 or 2: the marks in it are whole and in order, whatever interrupts."""

from __future__ import annotations

import collections

from .interrupts import Interrupts
from .own import os, select

WAIT_MILLISECONDS = 50  # between two looks whether an interrupt ends a wait


def wait(fd: int, event: int, interrupts: Interrupts, *, once: bool = False) -> bool:
    """Wait until the other end reads, or writes; False where an interrupt ends that, or, `once`, WAIT_MILLISECONDS do."""
    poll = select.poll()
    poll.register(fd, event)
    while not poll.poll(WAIT_MILLISECONDS):
        if once or interrupts.cut_short:
            return False
    return True


class Pipe:
    """Writes to a description of its own that does not block; the descriptor stays blocking, for children too.

    What is printed comes by `put`, marks by `write`. Who writes one waits for the reader; where an interrupt ends that
    wait, the mark is owed: it goes out before any other does.
    """

    def __init__(self, number: int, interrupts: Interrupts) -> None:
        """`number`: the descriptor, 1 or 2."""
        self.number = number
        self.fd = -1
        self._interrupts = interrupts
        self._owed: collections.deque[bytes] = collections.deque()
        self._spare = -1
        self._identity = (0, 0)
        self.reopen()

    def reopen(self) -> None:
        """The descriptor is another pipe by now."""
        fd = os.open(f"/proc/self/fd/{self.number}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        spare = os.open(f"/proc/self/fd/{self.number}", os.O_WRONLY | os.O_CLOEXEC)
        for old in (self.fd, self._spare):
            if old >= 0:
                os.close(old)
        self.fd, self._spare = fd, spare
        status = os.fstat(fd)
        self._identity = (status.st_dev, status.st_ino)

    def close(self) -> None:
        """Our own ends; the descriptor stays."""
        for fd in (self.fd, self._spare):
            os.close(fd)
        self.fd = self._spare = -1

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

    def put(self, data: memoryview, *, patient: bool = True) -> memoryview:
        """Write, waiting for the reader; what is left where an interrupt ended that, or where it is not `patient`."""
        while data:
            try:
                data = data[os.write(self.fd, data) :]
            except BlockingIOError:
                if not patient or not wait(self.fd, select.POLLOUT, self._interrupts):
                    break
            except BrokenPipeError:
                os._exit(0)  # the service is gone
        return data

    def write(self, mark: bytes) -> None:
        """Now or as soon as the reader reads. At most PIPE_BUF bytes, so that they are written all or not at all."""
        self._owed.append(mark)
        self._settle()

    def _settle(self) -> None:
        """Write what is owed."""
        owed = self._owed
        while owed and not self.put(memoryview(owed[0])):
            owed.popleft()
