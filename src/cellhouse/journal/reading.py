"""Reading one record: its events by number, its notes, how it began; and what is said where it is gone."""

from typing import Any

from cellhouse.files import RecordReader
from cellhouse.journal.entries import StartRecord
from cellhouse.journal.payloads import (
    NOTE,
    UnreadableRecord,
    decode_event,
    decode_note,
    decode_start,
    event_head,
    is_event,
    note_kind,
)
from cellhouse.journal.scan import LogFacts
from cellhouse.model import CallReason, Event, NotFound

# Of events that are given at once; one always is.
READ_BYTES = 4 << 20


def events_after(
    reader: RecordReader, facts: LogFacts, after: int, limit: int, size: int = READ_BYTES
) -> list[Event]:
    """Events numbered above `after`, at most `limit` and about `size` bytes of them."""
    events: list[Event] = []
    left = size
    for _, payload in reader.records(facts.marks.before(after + 1)):
        if not is_event(payload) or event_head(payload)[0] <= after:
            continue
        events.append(decode_event(payload))
        left -= len(payload)
        if len(events) >= limit or left <= 0:
            return events
    if facts.end_payload is not None and facts.finished_seq > after:
        events.append(decode_event(facts.end_payload))
    return events


def notes_of(reader: RecordReader, kind: str) -> list[dict[str, Any]]:
    """The facts of one kind, oldest first."""
    return [
        decode_note(payload)
        for _, payload in reader.records()
        if payload[:1] == NOTE and note_kind(payload) == kind
    ]


def start_of(reader: RecordReader) -> StartRecord:
    """How the execution was asked for. Raises UnreadableRecord."""
    for _, payload in reader.records():
        return decode_start(payload)
    raise UnreadableRecord("the record is empty; it was damaged since it was opened")


def evicted(name: str) -> NotFound:
    return NotFound(
        f"the record of {name} was evicted; what it said is gone, and its id is not run again",
        reason=CallReason.EVICTED,
    )
