"""What one process uses now, read from /proc."""

import os
from dataclasses import dataclass
from typing import Final

_TICK: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_READ_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """Resident memory in bytes, now and at its highest, and seconds of CPU, those of the children it waited for too."""

    rss_bytes: int
    peak_rss_bytes: int | None
    cpu_seconds: float


def usage(pid: int) -> ProcessUsage | None:
    """What the process with this number of the host uses; None where it has ended.

    A number can be reused: ask `SandboxProcess.usage`, which holds the process by descriptor, where there is one.
    """
    try:
        fields = _read(pid, "stat").rpartition(b")")[2].split()
        status = _read(pid, "status")
    except OSError:
        return None
    if len(fields) < 22 or fields[0] in (b"Z", b"X"):
        return None
    peak = None
    for line in status.splitlines():
        if line.startswith(b"VmHWM:"):
            peak = int(line.split()[1]) * 1024
    return ProcessUsage(
        rss_bytes=int(fields[21]) * _PAGE,
        peak_rss_bytes=peak,
        cpu_seconds=_seconds(fields),
    )


def open_stat(pid: int) -> int:
    """A descriptor for `cpu_seconds`. It means this process for as long as it is open. OSError where there is none."""
    return os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)


def cpu_seconds(stat: int) -> float | None:
    """Of `usage` only this, for many times less: it is asked before and after every execution."""
    try:
        fields = os.pread(stat, _READ_BYTES, 0).rpartition(b")")[2].split(maxsplit=15)
    except OSError:
        return None
    return None if len(fields) < 16 or fields[0] in (b"Z", b"X") else _seconds(fields)


def _seconds(fields: list[bytes]) -> float:
    return sum(map(int, fields[11:15])) / _TICK


def _read(pid: int, name: str) -> bytes:
    fd = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _READ_BYTES)
    finally:
        os.close(fd)
