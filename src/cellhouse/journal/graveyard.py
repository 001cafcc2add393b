"""tombstones.rec: what is left of evicted executions, in the order in which they went; for the worker's thread."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from cellhouse.files import HEADER_BYTES, DiskFull, NotRecords, RecordReader, RecordWriter, sync_dir
from cellhouse.journal.entries import Tombstone
from cellhouse.journal.tables import Tables

_KIND = b"T"
# The file is written anew once it has this many more records than are still needed.
_SLACK = 10_000
_BATCH = 500


class Graveyard:
    """The file, and the tables' copy of it. A place is `inode:offset:records`: how far the tables have read it."""

    def __init__(self, path: Path, tables: Tables, *, durable: bool) -> None:
        self._path = path
        self._tables = tables
        self._durable = durable
        self._writer = self._open()
        self._records = 0

    def _open(self) -> RecordWriter:
        try:
            return RecordWriter.reopen(self._path)
        except FileNotFoundError:
            return RecordWriter.create(self._path)
        except NotRecords:
            # Cut off before even its mark was on disk: it never held a tombstone.
            self._path.unlink()
            return RecordWriter.create(self._path)

    def close(self) -> None:
        self._writer.close()

    @property
    def place(self) -> str:
        return f"{os.fstat(self._writer.fd).st_ino}:{self._writer.end}:{self._records}"

    def add(self, tombstones: Sequence[Tombstone]) -> str:
        """Write them down; the place then."""
        for tombstone in tombstones:
            payload = _encode(tombstone)
            try:
                self._writer.append(payload)
            except DiskFull:
                # Evicting is what makes room on a full disk, so here the reserve may be used.
                self._writer.append_final(payload)
        if self._durable:
            self._writer.sync()
        self._records += len(tombstones)
        return self.place

    def entomb(self, tombstones: Sequence[Tombstone]) -> None:
        """Into the file, then into the tables, where their executions go."""
        self._tables.entomb(tombstones, self.add(tombstones))

    @property
    def forgotten(self) -> int:
        """Tombstones at the beginning of the file that the tables no longer need."""
        return int(self._tables.fact("forgotten") or 0)

    def read(self, offset: int = 0) -> Iterator[tuple[int, Tombstone]]:
        """(the offset behind it, the tombstone) of each in the file."""
        for at, payload in RecordReader(self._writer.fd, self._writer.end).records(offset):
            tombstone = _decode(payload)
            if tombstone is not None:
                yield at + HEADER_BYTES + len(payload), tombstone

    def catch_up(self) -> int:
        """Bring the tables to where the file is; how many tombstones they lacked."""
        inode, start, self._records = self._known()
        if not start or start > self._writer.end:
            self._tables.clear_tombstones()
            start = self._records = 0
        batch: list[Tombstone] = []
        added = 0
        for end, tombstone in self.read(start):
            batch.append(tombstone)
            added += 1
            self._records += 1
            if len(batch) == _BATCH:
                self._tables.entomb(batch, f"{inode}:{end}:{self._records}")
                batch = []
        self._tables.entomb(batch, self.place)
        return added

    def _known(self) -> tuple[int, int, int]:
        """The file's inode, and the offset and number of records that the tables have of it; 0 where of another file."""
        here = os.fstat(self._writer.fd).st_ino
        parts = self._tables.fact("tombstones").split(":")
        if len(parts) != 3 or not all(part.isdecimal() for part in parts) or int(parts[0]) != here:
            return here, 0, 0
        return here, int(parts[1]), int(parts[2])

    def expire(self, before: str, keep: int) -> int:
        """Forget what is older than `before`, and the oldest beyond `keep`; how many went."""
        gone = self._tables.expire_tombstones(before, keep)
        self._tables.set_fact("forgotten", str(self.forgotten + gone))
        needed = self._tables.tombstone_count()
        if self._records > needed + max(_SLACK, needed // 2):
            self._rewrite()
        return gone

    def _rewrite(self) -> None:
        passing = self._path.with_name(self._path.name + ".new")
        passing.unlink(missing_ok=True)
        writer = RecordWriter.create(passing)
        count = 0
        try:
            for tombstone in self._tables.tombstones():
                writer.append(_encode(tombstone))
                count += 1
            writer.sync()
            passing.rename(self._path)
        except BaseException:
            writer.close()
            passing.unlink(missing_ok=True)
            raise
        sync_dir(self._path.parent)
        self._writer.close()
        self._writer, self._records = writer, count
        self._tables.set_fact("tombstones", self.place)
        self._tables.set_fact("forgotten", "0")

    def recount(self) -> int:
        """Make the tables' copy anew from the file; how many tombstones there are."""
        self._tables.clear_tombstones()
        return self.catch_up()


def _encode(tombstone: Tombstone) -> bytes:
    return _KIND + json.dumps(asdict(tombstone), ensure_ascii=False, separators=(",", ":")).encode()


def _decode(payload: bytes) -> Tombstone | None:
    """None for a record of a later version: it is no reason to lose the others."""
    try:
        body = json.loads(payload[1:])
        return Tombstone(**body) if payload[:1] == _KIND else None
    except (ValueError, TypeError):
        return None
