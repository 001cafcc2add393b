"""The payloads of a record file: a tag of one byte, for events a fixed head, then JSON.

`S` start · `X` sent (the at-most-once commit) · `E` event: number (u64), kind of text (u8), bytes of that text (u32), the
event · `N` note: its kind, a NUL, the payload. The head of an event lets a reader skip and count without parsing.
"""

import json
import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

import pydantic_core

from cellhouse.journal.entries import StartRecord
from cellhouse.model import (
    ClearedEvent,
    ErrorEvent,
    Event,
    FinishedEvent,
    LateEvent,
    ResultEvent,
    StreamEvent,
    parse_event,
)

VERSION = 1
START, SENT, EVENT, NOTE = b"S", b"X", b"E", b"N"
_HEAD = struct.Struct("<cQBI")
EVENT_HEAD_BYTES = _HEAD.size


class TextKind(IntEnum):
    """Which text an event adds to."""

    NONE = 0
    STDOUT = 1
    STDERR = 2
    RESULT = 3
    ERROR = 4
    FINISHED = 5
    LATE = 6
    CLEARED = 7


class UnreadableRecord(ValueError):
    """A record that is whole but not one of ours, or of a later version."""


def _dump(value: Any) -> bytes:
    try:
        return pydantic_core.to_json(value)
    except ValueError:
        # Code may hold lone surrogates; JSON carries them only as escapes.
        return json.dumps(value, separators=(",", ":")).encode()


def encode_start(start: StartRecord) -> bytes:
    return START + _dump(
        {
            "version": VERSION,
            "uid": start.uid,
            "name": start.name,
            "session": start.session,
            "runtime": start.runtime,
            "executionId": start.execution_id,
            "target": start.target,
            "created": start.created,
            "codeSha256": start.code_sha256,
            "options": dict(start.options),
            "code": start.code,
        }
    )


def decode_start(payload: bytes) -> StartRecord:
    """Raises UnreadableRecord where it is no start record, or a later version's."""
    try:
        body = json.loads(payload[1:]) if payload[:1] == START else None
        if not isinstance(body, dict):
            raise UnreadableRecord("the first record is no start record")
        if body["version"] != VERSION:
            raise UnreadableRecord(
                f"the record has version {body['version']}; this program reads version {VERSION}"
            )
        texts = {
            field: body[key]
            for field, key in (
                ("uid", "uid"),
                ("name", "name"),
                ("session", "session"),
                ("runtime", "runtime"),
                ("execution_id", "executionId"),
                ("target", "target"),
                ("created", "created"),
                ("code_sha256", "codeSha256"),
                ("code", "code"),
            )
        }
        if not all(isinstance(text, str) for text in texts.values()) or not isinstance(body["options"], dict):
            raise UnreadableRecord("a field of the start record is no text")
        return StartRecord(**texts, options=body["options"])
    except UnreadableRecord:
        raise
    except (KeyError, ValueError, RecursionError) as error:
        raise UnreadableRecord(f"the start record can't be read: {error}") from error


_Text = tuple[TextKind, str]
_TEXT_OF: dict[type, Callable[[Any], _Text]] = {
    StreamEvent: lambda event: (TextKind.STDOUT if event.name == "stdout" else TextKind.STDERR, event.text),
    ResultEvent: lambda event: (TextKind.RESULT, event.text),
    ErrorEvent: lambda event: (TextKind.ERROR, "\n".join(event.traceback)),
    FinishedEvent: lambda event: (TextKind.FINISHED, ""),
    LateEvent: lambda event: (TextKind.LATE, event.text or ""),
    ClearedEvent: lambda event: (TextKind.CLEARED, ""),
}


def _text_of(event: Event) -> _Text:
    found = _TEXT_OF.get(type(event))
    return (TextKind.NONE, "") if found is None else found(event)


def text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def encode_event(event: Event) -> bytes:
    kind, text = _text_of(event)
    # Straight to bytes: a model holds no NaN and no lone surrogate, and this is on the way of every event.
    return _HEAD.pack(EVENT, event.seq, kind, text_bytes(text)) + pydantic_core.to_json(event.to_wire())


def event_head(payload: bytes) -> tuple[int, int, int]:
    """(number, TextKind, bytes of text) of an event's payload."""
    _, seq, kind, size = _HEAD.unpack_from(payload)
    return seq, kind, size


def decode_event(payload: bytes) -> Event:
    """Raises ValueError where the JSON is no event that this program knows."""
    return parse_event(payload[_HEAD.size :])


def is_event(payload: bytes) -> bool:
    return payload[:1] == EVENT and len(payload) > _HEAD.size


def encode_note(kind: str, body: Mapping[str, Any]) -> bytes:
    return NOTE + kind.encode() + b"\0" + _dump(dict(body))


def note_kind(payload: bytes) -> str:
    return payload[1 : payload.index(b"\0")].decode()


def decode_note(payload: bytes) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(payload[payload.index(b"\0") + 1 :])
    return body
