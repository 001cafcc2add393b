"""The log of one execution: written once, read by number by anyone, live or long after."""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from cellhouse.files import MAX_RECORD_BYTES, DiskFull, RecordReader, RecordTooLong, RecordWriter
from cellhouse.journal.entries import StartRecord
from cellhouse.journal.followers import Followers
from cellhouse.journal.home import LogHome, LogState
from cellhouse.journal.layout import TextName
from cellhouse.journal.paging import TextPage
from cellhouse.journal.payloads import EVENT_HEAD_BYTES, SENT, encode_event, encode_note, event_head
from cellhouse.journal.reading import READ_BYTES, events_after, evicted, notes_of, start_of
from cellhouse.journal.reserve import END_BYTES, Slot
from cellhouse.journal.scan import LogFacts, read_finished
from cellhouse.journal.shorten import TOO_LONG, fit_into
from cellhouse.journal.spill import SpillBudget, SpillWriter
from cellhouse.journal.texts import late_of, text_page
from cellhouse.model import (
    Event,
    ExecuteCodeResult,
    FinishedEvent,
    Late,
    LateEvent,
    TailFrame,
    rfc3339,
)

# What a record has to hold besides the result: the event around it, and its head.
_BESIDE_RESULT = 1_024 + EVENT_HEAD_BYTES


