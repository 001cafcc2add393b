"""Memory as Linux counts it: the most that this process held, no peak between two looks missed; and the share of others."""

from pathlib import Path

_RESET_PEAK = "5"


def reset_peak() -> int:
    """Begin anew; the resident bytes now."""
    Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
    return _status("VmRSS")


def peak() -> int:
    """The most resident bytes since `reset_peak` (shared mappings and files count)."""
    return _status("VmHWM")


def proportional(pid: int) -> int:
    """Bytes of this process with its share of the pages that others hold as well (PSS)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/{pid}/smaps_rollup has no Pss; the bench needs Linux with it")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}; the bench needs Linux with it")
