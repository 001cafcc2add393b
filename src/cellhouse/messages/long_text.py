"""A JSON string too long to copy: a view of its escaped bytes, decoded piece by piece."""

import codecs
import json
import re
from collections.abc import Iterator

CHUNK_BYTES = 65_536

_STRING = re.compile(rb'[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+', re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_ANY_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_BACKSLASH = 0x5C


class LongText:
    """The escaped bytes between the quotes of a JSON string.

    Checked when it is made: a valid JSON string, valid UTF-8, no lone surrogate. So the raw bytes may
    be copied into another JSON document as they are. Raises ValueError where that does not hold.
    """

    __slots__ = ("raw",)

    def __init__(self, raw: memoryview) -> None:
        if _STRING.fullmatch(raw) is None:
            raise ValueError("not the inside of a JSON string")
        _check_utf8(raw)
        if _ANY_SURROGATE.search(raw) and _has_lone_surrogate(raw):
            raw = memoryview(_without_lone_surrogates(raw))
        self.raw = raw

    def __len__(self) -> int:
        return len(self.raw)

    def chunks(self) -> Iterator[str]:
        """The decoded text, in pieces of at most `CHUNK_BYTES` raw bytes, never cut inside a character."""
        raw, start, end = self.raw, 0, len(self.raw)
        while start < end:
            stop = _safe_cut(raw, start, min(start + CHUNK_BYTES, end))
            yield str(json.loads(b'"' + bytes(raw[start:stop]) + b'"'))
            start = stop


def text_chunks(value: str | LongText) -> Iterator[str]:
    """The text of a content value in bounded pieces, whichever form it has."""
    if isinstance(value, LongText):
        yield from value.chunks()
        return
    for start in range(0, len(value), CHUNK_BYTES):
        yield value[start : start + CHUNK_BYTES]


def _check_utf8(raw: memoryview) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(raw), CHUNK_BYTES):
        decoder.decode(raw[start : start + CHUNK_BYTES])
    decoder.decode(b"", final=True)


def _has_lone_surrogate(raw: memoryview) -> bool:
    high_end = -1  # where a high surrogate ended that still waits for its low half
    for match in _ESCAPE.finditer(raw):
        code = int(match[1], 16) if match[1] else 0
        if high_end >= 0 and not (match.start() == high_end and 0xDC00 <= code <= 0xDFFF):
            return True
        if high_end < 0 and 0xDC00 <= code <= 0xDFFF:
            return True
        high_end = match.end() if 0xD800 <= code <= 0xDBFF else -1
    return high_end >= 0


def _without_lone_surrogates(raw: memoryview) -> bytes:
    """Lone surrogates become their own escape as visible text (`\\udXXX`); rare, so a copy is fine."""
    text = str(json.loads(b'"' + bytes(raw) + b'"'))
    clean = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return json.dumps(clean, ensure_ascii=False).encode("utf-8")[1:-1]


def _safe_cut(raw: memoryview, start: int, stop: int) -> int:
    """The last place at or before `stop` that is inside no escape, surrogate pair or UTF-8 character."""
    if stop == len(raw):
        return stop
    cut = stop
    if _backslashes_before(raw, start, cut) % 2:
        cut -= 1
    for back in range(1, 6):  # an unfinished \uXXXX: its `u` stands at most five bytes before the cut
        at = cut - back
        if at > start and raw[at] == 0x75 and _backslashes_before(raw, start, at) % 2:
            if back < 5:
                cut = at - 1
            break
    if cut - 6 >= start and _is_high_surrogate(raw, start, cut - 6):
        cut -= 6
    while cut > start and raw[cut] & 0xC0 == 0x80:
        cut -= 1
    return cut if cut > start else stop


def _is_high_surrogate(raw: memoryview, start: int, at: int) -> bool:
    escape = bytes(raw[at : at + 6]).lower()
    return (
        escape[:3] == b"\\ud" and escape[3:4] in b"89ab" and _backslashes_before(raw, start, at + 1) % 2 == 1
    )


def _backslashes_before(raw: memoryview, start: int, at: int) -> int:
    count = 0
    while at - count - 1 >= start and raw[at - count - 1] == _BACKSLASH:
        count += 1
    return count
