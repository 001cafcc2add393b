"""Jupyter messages as frames: signing, checking, reading with limits (Jupyter messaging 5.4, the wire protocol)."""

import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from cellhouse.messages import BadJson, Message, parse_object
from cellhouse.messages.message import Channel

DELIMITER = b"<IDS|MSG>"
PROTOCOL_VERSION = "5.4"
MAX_HEADER_BYTES = 65_536
MAX_METADATA_BYTES = 4 << 20
MAX_NAME_CHARS = 256
_BLOCK_BYTES = 64  # of SHA-256
_SMALL_BYTES = 4_096
_SURROGATE = re.compile("[\ud800-\udfff]")


class BadMessage(Exception):
    """A message that can't be taken: wrong signature, broken frames, no usable header."""


class Wire:
    """Makes and reads the messages of one kernel. `key` is the connection file's HMAC-SHA256 key."""

    __slots__ = ("_inner", "_outer", "_parent", "_parent_id", "key", "session")

    def __init__(self, key: bytes, session: str) -> None:
        self.key, self.session = key, session
        # RFC 2104, with what depends on the key alone done once.
        block = (key if len(key) <= _BLOCK_BYTES else hashlib.sha256(key).digest()).ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))
        # The parent that came last: all messages of an execution have the same.
        self._parent: bytes | memoryview = b"{}"
        self._parent_id = ""

    def pack(
        self,
        msg_type: str,
        content: Mapping[str, Any],
        *,
        msg_id: str,
        parent: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[bytes]:
        """The frames of one request, from the delimiter on."""
        header = {
            "msg_id": msg_id,
            "msg_type": msg_type,
            "username": "cellhouse",
            "session": self.session,
            "date": datetime.now(UTC).isoformat(),
            "version": PROTOCOL_VERSION,
        }
        parts = [_dump(header), _dump(parent or {}), _dump(metadata or {}), _dump(content)]
        return [DELIMITER, self._sign(parts), *parts]

    def unpack(self, channel: Channel, frames: Sequence[bytes | memoryview], size: int) -> Message:
        """The message in `frames`. Raises BadMessage; unreadable content becomes `defect` instead."""
        at = _delimiter(frames)
        if at < 0 or len(frames) < at + 6:
            raise BadMessage("frames of no Jupyter message")
        signature, header_raw, parent_raw, metadata_raw, content_raw = frames[at + 1 : at + 6]
        expected = self._sign([header_raw, parent_raw, metadata_raw, content_raw])
        if not hmac.compare_digest(expected, bytes(signature[:128])):
            raise BadMessage("wrong signature")
        header = _small_object("header", header_raw, MAX_HEADER_BYTES)
        if parent_raw != self._parent:
            parent = _small_object("parent header", parent_raw, MAX_HEADER_BYTES)
            self._parent_id = _name("parent msg_id", parent.get("msg_id", ""))
            self._parent = parent_raw
        metadata = (
            {} if metadata_raw == b"{}" else _small_object("metadata", metadata_raw, MAX_METADATA_BYTES)
        )
        defect, content = "", {}
        try:
            content = parse_object(content_raw)
        except BadJson as error:
            defect = str(error)
        return Message(
            channel=channel,
            msg_type=_name("msg_type", header.get("msg_type")),
            msg_id=_name("msg_id", header.get("msg_id")),
            parent_id=self._parent_id,
            content=content,
            metadata=metadata,
            buffers=[memoryview(frame) for frame in frames[at + 6 :]],
            size=size,
            defect=defect,
        )

    def _sign(self, parts: Sequence[bytes | memoryview]) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        if sum(map(len, parts)) < _SMALL_BYTES:
            inner.update(b"".join(parts))
        else:
            for part in parts:
                inner.update(part)
        outer.update(inner.digest())
        return outer.hexdigest().encode()


def _delimiter(frames: Sequence[bytes | memoryview]) -> int:
    for at, frame in enumerate(frames[:8]):
        if frame == DELIMITER:
            return at
    return -1


def _dump(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()


def _small_object(what: str, raw: bytes | memoryview, limit: int) -> dict[str, Any]:
    if len(raw) > limit:
        raise BadMessage(f"a {what} of {len(raw)} bytes, limit {limit}")
    try:
        return parse_object(raw)
    except BadJson as error:
        raise BadMessage(f"a {what} that is {error}") from None


def _name(what: str, value: object) -> str:
    if (
        not isinstance(value, str)
        or len(value) > MAX_NAME_CHARS
        or (not value.isascii() and _SURROGATE.search(value))
    ):
        raise BadMessage(f"a {what} that is no string of at most {MAX_NAME_CHARS} characters")
    return value
