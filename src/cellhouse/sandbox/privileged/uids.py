"""A uid for each runtime: taken from a range, held by one runtime of the machine at a time, given back when it ends."""

import fcntl
import grp
import os
import pwd
import secrets
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from cellhouse.model import InvalidArgument

RUN: Final = Path("/run/cellhouse")
"""Root's own on this machine: who holds which uid, and the place where a sandbox's view of the host is put up."""
LOCKS: Final = "uids"
MAPS: Final = (Path("/proc/self/uid_map"), Path("/proc/self/gid_map"))
SUBORDINATE: Final = (Path("/etc/subuid"), Path("/etc/subgid"))
LEAST: Final = 1_000
"""Below are the accounts of the system."""
MOST: Final = 2**32 - 2


class UidsUnavailable(Exception):
    """No uid of the range can be had; the message says why, as the end of a sentence, and what would help."""


class UidsNotMapped(UidsUnavailable):
    """The range is not one of this user namespace: as in a container whose root is none of the host's."""


class UidsFull(UidsUnavailable):
    """All of the range are taken."""


@dataclass(frozen=True, slots=True)
class UidRange:
    """Numbers that belong to the runtimes of this machine and to nobody else, as uids and as gids, both ends included.

    InvalidArgument where they are none, or those of the system's accounts.
    """

    first: int
    last: int

    def __post_init__(self) -> None:
        for value in (self.first, self.last):
            if type(value) is not int or not LEAST <= value <= MOST:
                raise InvalidArgument.of_field(
                    "uids", f"{value!r} is no uid for runtimes; both ends lie between {LEAST} and {MOST}"
                )
        if self.last < self.first:
            raise InvalidArgument.of_field(
                "uids", f"from {self.first} to {self.last} there is none; name the smaller one first"
            )

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


DEFAULT_UIDS: Final = UidRange(60_706, 61_183)
"""Given out by no distribution and not by systemd (whose table of uids leaves exactly these free), and below 65,534:
so a container that has but one block of 65,536 has them too."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What the processes of one sandbox are on the host: this uid, this gid, and no other group."""

    uid: int
    gid: int


class UidLease:
    """One uid, for as long as it is held. The lock goes with this process, however it ends."""

    def __init__(self, identity: Identity, lock: Path, descriptor: int) -> None:
        self.identity = identity
        self._lock, self._descriptor = lock, descriptor

    @classmethod
    def take(cls, uids: UidRange, *, run: Path = RUN) -> Self:
        """One that nobody holds, no account has, and no process runs under. UidsUnavailable where there is none.

        Blocks for some milliseconds.
        """
        check_mapped(uids)
        check_subordinate(uids)
        locks = private_place(run / LOCKS)
        start = secrets.randbelow(
            len(uids)
        )  # so that one which was just given back is not the next to be taken
        used = used_ids()
        reasons = {"held by another runtime": 0, "of an account": 0, "of a process that runs": 0}
        for offset in range(len(uids)):
            uid = uids.first + (start + offset) % len(uids)
            if has_account(uid):
                reasons["of an account"] += 1
                continue
            if (descriptor := _lock(locks / str(uid))) is None:
                reasons["held by another runtime"] += 1
                continue
            # Looked at under the lock: what a dead service left may still be about to end.
            if uid in used and uid in (used := used_ids()):
                reasons["of a process that runs"] += 1
                os.close(descriptor)
                continue
            return cls(Identity(uid, uid), locks / str(uid), descriptor)
        told = ", ".join(f"{count} {why}" for why, count in reasons.items() if count)
        raise UidsFull(
            f"none of the uids {uids} is free ({told}); delete a runtime, or configure a larger range"
        )

    def give_back(self) -> None:
        """Everything of it has ended. Calling it again does nothing."""
        if self._descriptor >= 0:
            # Under the lock: a name that goes while another waits for it is noticed there.
            self._lock.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1


def _lock(path: Path) -> int | None:
    """A descriptor that holds the lock; None where somebody else does."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same(path, descriptor):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # given back, name and all, between the two


def _same(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def private_place(path: Path) -> Path:
    """A directory below which only root can change anything. UidsUnavailable where it can't be made, or is another's."""
    try:
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
        for each in (path, path.parent):
            found = each.lstat()
            if (
                not stat.S_ISDIR(found.st_mode)
                or found.st_uid != os.geteuid()
                or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            ):
                raise UidsUnavailable(
                    f"{each} is no directory that only root can change; remove it, and it is made anew"
                )
    except OSError as error:
        raise UidsUnavailable(
            f"{path} can't be made: {error.strerror}; give the service a /run that it can write"
        ) from error
    return path


def check_mapped(uids: UidRange) -> None:
    """UidsNotMapped where some of them are not there in this user namespace, as uid or as gid."""
    for path in MAPS:
        left = range(uids.first, uids.last + 1)
        for first, count in sorted(_blocks(path, 0, 2, None)):
            if first <= left.start < first + count:
                left = range(first + count, left.stop)
        if len(left):
            raise UidsNotMapped(
                f"the uids {uids} are not all mapped in the user namespace of this service ({path.name}: up to "
                f"{max((first + count - 1 for first, count in _blocks(path, 0, 2, None)), default=0)}); "
                "give its container at least 65,536 uids, or configure a range that it has"
            )


def check_subordinate(uids: UidRange) -> None:
    """UidsUnavailable where some of them have been given to a user, for containers of that user's own."""
    for path in SUBORDINATE:
        for first, count in _blocks(path, 1, 2, ":"):
            if first <= uids.last and uids.first < first + count:
                raise UidsUnavailable(
                    f"{path} gives {first}-{first + count - 1} to a user, which overlaps the runtimes' uids {uids}; "
                    "configure another range"
                )


def _blocks(path: Path, first: int, count: int, separator: str | None) -> list[tuple[int, int]]:
    """The pairs of a first number and a count in a file of such lines; none where there is no such file."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        fields = line.split(separator)
        if len(fields) > count and fields[first].strip().isdigit() and fields[count].strip().isdigit():
            found.append((int(fields[first]), int(fields[count])))
    return found


def has_account(number: int) -> bool:
    """Whether the number is a user's or a group's, wherever this machine looks for those."""
    for find in (pwd.getpwuid, grp.getgrgid):
        try:
            find(number)
        except KeyError:
            continue
        return True
    return False


def used_ids() -> set[int]:
    """Every uid under which a process of this machine runs, in whichever of its four ways."""
    return {uid for _, uids in _processes() for uid in uids}


def processes_of(uids: Collection[int]) -> list[int]:
    """The processes that are one of these in whichever of their four ways. One that is root in any is none of them."""
    return [pid for pid, found in _processes() if 0 not in found and not found.isdisjoint(uids)]


def _processes() -> Iterator[tuple[int, set[int]]]:
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            with open(f"/proc/{entry.name}/status", "rb") as file:
                status = file.read(4096)
        except OSError:
            continue  # it has ended
        if b"\nState:\tZ" in status:
            continue  # likewise, though nobody has waited for it yet
        for line in status.splitlines():
            if line.startswith(b"Uid:"):
                yield int(entry.name), set(map(int, line.split()[1:]))
                break