class ExecutionLog:
    """One execution on record. Belongs to the event loop's thread; readers share it and cost it nothing."""

    __slots__ = (
        "__weakref__", "_budget", "_closed", "_evicted", "_facts", "_followers", "_home", "_slot", "_spills", "_start", "_state",
        "_writer", "execution_id", "name", "uid",
    )  # fmt: skip

    def __init__(
        self,
        home: LogHome,
        start: StartRecord,
        facts: LogFacts,
        writer: RecordWriter | None = None,
        slot: Slot | None = None,
    ) -> None:
        self.uid = start.uid
        self.name = start.name
        self.execution_id = start.execution_id
        self._home = home
        self._facts = facts
        self._writer = writer
        # Room for the end, held until it is written.
        self._slot = slot
        # The code can be long: it is held only while it may be asked for often.
        self._start = start if writer is not None else None
        self._state = LogState.FINISHED if writer is None else LogState.OPEN
        self._budget = SpillBudget(home.spill_bytes)
        self._spills: dict[TextName, SpillWriter] = {}
        self._followers = Followers()
        self._closed = writer is None
        self._evicted = False

    @classmethod
    def create(cls, home: LogHome, start: StartRecord) -> Self:
        """Write the file with its start record. Raises DiskFull, FileExistsError."""
        slot = home.reserve.take()
        try:
            writer = home.create_record(start)
        except BaseException:
            home.reserve.give_back(slot)
            raise
        return cls(home, start, LogFacts(end=writer.end), writer, slot)

    @classmethod
    def of_file(cls, home: LogHome, facts: LogFacts) -> Self:
        """The log of a finished execution whose file was scanned. ValueError where it can't be read."""
        return cls(home, cls._start_of(facts), facts)

    @classmethod
    def of_unfinished(cls, home: LogHome, facts: LogFacts) -> Self:
        """The log of an execution that its owner left unfinished, to end it. Works on a full disk."""
        start = cls._start_of(facts)
        slot = home.reserve.take()
        writer = RecordWriter.reopen(home.layout.record(start.uid), reserve=0, end=facts.end)
        return cls(home, start, facts, writer, slot)

    @staticmethod
    def _start_of(facts: LogFacts) -> StartRecord:
        start, facts.start = facts.start, None
        if start is None:
            raise ValueError(f"the record can't be read: {facts.unreadable}")
        return start

    # What it is

    @property
    def start(self) -> StartRecord:
        """How it was asked for, with the code; read from the file once it has finished."""
        if self._start is not None:
            return self._start
        with self._reader() as reader:
            return start_of(reader)

    @property
    def state(self) -> LogState:
        return self._state

    @property
    def sent(self) -> bool:
        """Whether the code may have reached the kernel."""
        return self._facts.sent

    @property
    def last_seq(self) -> int:
        """Number of the newest event; 0 before the first."""
        return self._facts.last_seq

    @property
    def closed(self) -> bool:
        """Nothing more will come: it was sealed or evicted, its journal was closed, or it is an old one read again."""
        return self._closed

    @property
    def disk_bytes(self) -> int:
        """Bytes of the record and of the texts that this owner put beside it."""
        return self._facts.end + self._home.spill_bytes - self._budget.left

    @property
    def finished(self) -> ExecuteCodeResult | None:
        """The recorded result; None before the end. Read from the file unless it is among the newest events."""
        if not self._facts.finished_seq:
            return None
        event = self._home.cache.get(self.uid, self._facts.finished_seq)
        if not isinstance(event, FinishedEvent):
            with self._reader() as reader:
                event = read_finished(reader, self._facts)
            self._home.cache.put(
                self.uid,
                event,
                len(self._facts.end_payload or b"") or self._facts.end - self._facts.finished_at,
            )
        return event.result

    def late(self) -> Late | None:
        """How much late output is on record, counted anew from the file; None where there is none."""
        if self._facts.last_seq == self._facts.finished_seq:
            return None
        with self._reader() as reader:
            return late_of(reader, self._facts)

    # Writing

    def mark_sent(self) -> None:
        """The commit of at-most-once, right before the code is sent: from here on it may have run."""
        writer = self._open_writer("be marked as sent")
        # It fits into the zeros behind the last record, also on a full disk.
        writer.append_final(SENT)
        if self._home.durable:
            writer.sync()
        self._facts.sent = True
        self._facts.end = writer.end

    def sync(self) -> None:
        """Return when what was written so far survives power loss; from any thread."""
        self._open_writer("be waited for").sync()

    def append(self, event: Event) -> Event:
        """Number and time an event, write it, wake who waits; the event as recorded.

        Raises DiskFull before the room for the end is touched: nothing is written then, no number used up. After the
        end only a LateEvent is taken.
        """
        if isinstance(event, LateEvent):
            return self.append_late(event)
        if isinstance(event, FinishedEvent):
            raise TypeError("the end is written by finish(), which keeps room for it")
        return self._record(event, self._open_writer("take events").append)[0]

    def append_late(self, event: LateEvent) -> Event:
        """Output of background work, after the end. Raises DiskFull, FileNotFoundError (evicted)."""
        if self._state is not LogState.FINISHED:
            raise RuntimeError(
                f"{self.name} has not finished, so nothing it prints is late; append a stream event"
            )
        with self._reopened() as writer:
            made, _ = self._record(event, writer.append)
        self._home.grew(self)
        return made

    def note(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Keep a fact that is no event, also after the end. Raises DiskFull, FileNotFoundError (evicted)."""
        data = encode_note(kind, payload)
        if self._writer is not None:
            self._writer.append(data)
            self._facts.end = self._writer.end
            return
        with self._reopened() as writer:
            writer.append(data)
            self._facts.end = writer.end
        self._home.grew(self)

    def finish(self, result: ExecuteCodeResult) -> FinishedEvent:
        """Freeze the result, exactly once; the event as recorded.

        Shortened, with a notice that says so, on a full disk (it goes into the room that was kept for it in the reserve)
        and where it is longer than a record can be.
        """
        writer = self._open_writer("finish")
        try:
            made, offset = self._record_end(writer, result)
            self._facts.finished_at = offset
        except DiskFull:
            small = fit_into(result, END_BYTES - _BESIDE_RESULT)
            made, _ = self._record(FinishedEvent(result=small), self._write_to_reserve)
        if not isinstance(made, FinishedEvent):
            raise TypeError("stamping changed the kind of an event")
        self._facts.finished_seq = made.seq
        self._state = LogState.FINISHED
        self._start = None
        self._followers.tail = None
        if self._home.durable:
            writer.sync()
        self._give_slot_back()
        self.release()
        self._home.finished(self, made)
        return made

    def _record_end(self, writer: RecordWriter, result: ExecuteCodeResult) -> tuple[Event, int]:
        try:
            return self._record(FinishedEvent(result=result), writer.append_final)
        except RecordTooLong:
            small = fit_into(result, MAX_RECORD_BYTES - _BESIDE_RESULT, TOO_LONG)
            return self._record(FinishedEvent(result=small), writer.append_final)

    def _write_to_reserve(self, payload: bytes) -> tuple[int, int]:
        slot, self._slot = self._slot, None
        if slot is None:
            raise RuntimeError(f"{self.name} holds no room for its end")
        self._home.reserve.keep_end(slot, self.uid, payload)
        self._facts.end_payload = payload
        return self._facts.end, 0

    def _give_slot_back(self) -> None:
        slot, self._slot = self._slot, None
        if slot is not None:
            self._home.reserve.give_back(slot)

    def tail(self, frame: TailFrame) -> None:
        """Show a passing frame to whoever follows; only the latest is held, none once it has finished."""
        if self._state is LogState.OPEN:
            self._followers.show(frame)

    @property
    def latest_tail(self) -> TailFrame | None:
        return self._followers.tail

    def spill(self, name: TextName) -> SpillWriter:
        """What keeps the whole of one text beside the record; the same writer each time. Its `write` raises DiskFull."""
        self._open_writer("keep more text")
        writer = self._spills.get(name)
        if writer is None:
            writer = self._spills[name] = SpillWriter(self._home.layout.text(self.uid, name), self._budget)
        return writer

    # Reading

    def read(self, after: int, limit: int = 1000, size: int = READ_BYTES) -> list[Event]:
        """Events numbered above `after`, in order, at most `limit` and about `size` bytes of them; none: no more yet.

        One is always given, however long. Raises NotFound (EVICTED).
        """
        self._check_there()
        events = self._home.cache.after(self.uid, after, limit, size)
        if events or after >= self._facts.last_seq or limit <= 0:
            return events
        with self._reader() as reader:
            return events_after(reader, self._facts, after, limit, size)

    def read_text(self, name: TextName, offset: int = 0, limit: int = 65_536) -> TextPage:
        """A page of one whole text, by offsets in bytes of its UTF-8, cut at characters. Raises NotFound (EVICTED)."""
        with self._reader() as reader:
            return text_page(reader, self._facts, self._home.layout, self.uid, name, offset, limit)

    def notes(self, kind: str) -> list[dict[str, Any]]:
        """The facts of one kind, oldest first. Raises NotFound (EVICTED)."""
        with self._reader() as reader:
            return notes_of(reader, kind)

    async def wait(self, after: int) -> None:
        """Until there is an event above `after`, a new tail frame, or `closed`. Returns at once where there is already."""
        if self._facts.last_seq <= after and not self._closed:
            await self._followers.wait()

    # The end of its life

    def release(self) -> None:
        """Close the descriptors of a finished log. It stays readable, and late events reopen it for a moment."""
        if self._state is LogState.OPEN:
            return
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close(keep_reserve=self._state is LogState.ABANDONED)
        for spill in self._spills.values():
            spill.close()
        self._spills.clear()

    def settle_end(self) -> bool:
        """Move the end from the reserve into the record where there is room; whether it stands in the record now."""
        if self._facts.end_payload is not None:
            with contextlib.suppress(DiskFull), self._reopened():
                self._home.grew(self)
        return self._facts.end_payload is None

    def seal(self) -> None:
        """Nothing late will come any more: who follows for it is let go."""
        self.release()
        self._closed = True
        self._followers.wake()

    def abandon(self) -> None:
        """The journal closes. What has not finished keeps its reserve for the one who will end it."""
        if self._state is LogState.OPEN:
            self._state = LogState.ABANDONED
        self.seal()

    def discard(self) -> None:
        """The record is gone from disk."""
        self._evicted = True
        self._give_slot_back()
        self.abandon()

    # Within

    def _open_writer(self, wish: str) -> RecordWriter:
        if self._state is not LogState.OPEN or self._writer is None:
            raise RuntimeError(
                f"{self.name} is {self._state.value} and can't {wish}; only its owner ends it, once"
            )
        return self._writer

    def _record(self, event: Event, write: Callable[[bytes], tuple[int, int]]) -> tuple[Event, int]:
        """Write an event; as recorded, and where it stands."""
        made = event.stamped(self._facts.last_seq + 1, rfc3339(self._home.clock.now()))
        payload = encode_event(made)
        offset, length = write(payload)
        facts = self._facts
        seq, kind, size = event_head(payload)
        facts.last_seq = seq
        facts.end = offset + length
        facts.marks.add(seq, offset)
        if size:
            facts.text_bytes[kind] = facts.text_bytes.get(kind, 0) + size
        self._home.cache.put(self.uid, made, length)
        self._followers.wake()
        return made, offset

    def _check_there(self) -> None:
        if self._evicted:
            raise evicted(self.name)

    @contextlib.contextmanager
    def _reader(self) -> Iterator[RecordReader]:
        self._check_there()
        if self._writer is not None:
            yield RecordReader(self._writer.fd, self._facts.end)
            return
        try:
            fd = os.open(self._home.layout.record(self.uid), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise evicted(self.name) from None
        try:
            yield RecordReader(fd, self._facts.end)
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _reopened(self) -> Iterator[RecordWriter]:
        """The finished file for a moment, to add to it; its end comes into it first where that stands in the reserve."""
        if not self._home.open:
            raise OSError(errno.EBADF, "the journal is closed, so nothing more is recorded", self.name)
        writer = RecordWriter.reopen(self._home.layout.record(self.uid), reserve=0, end=self._facts.end)
        try:
            if self._facts.end_payload is not None:
                offset, length = writer.append_final(self._facts.end_payload)
                self._facts.finished_at, self._facts.end_payload = offset, None
                self._facts.end = offset + length
                self._home.reserve.let_go(self.uid)
            yield writer
        finally:
            writer.close()
