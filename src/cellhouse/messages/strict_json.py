"""Hostile JSON into a Python mapping: bounded in depth, in memory and in time."""

import json
import re
import secrets
from typing import Any

from cellhouse.messages.long_text import CHUNK_BYTES, LongText

MAX_DEPTH = 200
SMALL_BYTES = 1 << 20
"""Up to here a document is parsed at once; above it, long strings stay where they are."""
MAX_OTHER_BYTES = 32 << 20
"""What may remain of a document once its long strings are set aside (each byte costs many as an object)."""
MAX_VALUES = 2_000_000

_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


class BadJson(ValueError):
    """The bytes are no JSON object within the limits; the message says why."""


def parse_object(raw: memoryview | bytes) -> dict[str, Any]:
    """The JSON object in `raw`. Strings longer than 64 KiB in a document above 1 MiB become `LongText`.

    NaN and Infinity are let through as floats: whoever writes JSON refuses them at their place.
    """
    view = memoryview(raw)
    long: list[LongText] = []
    mark = ""
    if len(view) > SMALL_BYTES:
        mark = secrets.token_hex(8)
        view = _set_long_strings_aside(view, mark, long)
    try:
        value = json.loads(str(view, "utf-8"))
    except RecursionError:
        raise BadJson(f"deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise BadJson(f"not JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise BadJson("not a JSON object")
    if _may_be_deep(view):
        _check_depth(value)
    if long:
        _put_back(value, mark, long)
    return value


def _set_long_strings_aside(view: memoryview, mark: str, long: list[LongText]) -> memoryview:
    pieces: list[memoryview | bytes] = []
    start = other = 0
    for match in _TOKEN.finditer(view):
        if match.end() - match.start() - 2 <= CHUNK_BYTES:
            continue
        try:
            long.append(LongText(view[match.start() + 1 : match.end() - 1]))
        except ValueError as error:
            raise BadJson(f"not JSON: {str(error)[:200]}") from None
        pieces += [view[start : match.start()], b'"%s:%d"' % (mark.encode(), len(long) - 1)]
        other += match.start() - start
        start = match.end()
        if other > MAX_OTHER_BYTES:
            break
    other += len(view) - start
    if other > MAX_OTHER_BYTES:
        raise BadJson(f"more than {MAX_OTHER_BYTES} bytes of JSON besides long strings")
    pieces.append(view[start:])
    reduced = b"".join(pieces)
    if sum(reduced.count(mark_byte) for mark_byte in (b",", b"[", b"{")) > MAX_VALUES:
        raise BadJson(f"more than {MAX_VALUES} values")
    return memoryview(reduced)


def _may_be_deep(view: memoryview) -> bool:
    raw = view.obj if isinstance(view.obj, bytes | bytearray) and len(view.obj) == len(view) else bytes(view)
    return raw.count(b"[") + raw.count(b"{") > MAX_DEPTH


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
