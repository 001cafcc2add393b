"""Whether anybody has a file open for writing, or mapped: asked of the kernel by way of a lease (fcntl(2), F_SETLEASE)."""

import errno
import fcntl
import signal
from typing import Final

_F_SETSIG: Final = 10


def open_for_writing(fd: int) -> bool | None:
    """Of the regular file behind a descriptor that is open for reading. None where the kernel does not tell us.

    A lease for reading is given only where nobody can write (it is given back at once). Whoever opens the file in that moment
    waits for a moment; the signal that then comes here is one that nobody has to handle.
    """
    try:
        fcntl.fcntl(fd, _F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False
