"""Frames between a service and a keeper: a length, a kind, the number of a call, and a body.

    length (4 bytes, big-endian: of what follows) · kind (1) · call (4) · body

Bodies are JSON, but for DATA of an upload, which is bytes as they are. A call is numbered by who makes it; number 0 is the
connection's own. `docs/keepers.md` has the whole protocol.
"""

import json
import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, Final

import pydantic_core

PROTOCOL: Final = 1
"""Spoken by this version; `OLDEST` is the oldest that it can still speak."""
OLDEST: Final = 1

FRAME_BYTES: Final = 64 << 20
"""The longest frame that is read. Code of 4 MiB fits, escapes and all, and so does every result."""

_HEAD: Final = struct.Struct("!IBI")
_REST: Final = _HEAD.size - 4


class Kind(IntEnum):
    """What a frame is. From the caller: CALL, CANCEL. From who answers: RESULT or ERROR, once; behind a RESULT that was asked
    to have one, LATER, once."""

    HELLO = 1
    CALL = 2
    RESULT = 3
    ERROR = 4
    DATA = 5
    END = 6
    CREDIT = 7
    CANCEL = 8
    LATER = 9


class ProtocolError(Exception):
    """The other side says what nobody of this protocol says."""


def encode(kind: Kind, call: int, body: bytes = b"") -> bytes:
    """One frame. ProtocolError where it would be longer than anybody reads."""
    if len(body) + _REST > FRAME_BYTES:
        raise ProtocolError(f"a frame of {len(body)} bytes; at most {FRAME_BYTES} are read")
    return _HEAD.pack(len(body) + _REST, kind, call) + body


def encode_json(document: Any) -> bytes:
    """The JSON of a document, also where its text holds what no UTF-8 can."""
    try:
        return pydantic_core.to_json(document)
    except (ValueError, pydantic_core.PydanticSerializationError):
        return json.dumps(document, separators=(",", ":")).encode("ascii")


def decode_json(body: bytes) -> Any:
    """ProtocolError where it is none."""
    try:
        return pydantic_core.from_json(body, allow_inf_nan=False)
    except ValueError:
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"a body that is no JSON: {error}") from None


class Frames:
    """Puts frames together from the pieces that a socket gives. Holds one unfinished frame at most."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Kind, int, bytes]]:
        """The frames that are whole by now. ProtocolError for one that is none."""
        held = self._held
        held += data
        at = 0
        try:
            while len(held) - at >= _HEAD.size:
                length, kind, call = _HEAD.unpack_from(held, at)
                if not _REST <= length <= FRAME_BYTES:
                    raise ProtocolError(f"a frame of {length} bytes; it has {_REST} to {FRAME_BYTES}")
                end = at + 4 + length
                if len(held) < end:
                    break
                try:
                    known = Kind(kind)
                except ValueError:
                    raise ProtocolError(f"a frame of the unknown kind {kind}") from None
                body = bytes(memoryview(held)[at + _HEAD.size : end])
                at = end
                yield known, call, body
        finally:
            del held[:at]
