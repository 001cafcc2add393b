"""Which files of a hostile directory were made or changed between two moments."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from cellhouse.files.hostile import SCAN_DEPTH, HostileDir

# Written by the service or by tools on the side: not what the code made.
SKIPPED = frozenset({b".dsm_outputs", b".packages", b"__pycache__", b".ipynb_checkpoints"})

# A file system stamps ctime from the clock of the last tick, so it can lie behind by one.
_TICK_NS = 20_000_000


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """How far a snapshot looks."""

    entries: int = 20_000
    depth: int = SCAN_DEPTH


@dataclass(frozen=True, slots=True)
class FileMark:
    """What tells one state of a file from another."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The regular files at one moment, by printable name. `cut` says why some may be missing; empty: none is."""

    files: Mapping[str, FileMark]
    taken_ns: int
    cut: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class Change:
    """A file that is new (`created`) or whose content was written to; `name` is its printable path."""

    name: str
    created: bool
    mark: FileMark


def snapshot(directory: HostileDir, limits: SnapshotLimits | None = None) -> Snapshot:
    """Look at the directory now, bounded by `limits`."""
    limits = limits or SnapshotLimits()
    taken_ns = time.time_ns()
    scan = directory.scan(limits.entries, depth=limits.depth, skip=SKIPPED)
    files = {
        entry.name: FileMark(
            entry.stat.st_ino, entry.stat.st_size, entry.stat.st_mtime_ns, entry.stat.st_ctime_ns
        )
        for entry in scan.entries
        if entry.kind == "file"
    }
    return Snapshot(files, taken_ns, scan.cut)


def changes(before: Snapshot, after: Snapshot) -> list[Change]:
    """Files created or changed since `before`, by name.

    Where `before` was cut, a file that it lacks counts only if its ctime, which code can't set, is not older than it.
    """
    found = []
    for name, mark in after.files.items():
        old = before.files.get(name)
        if old == mark:
            continue
        if old is None and before.cut and mark.ctime_ns < before.taken_ns - _TICK_NS:
            continue
        found.append(Change(name, old is None, mark))
    return sorted(found, key=lambda change: change.name)
