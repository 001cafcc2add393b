"""What can hold limits: a group of processes with limits on them all, and a seat in it for each session."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from cellhouse.model import LimitName, WallLimits

PREFIX: Final = "cellhouse-"
"""Begins the name of every group that is made here."""

KILLS: Final = "oom_kill"
"""The key of that count, in all versions."""
READ_BYTES: Final = 4096


class GroupUnavailable(Exception):
    """There can be no group here; the message says why, as the end of a sentence."""


class Seat(Protocol):
    """The place of one process and its descendants within a group."""

    def enter(self, pid: int) -> None:
        """Have the process counted here from now on. OSError where it can't be, as when it has ended."""

    def kills(self) -> int:
        """How many processes of this seat the kernel of the host has ended for the want of memory."""

    def open_count(self) -> int:
        """A descriptor of the file that has that count, for `kills_in`; the caller's to close. OSError."""

    def leave(self) -> None:
        """Nobody sits here any more."""


class Group(Protocol):
    """The limits on all processes of one sandbox. Its processes have ended when it is closed."""

    @property
    def held(self) -> frozenset[LimitName]:
        """What it holds, exactly."""

    @property
    def entrances(self) -> tuple[Path, ...]:
        """The files into which a process writes "0" to go in."""

    @property
    def directories(self) -> tuple[Path, ...]:
        """What there is to remove, each with its seats."""

    @property
    def name(self) -> str:
        """What holds, for people."""

    def seat(self, name: str) -> Seat: ...

    def kills(self) -> int:
        """As of a seat, for what sits in none."""

    def peak(self) -> int | None:
        """The most memory that all together have had, in bytes."""

    def close(self) -> bool:
        """Remove it; whether it is gone. To be asked again where somebody was still in it."""


class GroupMaker(Protocol):
    """An adapter: makes groups of one kind."""

    def __call__(self, name: str, limits: WallLimits) -> Group:
        """GroupUnavailable where not even one limit can be held; nothing is left behind then."""


class LimitMaker(Protocol):
    """What of the limits takes a privilege: asked for once, before anything runs. See `Privileged`."""

    def make_group(self, limits: WallLimits) -> Group:
        """GroupUnavailable where not even one limit can be held."""

    def mount_content(self, size: int) -> None:
        """A disk of its own for /content. DiskUnavailable."""


@dataclass(frozen=True, slots=True)
class Mount:
    """Where a hierarchy of groups is seen, and which part of it."""

    root: str
    point: Path
    kind: str
    options: frozenset[str]


def mounts(process: Path) -> list[Mount]:
    """Every hierarchy that is mounted, from /proc/self or a tree that looks like it."""
    found = []
    for line in (process / "mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        fields = line.split()
        try:
            dash = fields.index("-", 6)
            kind, options = fields[dash + 1], frozenset(fields[dash + 3].split(","))
        except (ValueError, IndexError):
            continue
        if kind in ("cgroup", "cgroup2"):
            found.append(Mount(_plain(fields[3]), Path(_plain(fields[4])), kind, options))
    return found


def own_path(process: Path, controller: str) -> str | None:
    """Which group this process is in, in the hierarchy of a controller ("" for that of version 2)."""
    for line in (process / "cgroup").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return path
    return None


def below(mount: Mount, path: str) -> Path:
    """The directory of a group. GroupUnavailable where it lies outside of what is mounted."""
    inside = os.path.relpath(path, mount.root)
    if inside.startswith("..") or path.startswith("/.."):
        raise GroupUnavailable(f"the group {path} of this process can't be seen in {mount.point}")
    return mount.point / inside


def write(path: Path, text: str) -> None:
    # Not by a new file: in a group there is only what the kernel has put there.
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def read_number(path: Path, key: str = "") -> int | None:
    """The number in a file, or the one behind a key; None where there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return number_in(descriptor, key)
    finally:
        os.close(descriptor)


def number_in(descriptor: int, key: str = "") -> int | None:
    """The same of an open file, which may be read again and again."""
    try:
        text = os.pread(descriptor, READ_BYTES, 0)
    except OSError:
        return None
    wanted = key.encode()
    for line in text.splitlines():
        word, _, value = line.rpartition(b" ")
        if word == wanted and value.isdigit():
            return int(value)
    return None


def kills_in(count: int) -> int:
    """What the file of a seat's count says; 0 where the seat has gone."""
    return number_in(count, KILLS) or 0


def remove_group(directory: Path) -> bool:
    """Remove a group with its seats; whether it is gone. The kernel of the host refuses it while somebody sits there."""
    try:
        for entry in list(os.scandir(directory)):
            if entry.is_dir(follow_symlinks=False):
                remove_group(Path(entry.path))
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


class GroupSeat:
    """A group of its own below the sandbox's one for memory: the limit is that one's, the count of the dead is its own."""

    def __init__(self, directory: Path, count: str) -> None:
        """`count` names the file of a group that has that count; it is not the same in all versions of cgroups."""
        self._directory, self._count = directory, directory / count
        self._descriptor = -1
        self._left = False

    def enter(self, pid: int) -> None:
        write(self._directory / "cgroup.procs", str(pid))

    def kills(self) -> int:
        """Asked before and after every execution: the file stays open in between. 0 once it has been left."""
        if self._left:
            return 0
        if self._descriptor < 0:
            try:
                self._descriptor = self.open_count()
            except OSError:
                return 0
        return kills_in(self._descriptor)

    def open_count(self) -> int:
        return os.open(self._count, os.O_RDONLY | os.O_CLOEXEC)

    def leave(self) -> None:
        self._left = True
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
        remove_group(self._directory)


def _plain(text: str) -> str:
    """A path of mountinfo, in which white space is written in octal."""
    for code in (r"\040", r"\011", r"\012", r"\134"):
        text = text.replace(code, chr(int(code[1:], 8)))
    return text
