"""The processes below some, and what they use of memory, read from /proc in one go."""

import os
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def resident_below(root: int, others: Iterable[int] = ()) -> int:
    """Resident bytes of all descendants of a process, and of the others with theirs. Pages that forks share count for each.

    Blocks for as long as it takes to look at every process of this machine: for a thread.
    """
    return sum(descendants(root, others).values())


def descendants(root: int, others: Iterable[int] = ()) -> dict[int, int]:
    """All processes below one, and the others with those below them, each with its resident bytes; the one itself not."""
    children: dict[int, list[int]] = defaultdict(list)
    resident: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := _read(name)) is not None:
            parent, pages = found
            children[parent].append(int(name))
            resident[int(name)] = pages * _PAGE
    waiting = [*children[root], *(pid for pid in others if pid in resident)]
    below: dict[int, int] = {}
    while waiting:
        if (pid := waiting.pop()) not in below:
            below[pid] = resident[pid]
            waiting += children[pid]
    return below


def _read(pid: str) -> tuple[int, int] | None:
    """Its parent and its resident pages; None where it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return (int(fields[1]), int(fields[21])) if len(fields) > 21 else None
