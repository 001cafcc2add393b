"""Who there is in a sandbox and what they use, counted from outside: by /proc, without trusting a word from inside."""

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_READ_BYTES: Final = 16_384
_MOUNTS: Final = ("tmp", "home", "dev/shm", "run")


@dataclass(slots=True)
class Share:
    """A session's processes, or another process with all below it: bytes, tasks, bytes written so far."""

    pids: list[int] = field(default_factory=list)
    tasks: int = 0
    resident: int = 0
    written: int = 0


@dataclass(slots=True)
class Census:
    """All of a sandbox. `shares` are by the number of the session's first process, or of one that belongs to none."""

    shares: dict[int, Share] = field(default_factory=dict)
    walls: Share = field(default_factory=Share)

    @property
    def tasks(self) -> int:
        return self.walls.tasks + sum(share.tasks for share in self.shares.values())

    @property
    def resident(self) -> int:
        return self.walls.resident + sum(share.resident for share in self.shares.values())


def count(launcher: int, supervisor: int, sessions: Collection[int]) -> Census:
    """Everything below the launcher. A process is a session's by its session on the host, or by its forebears."""
    parents: dict[int, tuple[int, int, int, int]] = {}
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        fields = _read(f"/proc/{entry.name}/stat").rpartition(b")")[2].split()
        if len(fields) < 22 or fields[0] in (b"Z", b"X"):
            continue
        pid, parent = int(entry.name), int(fields[1])
        parents[pid] = (parent, int(fields[3]), int(fields[17]), int(fields[21]) * _PAGE)
        children.setdefault(parent, []).append(pid)
    census = Census()
    todo = [(launcher, 0)]
    while todo:
        pid, of = todo.pop()
        if pid not in parents:
            continue
        parent, session, tasks, resident = parents[pid]
        if pid in sessions:
            of = pid
        elif session in sessions:
            of = session
        elif not of and parent == supervisor:
            of = pid
        share = census.shares.setdefault(of, Share()) if of else census.walls
        share.pids.append(pid)
        share.tasks += tasks
        share.resident += resident
        todo += [(child, of) for child in children.get(pid, [])]
    return census


def measure_memory(census: Census) -> int:
    """Bytes of all together, each page once; every share's `resident` becomes its part of it.

    What stands in the in-memory directories counts, be it mapped or not.
    """
    private, shared = 0, 0
    for share in (census.walls, *census.shares.values()):
        share.resident = 0
        for pid in share.pids:
            pss, shmem = _proportional(pid)
            share.resident += pss
            private += pss - shmem
            shared += shmem
    return private + max(shared, in_memory(census))


def measure_writes(census: Census) -> None:
    """Fill in what each share has written."""
    for share in census.shares.values():
        for pid in share.pids:
            share.written += _value(_read(f"/proc/{pid}/io"), b"write_bytes:") or 0


def is_dying(pid: int) -> bool:
    """Whether a process has been told to end at once, or is about to be gone, or is."""
    status = _read(f"/proc/{pid}/status")
    stat = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(stat) < 7 or stat[0] in (b"Z", b"X") or int(stat[6]) & 4:  # PF_EXITING
        return True
    for line in status.splitlines():
        if line.startswith((b"SigPnd:", b"ShdPnd:")) and int(line.split()[1], 16) >> 8 & 1:
            return True
    return False


def _proportional(pid: int) -> tuple[int, int]:
    """A process's part of the memory it maps, and how much of it is shared memory."""
    text = _read(f"/proc/{pid}/smaps_rollup")
    pss = _value(text, b"Pss:")
    if pss is not None:
        return pss * 1024, (_value(text, b"Pss_Shmem:") or 0) * 1024
    fields = _read(f"/proc/{pid}/statm").split()  # one that must not be looked into, or that has ended
    return (int(fields[1]) * _PAGE if len(fields) > 1 else 0), 0


def in_memory(census: Census) -> int:
    """Bytes in the tmpfs of the sandbox, each once, as any of its processes sees them; 0 where it has none of its own."""
    for share in census.shares.values():
        for pid in share.pids:
            seen: dict[int, int] = {}
            try:
                if os.stat(f"/proc/{pid}/root").st_dev == os.stat("/").st_dev:
                    return 0
                for name in _MOUNTS:
                    path = f"/proc/{pid}/root/{name}"
                    disk = os.statvfs(path)
                    seen[os.stat(path).st_dev] = (disk.f_blocks - disk.f_bfree) * disk.f_frsize
            except OSError:
                continue
            return sum(seen.values())
    return 0


def _value(text: bytes, key: bytes) -> int | None:
    for line in text.splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    return None


def _read(path: str) -> bytes:
    """The start of a file of /proc; nothing where it is gone or forbidden."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _READ_BYTES)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
