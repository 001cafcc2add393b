"""Processes held by descriptor: a number can be reused, a pidfd always means the same process."""

import ctypes
import errno
import os
import select
import signal
from pathlib import Path
from typing import Final

SYS_PIDFD_SEND_SIGNAL: Final = 424  # the same on every architecture
SYS_PIDFD_OPEN: Final = 434
PIDFD_SIGNAL_PROCESS_GROUP: Final = 4  # Linux 6.9

_LIBC = ctypes.CDLL(None, use_errno=True)


def _syscall(number: int, *arguments: int) -> int:
    # Not every build of Python has these calls: that depends on the kernel headers it was built with.
    result = int(_LIBC.syscall(number, *(ctypes.c_long(argument) for argument in arguments)))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def pidfd_open(pid: int) -> int:
    """A descriptor of a process that is known to be there: a child that was not waited for. OSError else."""
    if hasattr(os, "pidfd_open"):
        return os.pidfd_open(pid)
    descriptor = _syscall(SYS_PIDFD_OPEN, pid, 0)
    os.set_inheritable(descriptor, False)
    return descriptor


def has_ended(pidfd: int) -> bool:
    """Whether the process has ended, be it waited for or not."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def send_signal(pidfd: int, number: int, *, group: bool = False, pid: int = 0) -> bool:
    """Signal the process, or the group that it leads; False where it has ended. PermissionError where forbidden."""
    try:
        if not group:
            if hasattr(signal, "pidfd_send_signal"):
                signal.pidfd_send_signal(pidfd, number)
            else:
                _syscall(SYS_PIDFD_SEND_SIGNAL, pidfd, number, 0, 0)
            return True
        try:
            _syscall(SYS_PIDFD_SEND_SIGNAL, pidfd, number, 0, PIDFD_SIGNAL_PROCESS_GROUP)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # Before Linux 6.9. Its group's number can't be another's while it has not ended.
            if pid <= 0 or has_ended(pidfd):
                return False
            os.killpg(pid, number)
    except ProcessLookupError:
        return False
    return True


def pid_of(pidfd: int) -> int | None:
    """The host's number of the process: -1 where it has gone, None where the descriptor is no pidfd at all."""
    try:
        text = Path(f"/proc/self/fdinfo/{pidfd}").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == "Pid":
            try:
                return int(value)
            except ValueError:
                return None
    return None


def parent_of(pid: int) -> int | None:
    """The number of a process's parent; None where there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else None


def children_of(pid: int) -> list[int]:
    """The numbers of the children of a process's first thread; none where the kernel has no such list."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_bytes().split()]
    except OSError:
        return []
