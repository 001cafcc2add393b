"""One display as an nbformat output: its representations checked, its JSON in pieces, long strings copied nowhere."""

import json
import secrets
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, Literal

from cellhouse.capture.decode import clean
from cellhouse.capture.mime import PLAIN, InvalidValue, Kind, checked_text, is_mime_type, kind_of
from cellhouse.messages import LongText, text_chunks
from cellhouse.model import CaptureLimits

INLINE_CHARS: Final = 65_536
"""A longer string is encoded piece by piece, each time it is read."""
FAULTS: Final = 8
CAUSE_CHARS: Final = 200
"""Faults of one bundle that are told, and characters of them all."""

_STRICT: Final[dict[str, Any]] = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
_encode: Final = json.JSONEncoder(**_STRICT).encode

OutputType = Literal["display_data", "execute_result"]


class _LongString:
    """A long string that is encoded only while it is read."""

    __slots__ = ("size", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.size = sum(len(chunk) for chunk in self.chunks())

    def chunks(self) -> Iterator[bytes]:
        yield b'"'
        for part in text_chunks(self.text):
            yield _encode(part)[1:-1].encode()
        yield b'"'


_Part = bytes | memoryview | _LongString


class Bundle:
    """What a display message shows. `mime_types` are the rich ones that hold, or, where none does, all that it named."""

    __slots__ = ("_parts", "dropped_above", "faults", "mime_types", "plain", "size", "valid")

    def __init__(self, content: Mapping[str, Any], output_type: OutputType, limits: CaptureLimits) -> None:
        """Reads the content of display_data, update_display_data or execute_result. Garbage becomes faults."""
        self.faults: list[str] = []
        self.dropped_above = 0  # bytes that its kernel lets through, where that dropped it
        self.plain: str | LongText | None = None
        data = content.get("data")
        named: list[str] = []
        held: dict[str, list[_Part]] = {}
        if not isinstance(data, Mapping):
            self._fault("data is no object")
            data = {}
        if len(data) > limits.mime_types:
            self._fault(f"{len(data)} MIME types, which is more than {limits.mime_types}")
        for name, value in islice(data.items(), limits.mime_types):
            if name != PLAIN:
                named.append(shown_name(name, limits.mime_type_chars))
            try:
                if not is_mime_type(name, limits.mime_type_chars):
                    raise InvalidValue("not a MIME type")
                parts = _encoded(name, value)
            except InvalidValue as error:
                self._fault(f"{shown_name(name, 64)}: {error}")
                continue
            held[name] = parts
            if name == PLAIN:
                self.plain = single(value)
        rich = tuple(name for name in held if name != PLAIN)
        too_many = len(data) > limits.mime_types
        self.valid = bool(rich) and not too_many
        self.mime_types = rich if self.valid else tuple(named)
        self._parts = self._document(content, output_type, held) if self.valid else []
        self.size = sum(part.size if isinstance(part, _LongString) else len(part) for part in self._parts)

    @property
    def rich(self) -> bool:
        """Whether it has, or was meant to have, anything besides plain text."""
        return bool(self.mime_types)

    @property
    def cause(self) -> str:
        """The faults in one line."""
        return "; ".join(self.faults)[:CAUSE_CHARS]

    def _fault(self, text: str) -> None:
        if len(self.faults) < FAULTS:
            self.faults.append(text)

    def _document(
        self, content: Mapping[str, Any], output_type: OutputType, held: dict[str, list[_Part]]
    ) -> list[_Part]:
        """An output as nbformat 4 has it."""
        parts: list[_Part] = [f'{{"output_type":"{output_type}",'.encode()]
        if output_type == "execute_result":
            count = content.get("execution_count")
            known = type(count) is int and abs(count) < 2**31
            parts.append(f'"execution_count":{count if known else "null"},'.encode())
        parts.append(b'"data":{')
        for number, (name, value) in enumerate(held.items()):
            parts.append(("," if number else "").encode() + _encode(name).encode() + b":")
            parts += value
        parts.append(b'},"metadata":')
        parts += self._metadata(content.get("metadata"))
        parts.append(b"}\n")
        return _merged(parts)

    def _metadata(self, metadata: Any) -> list[_Part]:
        if metadata is None:
            return [b"{}"]
        try:
            if isinstance(metadata, Mapping):
                return _json(metadata)
            self._fault("metadata is no object")
        except InvalidValue as error:
            self._fault(f"metadata: {error}")
        return [b"{}"]

    def chunks(self) -> Iterator[bytes | memoryview]:
        """The file, in pieces; may be read more than once."""
        for part in self._parts:
            if isinstance(part, _LongString):
                yield from part.chunks()
            else:
                yield part

    def detach(self) -> None:
        """Copies it whole, so that it holds on to no message. For a small one that waits."""
        self._parts = [b"".join(self.chunks())]
        if isinstance(self.plain, LongText):
            self.plain = None


def shown_name(name: Any, most: int) -> str:
    return (clean(name)[:most] if isinstance(name, str) else f"<{type(name).__name__}>") or "<empty>"


def single(value: Any) -> str | LongText | None:
    if isinstance(value, list):
        return "".join(chunk for line in value for chunk in text_chunks(line))
    return value if isinstance(value, str | LongText) else None


def _encoded(name: str, value: Any) -> list[_Part]:
    if kind_of(name) is Kind.JSON:
        return _json(value)
    text = checked_text(name, value)
    return _json(text) if isinstance(text, list) else _string(text)


def _string(value: str | LongText) -> list[_Part]:
    if isinstance(value, LongText):
        return [b'"', value.raw, b'"']
    text = clean(value)
    if len(text) > INLINE_CHARS:
        return [_LongString(text)]
    return [_encode(text).encode()]


def _json(value: Any) -> list[_Part]:
    """A value as strict JSON."""
    if isinstance(value, str | LongText):
        return _string(value)
    try:
        return [_utf8(_encode(value))]
    except TypeError:
        return _json_with_long_text(value)
    except (ValueError, RecursionError):
        raise InvalidValue("not strict JSON") from None


def _json_with_long_text(value: Any) -> list[_Part]:
    """Long text in it is put in where a mark that nobody can guess stands for it."""
    long: list[LongText] = []
    mark = secrets.token_hex(16)

    def stand_in(found: Any) -> str:
        if not isinstance(found, LongText):
            raise TypeError(f"{type(found).__name__} is not JSON")
        long.append(found)
        return f"{mark}{len(long) - 1}"

    try:
        encoded = _utf8(json.JSONEncoder(**_STRICT, default=stand_in).encode(value))
    except (TypeError, ValueError, RecursionError):
        raise InvalidValue("not strict JSON") from None
    first, *others = encoded.split(b'"' + mark.encode())
    parts: list[_Part] = [first]
    for piece in others:
        index, _, rest = piece.partition(b'"')
        parts += [b'"', long[int(index)].raw, b'"', rest]
    return parts


def _utf8(document: str) -> bytes:
    try:
        return document.encode()
    except UnicodeEncodeError:
        return clean(document, backslash="\\\\").encode()


def _merged(parts: list[_Part]) -> list[_Part]:
    """Fewer, larger pieces: each is one write."""
    merged: list[_Part] = []
    small: list[bytes] = []
    for part in parts:
        if isinstance(part, bytes):
            small.append(part)
        else:
            merged += [b"".join(small), part]
            small.clear()
    return [*merged, b"".join(small)]
