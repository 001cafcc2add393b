"""The whole texts of an execution: from the file beside the record where there is one, else from its events."""

from collections.abc import Iterator

from cellhouse.files import RecordReader
from cellhouse.journal.layout import Layout, TextName
from cellhouse.journal.paging import TextPage, page_of, read_spill, spill_size
from cellhouse.journal.payloads import (
    NOTE,
    TextKind,
    decode_event,
    decode_note,
    event_head,
    is_event,
    note_kind,
)
from cellhouse.journal.scan import LogFacts, read_finished
from cellhouse.model import ErrorEvent, Late, LateEvent, ResultEvent, StreamEvent

_KINDS = {"stdout": TextKind.STDOUT, "stderr": TextKind.STDERR}


def text_page(
    reader: RecordReader, facts: LogFacts, layout: Layout, uid: str, name: TextName, offset: int, limit: int
) -> TextPage:
    """A page of one text, by offsets in bytes of its UTF-8."""
    path = layout.text(uid, name)
    spilled = spill_size(path)
    if name == "result":
        return _result_page(reader, layout, uid, offset, limit)
    if name == "traceback":
        if spilled > 0:
            return page_of(lambda at, size: read_spill(path, at, size), offset, limit, spilled)
        return _page_of_text(_traceback(reader, facts), offset, limit)
    kind = _KINDS[name]
    logged = facts.text_bytes.get(kind, 0)
    # Both begin at the beginning and have no gap, so the longer one has more of the text.
    if spilled >= max(logged, 1):
        return page_of(lambda at, size: read_spill(path, at, size), offset, limit, spilled)
    return page_of(lambda at, size: _from_events(reader, kind, at, size), offset, limit, logged)


def _page_of_text(text: str, offset: int, limit: int) -> TextPage:
    data = text.encode()
    return page_of(lambda at, size: data[at : at + size], offset, limit, len(data))


def _from_events(reader: RecordReader, wanted: TextKind, offset: int, size: int) -> bytes:
    """Bytes of a stream's text as its events have it; events before `offset` are skipped by their heads."""
    parts: list[bytes] = []
    for _, payload in reader.records():
        if not is_event(payload):
            continue
        _, kind, length = event_head(payload)
        if kind != wanted:
            continue
        if offset >= length:
            offset -= length
            continue
        event = decode_event(payload)
        if isinstance(event, StreamEvent):
            part = event.text.encode()[offset : offset + size]
            parts.append(part)
            size -= len(part)
            offset = 0
        if size <= 0:
            break
    return b"".join(parts)


def result_place(reader: RecordReader) -> tuple[bytes | None, tuple[int, int] | None]:
    """Where the last value's text is: the payload of its event, or (offset, size) in the file beside the record."""
    event: bytes | None = None
    place: tuple[int, int] | None = None
    for _, payload in reader.records():
        if is_event(payload):
            kind = event_head(payload)[1]
            if kind == TextKind.RESULT:
                event, place = payload, None
            elif kind == TextKind.CLEARED:
                event, place = None, None
        elif payload[:1] == NOTE and note_kind(payload) == "result":
            body = decode_note(payload)
            place = int(body.get("offset", 0)), int(body.get("sizeBytes", 0))
    return event, place


def _result_page(reader: RecordReader, layout: Layout, uid: str, offset: int, limit: int) -> TextPage:
    payload, place = result_place(reader)
    path = layout.text(uid, "result")
    if place is not None and spill_size(path) >= sum(place):
        begin, total = place
        return page_of(
            lambda at, size: read_spill(path, begin + at, min(size, total - at)), offset, limit, total
        )
    event = decode_event(payload) if payload is not None else None
    return _page_of_text(event.text if isinstance(event, ResultEvent) else "", offset, limit)


def _traceback(reader: RecordReader, facts: LogFacts) -> str:
    if facts.finished_seq:
        error = read_finished(reader, facts).result.execution_error
        if error is not None and error.traceback:
            return "\n".join(error.traceback)
    for _, payload in reader.records():
        if is_event(payload) and event_head(payload)[1] == TextKind.ERROR:
            event = decode_event(payload)
            if isinstance(event, ErrorEvent):
                return "\n".join(event.traceback)
    return ""


def late_of(reader: RecordReader, facts: LogFacts) -> Late | None:
    """How much late output is on record; None where there is none."""
    stdout = stderr = displays = 0
    for event in _late_events(reader, facts):
        if event.name == "stdout":
            stdout += len((event.text or "").encode())
        elif event.name == "stderr":
            stderr += len((event.text or "").encode())
        else:
            displays += 1
    if not (stdout or stderr or displays):
        return None
    return Late(stdout_bytes=stdout, stderr_bytes=stderr, displays=displays)


def _late_events(reader: RecordReader, facts: LogFacts) -> Iterator[LateEvent]:
    if not facts.finished_at or facts.last_seq == facts.finished_seq:
        # Nothing late can be on record while the end still stands in the reserve.
        return
    for _, payload in reader.records(facts.finished_at):
        if is_event(payload) and event_head(payload)[1] == TextKind.LATE:
            event = decode_event(payload)
            if isinstance(event, LateEvent):
                yield event
