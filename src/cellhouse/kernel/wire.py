"""Jupyter messages as frames: signing, checking, reading with limits (Jupyter messaging 5.4, the wire protocol)."""

import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cellhouse.messages import BadJson, Message, parse_object
from cellhouse.messages.message import Channel

DELIMITER = b"<IDS|MSG>"
PROTOCOL_VERSION = "5.4"
MAX_HEADER_BYTES = 65_536
MAX_METADATA_BYTES = 4 << 20
MAX_NAME_CHARS = 256
_SURROGATE = re.compile("[\ud800-\udfff]")


class BadMessage(Exception):
    """A message that can't be taken: wrong signature, broken frames, no usable header."""


@dataclass(frozen=True, slots=True)
class Wire:
    """Makes and reads the messages of one kernel. `key` is the connection file's HMAC-SHA256 key."""

    key: bytes
    session: str

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

    def unpack(self, channel: Channel, frames: Sequence[memoryview], size: int) -> Message:
        """The message in `frames`. Raises BadMessage; unreadable content becomes `defect` instead."""
        at = next((i for i, frame in enumerate(frames[:8]) if frame == DELIMITER), -1)
        if at < 0 or len(frames) < at + 6:
            raise BadMessage("frames of no Jupyter message")
        signature, header_raw, parent_raw, metadata_raw, content_raw = frames[at + 1 : at + 6]
        expected = self._sign([header_raw, parent_raw, metadata_raw, content_raw])
        if not hmac.compare_digest(expected, bytes(signature[:128])):
            raise BadMessage("wrong signature")
        header = _small_object("header", header_raw, MAX_HEADER_BYTES)
        parent = _small_object("parent header", parent_raw, MAX_HEADER_BYTES)
        metadata = _small_object("metadata", metadata_raw, MAX_METADATA_BYTES)
        defect, content = "", {}
        try:
            content = parse_object(content_raw)
        except BadJson as error:
            defect = str(error)
        return Message(
            channel=channel,
            msg_type=_name("msg_type", header.get("msg_type")),
            msg_id=_name("msg_id", header.get("msg_id")),
            parent_id=_name("parent msg_id", parent.get("msg_id", "")),
            content=content,
            metadata=metadata,
            buffers=frames[at + 6 :],
            size=size,
            defect=defect,
        )

    def _sign(self, parts: Sequence[bytes | memoryview]) -> bytes:
        digest = hmac.new(self.key, digestmod=hashlib.sha256)
        for part in parts:
            digest.update(part)
        return digest.hexdigest().encode()


def _dump(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()


def _small_object(what: str, raw: memoryview, limit: int) -> dict[str, Any]:
    if len(raw) > limit:
        raise BadMessage(f"a {what} of {len(raw)} bytes, limit {limit}")
    try:
        return parse_object(raw)
    except BadJson as error:
        raise BadMessage(f"a {what} that is {error}") from None


def _name(what: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_NAME_CHARS or _SURROGATE.search(value):
        raise BadMessage(f"a {what} that is no string of at most {MAX_NAME_CHARS} characters")
    return value
