"""Room on disk for the ends of executions: blocks that are ours already when nobody can get any more.

Each execution that runs holds one slot, a small file with its blocks allocated. Where a record can't take the end because
the disk is full, the end is written into the slot and stays there until the record has room for it. Slots are used again
and again: to allocate and free the blocks for each execution would cost more than all the rest of its record.
"""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from cellhouse.files import HEADER_BYTES, MAGIC, disk_full_named, frame, read_records, write_all

SLOT_BYTES = 64 << 10
# Slots that nobody holds and that are kept for the next.
FREE_SLOTS = 64
_UID_BYTES = 32
# The longest end that a slot takes.
END_BYTES = SLOT_BYTES - len(MAGIC) - HEADER_BYTES - _UID_BYTES


@dataclass(frozen=True, slots=True)
class Slot:
    """Room for one end."""

    path: Path


class Reserve:
    """The slots of one journal, and the ends that stand in some of them."""

    def __init__(self, directory: Path, *, durable: bool) -> None:
        """Read what is there: a slot that holds an end, or a free one."""
        self._directory = directory
        self._durable = durable
        self._free: list[Slot] = []
        self._next = 0
        self._used: dict[str, Slot] = {}
        # The payload of the end, by uid of its execution.
        self.ends: dict[str, bytes] = {}
        directory.mkdir(mode=0o700, exist_ok=True)
        for path in sorted(directory.iterdir()):
            self._take_in(path)

    def _take_in(self, path: Path) -> None:
        if not path.name.isdecimal():
            return
        self._next = max(self._next, int(path.name) + 1)
        slot = Slot(path)
        records = read_records(path)
        if records:
            payload = records[0][1]
            uid = payload[:_UID_BYTES].decode("ascii", "replace")
            self.ends[uid], self._used[uid] = payload[_UID_BYTES:], slot
        elif path.stat().st_size == SLOT_BYTES:
            self._free.append(slot)
        else:
            # Made when there was no room for it.
            path.unlink()

    def take(self) -> Slot:
        """A slot for an execution that begins. Raises DiskFull."""
        if self._free:
            return self._free.pop()
        path = self._directory / f"{self._next:06}"
        self._next += 1
        with disk_full_named(str(path)):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(fd, 0, SLOT_BYTES)
            except BaseException:
                path.unlink()
                raise
            finally:
                os.close(fd)
        return Slot(path)

    def give_back(self, slot: Slot) -> None:
        """The end found its place elsewhere."""
        if len(self._free) < FREE_SLOTS:
            self._free.append(slot)
        else:
            slot.path.unlink(missing_ok=True)

    def keep_end(self, slot: Slot, uid: str, payload: bytes) -> None:
        """Write the end of an execution into its slot: at most END_BYTES."""
        if len(uid) != _UID_BYTES or len(payload) > END_BYTES:
            raise ValueError(
                f"an end in reserve has at most {END_BYTES} bytes and a uid of {_UID_BYTES}; shorten it"
            )
        self._write(slot, MAGIC + frame(uid.encode() + payload))
        self.ends[uid], self._used[uid] = payload, slot

    def let_go(self, uid: str) -> None:
        """The end stands in its record now, or the record is gone."""
        if self.ends.pop(uid, None) is None:
            return
        slot = self._used.pop(uid)
        self._write(slot, bytes(len(MAGIC) + HEADER_BYTES))
        self.give_back(slot)

    def _write(self, slot: Slot, data: bytes) -> None:
        """Over the beginning of a slot; its blocks are there."""
        fd = os.open(slot.path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            write_all(fd, data)
            if self._durable:
                os.fdatasync(fd)
        finally:
            os.close(fd)

    def close(self) -> None:
        """Remove the free slots. Executions that have not finished keep theirs, for whoever ends them."""
        for slot in self._free:
            with contextlib.suppress(FileNotFoundError):
                slot.path.unlink()
        self._free.clear()
