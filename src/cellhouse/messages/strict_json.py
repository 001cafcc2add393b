"""Hostile JSON into a Python mapping: bounded in depth, in memory and in time."""

import json
import mmap
import re
import secrets
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import from_json

from cellhouse.messages.long_text import CHUNK_BYTES, LongText

MAX_DEPTH = 200
SMALL_BYTES = 1 << 20
"""Up to here a document is parsed at once; above it, long strings stay where they are."""


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """How much one document may hold. Strings longer than 64 KiB are not counted: they stay where they are."""

    other_bytes: int = 32 << 20
    """What may remain of a document once its long strings are set aside (each byte costs many as an object)."""
    values: int = 300_000
    containers: int = 100_000
    """Objects and arrays; each costs many times what a number does."""

    @property
    def strings(self) -> int:
        """Of a document above 1 MiB; a string is a value or the key of one."""
        return 2 * self.values


MESSAGE: Final = JsonLimits()
"""Of one message of a kernel."""

_FEW = 64
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


class BadJson(ValueError):
    """The bytes are no JSON object within the limits; the message says why."""


def parse_object(raw: memoryview | bytes, limits: JsonLimits = MESSAGE) -> dict[str, Any]:
    """The JSON object in `raw`. Strings longer than 64 KiB in a document above 1 MiB become `LongText`.

    NaN and Infinity are let through as floats: whoever writes JSON refuses them at their place.
    """
    if len(raw) <= 2 * MAX_DEPTH and isinstance(raw, bytes):
        return _parse_tiny(raw)
    long: list[LongText] = []
    mark = ""
    document: bytes | bytearray
    if len(raw) > SMALL_BYTES:
        mark = secrets.token_hex(8)
        document = _set_long_strings_aside(memoryview(raw), mark, long, limits)
    else:
        owner = raw if isinstance(raw, bytes) else _owner(raw)
        document = owner if isinstance(owner, bytes | bytearray) else bytes(raw)
    _check_number(document, limits)
    try:
        value = _parse(document)
    except RecursionError:
        raise BadJson(f"deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise BadJson(f"not JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise BadJson("not a JSON object")
    if _may_be_deep(value, document):
        _check_depth(value)
    if long:
        _put_back(value, mark, long)
    return value


def _parse_tiny(document: bytes) -> dict[str, Any]:
    """Most documents: too short to be deep, or many values."""
    try:
        value = _parse(document)
    except ValueError as error:
        raise BadJson(f"not JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise BadJson("not a JSON object")
    return value


def _owner(view: memoryview) -> bytes | bytearray | mmap.mmap | None:
    """What the view shows whole; it has methods that a view lacks."""
    owner = view.obj
    if isinstance(owner, bytes | bytearray | mmap.mmap) and len(owner) == view.nbytes:
        return owner
    return None


def _parse(document: bytes | bytearray) -> Any:
    try:
        return from_json(document, cache_strings="keys")
    except ValueError:
        # Python's own parser is slower, lets lone surrogates through, and says best what is wrong.
        return json.loads(str(document, "utf-8"))


def _set_long_strings_aside(view: memoryview, mark: str, long: list[LongText], limits: JsonLimits) -> bytes:
    whole = _owner(view)
    if whole is None:
        whole = bytes(view)
    pieces: list[memoryview | bytes] = []
    start = at = other = tokens = 0
    while (quote := whole.find(b'"', at)) >= 0:
        tokens += 1
        if tokens > limits.strings:
            raise BadJson(f"more than {limits.strings} strings")
        if token := _TOKEN.match(view, quote, quote + CHUNK_BYTES + 2):
            at = token.end()
            continue
        if other + quote - start > limits.other_bytes:
            break
        try:
            text, end = LongText.starting(view, quote + 1)
        except ValueError as error:
            raise BadJson(f"not JSON: {str(error)[:200]}") from None
        long.append(text)
        pieces += [view[start:quote], b'"%s:%d"' % (mark.encode(), len(long) - 1)]
        other += quote - start
        start = at = end + 1
    other += len(view) - start
    if other > limits.other_bytes:
        raise BadJson(f"more than {limits.other_bytes} bytes of JSON besides long strings")
    pieces.append(view[start:])
    return b"".join(pieces)


def _check_number(document: bytes | bytearray, limits: JsonLimits) -> None:
    """Objects take much more memory and time than the bytes they are made of."""
    if len(document) <= 2 * limits.containers or _numbers_hold(document, limits):
        return
    # Text has commas and brackets too: only those outside strings count.
    if not _numbers_hold(_TOKEN.sub(b'""', document), limits):
        raise BadJson(f"more than {limits.values} values, or {limits.containers} of them objects and arrays")


def _numbers_hold(document: bytes | bytearray, limits: JsonLimits) -> bool:
    containers = _count(document, b"[") + _count(document, b"{")
    if containers > limits.containers:
        return False
    return len(document) <= limits.values or containers + _count(document, b",") <= limits.values


def _count(document: bytes | bytearray, mark: bytes) -> int:
    """How often the mark is there. A search for the next is many times quicker than a count, where there are few."""
    at = -1
    for number in range(_FEW):
        at = document.find(mark, at + 1)
        if at < 0:
            return number
    return _FEW + document.count(mark, at + 1)


def _may_be_deep(value: dict[str, Any], document: bytes | bytearray) -> bool:
    """Each level takes a bracket at least, in the document and for the count of them."""
    if len(document) <= 2 * MAX_DEPTH or not any(isinstance(child, dict | list) for child in value.values()):
        return False
    return _count(document, b"[") + _count(document, b"{") > MAX_DEPTH


def _check_depth(value: object) -> None:
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)  # type: ignore[attr-defined]
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise BadJson(f"deeper than {MAX_DEPTH} levels")


def _put_back(value: object, mark: str, long: list[LongText]) -> None:
    stack: list[object] = [value]
    while stack:
        parent = stack.pop()
        items = parent.items() if isinstance(parent, dict) else enumerate(parent)  # type: ignore[arg-type]
        for key, child in list(items):
            if isinstance(child, dict | list):
                stack.append(child)
            elif isinstance(child, str) and child.startswith(mark):
                parent[key] = long[int(child[len(mark) + 1 :])]  # type: ignore[index]
        if isinstance(parent, dict) and any(isinstance(k, str) and k.startswith(mark) for k in parent):
            raise BadJson(f"an object key longer than {CHUNK_BYTES} bytes")
