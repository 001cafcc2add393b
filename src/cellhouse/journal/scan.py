"""One pass over a record file: what is in it and where, in bounded memory."""

import os
from array import array
from dataclasses import dataclass, field
from pathlib import Path

from cellhouse.files import HEADER_BYTES, MAGIC, RecordReader
from cellhouse.journal.entries import StartRecord
from cellhouse.journal.payloads import (
    SENT,
    TextKind,
    UnreadableRecord,
    decode_event,
    decode_start,
    event_head,
    is_event,
)
from cellhouse.model import FinishedEvent

MARKS = 256
_FIRST_STRIDE = 64 << 10
_CHUNK = 1 << 20


class SparseIndex:
    """Where events stand in the file: some of them, evenly spread, never more than MARKS."""

    __slots__ = ("_next", "_offsets", "_seqs", "_stride")

    def __init__(self) -> None:
        self._seqs = array("Q")
        self._offsets = array("Q")
        self._stride = _FIRST_STRIDE
        self._next = 0

    def add(self, seq: int, offset: int) -> None:
        """Told of every event, in order."""
        if offset < self._next:
            return
        self._seqs.append(seq)
        self._offsets.append(offset)
        if len(self._seqs) == MARKS:
            self._seqs = self._seqs[::2]
            self._offsets = self._offsets[::2]
            self._stride *= 2
        self._next = offset + self._stride

    def before(self, seq: int) -> int:
        """An offset at or before the event with this number; 0 where none is known."""
        low, high = 0, len(self._seqs)
        while low < high:
            middle = (low + high) // 2
            if self._seqs[middle] <= seq:
                low = middle + 1
            else:
                high = middle
        return self._offsets[low - 1] if low else 0


@dataclass(slots=True)
class LogFacts:
    """What a record says. `damaged`: something that is no record stands behind the last one.

    An execution has finished where `finished_seq` is above 0: with its end at `finished_at` in the file, or in
    `end_payload` while that stands in the reserve.
    """

    start: StartRecord | None = None
    sent: bool = False
    last_seq: int = 0
    finished_at: int = 0
    finished_seq: int = 0
    end_payload: bytes | None = None
    end: int = len(MAGIC)
    damaged: bool = False
    unreadable: str = ""
    marks: SparseIndex = field(default_factory=SparseIndex)
    text_bytes: dict[int, int] = field(default_factory=dict)


def scan(fd: int, end_payload: bytes | None = None) -> LogFacts:
    """Read every record head of the file, and the end that the reserve has of it. Never raises for what is in it."""
    facts = LogFacts()
    size = os.fstat(fd).st_size
    for offset, payload in RecordReader(fd).records():
        facts.end = offset + HEADER_BYTES + len(payload)
        if facts.start is None:
            try:
                facts.start = decode_start(payload)
            except UnreadableRecord as error:
                facts.unreadable = str(error)
                break
        elif payload[:1] == SENT:
            facts.sent = True
        elif is_event(payload):
            _note_event(facts, offset, payload)
    if end_payload is not None and not facts.finished_seq and is_event(end_payload):
        facts.end_payload = end_payload
        facts.last_seq = facts.finished_seq = event_head(end_payload)[0]
    if facts.start is None and not facts.unreadable:
        facts.unreadable = "it has no start record"
    facts.damaged = not facts.unreadable and _nonzero(fd, facts.end, size)
    return facts


def _note_event(facts: LogFacts, offset: int, payload: bytes) -> None:
    seq, kind, size = event_head(payload)
    facts.last_seq = seq
    facts.marks.add(seq, offset)
    if kind == TextKind.FINISHED:
        facts.finished_at, facts.finished_seq = offset, seq
    elif size:
        facts.text_bytes[kind] = facts.text_bytes.get(kind, 0) + size


def scan_file(path: Path, end_payload: bytes | None = None) -> LogFacts:
    """`scan` of a file by its path. Raises OSError where it can't be opened."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        return scan(fd, end_payload)
    finally:
        os.close(fd)


def read_finished(reader: RecordReader, facts: LogFacts) -> FinishedEvent:
    """The `finished` event of a scanned record. ValueError where the file has changed since."""
    payload = facts.end_payload or reader.record(facts.finished_at)
    event = decode_event(payload) if payload is not None and is_event(payload) else None
    if not isinstance(event, FinishedEvent):
        raise ValueError("the finished event is no longer where it was; the record was damaged")
    return event


def never_written(path: Path) -> bool:
    """Whether the file holds nothing but zeros, or only the mark: nothing was ever begun there."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        start = len(MAGIC) if os.pread(fd, len(MAGIC), 0) == MAGIC else 0
        return not _nonzero(fd, start, os.fstat(fd).st_size)
    finally:
        os.close(fd)


def _nonzero(fd: int, start: int, end: int) -> bool:
    while start < end:
        part = os.pread(fd, min(_CHUNK, end - start), start)
        if not part:
            return False
        if part.count(0) != len(part):
            return True
        start += len(part)
    return False
