"""One owner at a time: a lock on the journal's directory that the owner's death gives back."""

import asyncio
import contextlib
import fcntl
import json
import os
from pathlib import Path
from typing import Any, Self

from cellhouse.files import write_all
from cellhouse.model import FailedPrecondition

# Somebody may hold the lock for a moment, only to see whether it is held.
_TRIES = 5
_PAUSE_SECONDS = 0.02
_TOLD_BYTES = 4_096


def boot_id() -> str:
    """What tells one run of the machine from the next; empty where that can't be known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


class OwnerLock:
    """Held from `take` to `close`; the file says who holds it. `before` is what the last owner had written there."""

    def __init__(self, fd: int, before: dict[str, Any]) -> None:
        self._fd = fd
        self.before = before

    @classmethod
    async def take(cls, path: Path) -> Self:
        """Raises FailedPrecondition, which names the owner, where the directory is held."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            for tries_left in reversed(range(_TRIES)):
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if not tries_left:
                        raise _held(path, _told(fd)) from None
                    await asyncio.sleep(_PAUSE_SECONDS)
            return cls(fd, _told(fd))
        except BaseException:
            os.close(fd)
            raise

    def introduce(self) -> None:
        """Say who holds the lock now; what the last owner said of itself stays, for its end is still to be written."""
        self.tell(**{key: value for key, value in self.before.items() if key != "pid"})

    def tell(self, **facts: Any) -> None:
        """Write down who holds the lock, and what the next owner needs to know of this one."""
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        write_all(self._fd, json.dumps({"pid": os.getpid(), "bootId": boot_id(), **facts}).encode())

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _told(fd: int) -> dict[str, Any]:
    told: Any = None
    with contextlib.suppress(ValueError):
        told = json.loads(os.pread(fd, _TOLD_BYTES, 0))
    return told if isinstance(told, dict) else {}


def _held(path: Path, owner: dict[str, Any]) -> FailedPrecondition:
    pid = owner.get("pid")
    who = f"process {pid}" if isinstance(pid, int) else "another process"
    return FailedPrecondition(
        f"the journal {path.parent} is held by {who}; end it first, or use another state directory",
        reason="JOURNAL_HELD",
        metadata={"pid": str(pid)} if isinstance(pid, int) else {},
    )
