"""A JSON string too long to copy: a view of its escaped bytes, decoded piece by piece."""

import json
from collections.abc import Iterator

from pydantic_core import from_json

CHUNK_BYTES = 65_536
_BACKSLASH = b"\\"
_RUN_BYTES = 64


class LongText:
    """The escaped bytes between the quotes of a JSON string.

    Checked when it is made: a valid JSON string, valid UTF-8, no lone surrogate. So the raw bytes may
    be copied into another JSON document as they are. Raises ValueError where that does not hold.
    """

    __slots__ = ("raw",)

    def __init__(self, raw: memoryview) -> None:
        end, lone_surrogate = _read(raw, 0)
        if end < len(raw):
            raise ValueError("not the inside of a JSON string")
        self.raw = memoryview(_without_lone_surrogates(raw)) if lone_surrogate else raw

    @classmethod
    def starting(cls, view: memoryview, start: int) -> tuple["LongText", int]:
        """The string whose inside begins at `start` of a longer document, and where its closing quote stands."""
        end, lone_surrogate = _read(view, start)
        if end == len(view):
            raise ValueError("a string without an end")
        text = cls.__new__(cls)
        raw = view[start:end]
        text.raw = memoryview(_without_lone_surrogates(raw)) if lone_surrogate else raw
        return text, end

    def __len__(self) -> int:
        return len(self.raw)

    def chunks(self) -> Iterator[str]:
        """The decoded text, in pieces of at most `CHUNK_BYTES` raw bytes, never cut inside a character."""
        raw, start, end = self.raw, 0, len(self.raw)
        while start < end:
            stop = _safe_cut(raw, start, min(start + CHUNK_BYTES, end))
            yield str(from_json(b'"%b"' % bytes(raw[start:stop]), cache_strings="none"))
            start = stop


def text_chunks(value: str | LongText) -> Iterator[str]:
    """The text of a content value in bounded pieces, whichever form it has."""
    if isinstance(value, LongText):
        yield from value.chunks()
        return
    for start in range(0, len(value), CHUNK_BYTES):
        yield value[start : start + CHUNK_BYTES]


def _read(raw: memoryview, start: int) -> tuple[int, bool]:
    """Where the string ends whose inside begins at `start` (its closing quote, or the end of `raw`), and whether
    it holds a lone surrogate. Raises ValueError for what is no JSON string or no UTF-8."""
    lone_surrogate = False
    while start < len(raw):
        stop = _safe_cut(raw, start, min(start + CHUNK_BYTES, len(raw)))
        piece = bytes(raw[start:stop])
        if not _holds(piece):
            quote = _closing_quote(piece)
            inside = piece if quote < 0 else piece[:quote]
            if not _holds(inside):
                # Python's parser takes everything that the quick one takes, and lone surrogates.
                json.loads(f'"{str(inside, "utf-8")}"')
                lone_surrogate = True
            if quote >= 0:
                return start + quote, lone_surrogate
        start = stop
    return start, lone_surrogate


def _holds(piece: bytes) -> bool:
    """Whether it is the inside of a JSON string, without a quote and without a lone surrogate."""
    try:
        from_json(b'"%b"' % piece, cache_strings="none")
    except ValueError:
        return False
    return True


def _closing_quote(piece: bytes) -> int:
    """The first quote that no backslash escapes; -1: there is none. The piece begins inside no escape."""
    return piece.replace(b"\\\\", b"__").replace(b'\\"', b"__").find(b'"')


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
    before = bytes(raw[max(start, at - _RUN_BYTES) : at])
    count = len(before) - len(before.rstrip(_BACKSLASH))
    if count == _RUN_BYTES:  # more of them than anyone needs
        before = bytes(raw[start:at])
        count = len(before) - len(before.rstrip(_BACKSLASH))
    return count
