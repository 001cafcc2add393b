"""A frame: what goes over the socket, both ways. The service's half of this is kernel/frames.py."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .own import base64, datetime, json, math, numbers

HEAD = struct.Struct(">IIQ")
"""Bytes of the header, of the content, and of all buffers together; these follow in this order."""
MARK = struct.Struct(">QQ")
MARK_START = b"\x00\x01"
NONCE_BYTES = 16
MAX_DEPTH = 500  # of what has to be cleaned before it is JSON


def encode(value: Any) -> bytes:
    """Any value as JSON, as the reference implementation would write it; what has no form there as its text."""
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:  # a lone surrogate: escaped it is JSON
        return _encode_escaped(value).encode()
    except ValueError:  # NaN or an infinity, or a circle
        return _encode_escaped(_finite(value, 0)).encode()


def frame(header: Mapping[str, Any], content: bytes, buffers: Sequence[memoryview] = ()) -> list[memoryview]:
    """The pieces of one frame, small ones put together."""
    head = _encode_escaped(header).encode()
    start = HEAD.pack(len(head), len(content), sum(buffer.nbytes for buffer in buffers)) + head
    if len(content) < 65_536:
        return [memoryview(start + content), *buffers]
    return [memoryview(start), memoryview(content), *buffers]


def split(data: bytearray) -> tuple[dict[str, Any], dict[str, Any], list[bytes]] | None:
    """Take the first frame out of `data`; None where it is not all there."""
    if len(data) < HEAD.size:
        return None
    head, content, rest = HEAD.unpack_from(data)
    if len(data) < HEAD.size + head + content + rest:
        return None
    at = HEAD.size
    header = json.loads(bytes(data[at : at + head]))
    at += head
    body = json.loads(bytes(data[at : at + content])) if content else {}
    at += content
    buffers = []
    for size in header.get("buffers", ()):
        buffers.append(bytes(data[at : at + size]))
        at += size
    del data[: HEAD.size + head + content + rest]
    return header, body, buffers


def _default(value: Any) -> Any:
    """What jupyter_client.jsonutil makes of values that JSON does not know."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, (datetime.date, datetime.time)):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        return number if math.isfinite(number) else repr(number)
    if isinstance(value, Iterable):
        return list(value)
    return str(value)  # nothing that is shown fails for want of a better form


def _finite(value: Any, depth: int) -> Any:
    """JSON has no NaN and no infinities: they become their names."""
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply for JSON")
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(float(value))
    if isinstance(value, Mapping):
        return {key: _finite(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item, depth + 1) for item in value]
    return value


# One encoder for all: making one takes as long as its work on something small.
_encode = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), default=_default, allow_nan=False
).encode
_encode_escaped = json.JSONEncoder(separators=(",", ":"), default=_default, allow_nan=False).encode
