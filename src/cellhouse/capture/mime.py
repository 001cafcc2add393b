"""MIME bundles as kernels send them: which types they name, and whether each value is what its type asks for."""

import binascii
import re
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from functools import lru_cache
from typing import Any, Final

from cellhouse.messages import LongText, text_chunks

PLAIN: Final = "text/plain"
SVG: Final = "image/svg+xml"
SVG_CHARS: Final = 64 * 1024 * 1024
"""Base64 of an SVG that is decoded; it has to be held whole for that."""

_NAME = re.compile(r"[!-.0-~]+/[!-~ ]+")  # printable ASCII, parameters allowed
_JSON = re.compile(r"application/(.*\+)?json\Z")
_BINARY_TREES: Final = ("image/", "audio/", "video/", "font/")
_BINARY: Final = frozenset(
    {
        "application/epub+zip",
        "application/gzip",
        "application/octet-stream",
        "application/ogg",
        "application/pdf",
        "application/vnd.apache.arrow.file",
        "application/vnd.apache.arrow.stream",
        "application/vnd.apache.parquet",
        "application/vnd.ms-excel",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "application/wasm",
        "application/zip",
        "model/gltf-binary",
    }
)
_WHITESPACE: Final = b" \t\r\n"
_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_SVG_BEGINNINGS: Final = ("<svg", "<?xml", "<!DOCTYPE", "<!--")

TextValue = str | LongText | list[str | LongText]
"""Text as nbformat has it: one string, or a list of them to be put together."""


class Kind(Enum):
    """What a value has to be."""

    TEXT = auto()
    BINARY = auto()  # base64
    JSON = auto()


class InvalidValue(ValueError):
    """A value is not what its MIME type asks for; the message says what it is not."""


@lru_cache(maxsize=512)
def kind_of(mime_type: str) -> Kind:
    """Image, audio, video and the like are base64 (Jupyter messaging 5.4), but SVG is text; `*+json` is JSON."""
    name = mime_type.partition(";")[0].strip().lower()
    if _JSON.match(name):
        return Kind.JSON
    if name == SVG or name.endswith("+xml"):
        return Kind.TEXT
    if name in _BINARY or name.startswith(_BINARY_TREES):
        return Kind.BINARY
    return Kind.TEXT


def is_mime_type(name: Any, most: int) -> bool:
    return isinstance(name, str) and len(name) <= most and _NAME.fullmatch(name) is not None


def checked_text(mime_type: str, value: Any) -> TextValue:
    """The value of a text or binary MIME type; an SVG that a kernel sent as base64 is made text again. Raises InvalidValue."""
    text = text_of(value)
    if kind_of(mime_type) is Kind.BINARY:
        check_base64(chunks_of(text))
    elif mime_type.partition(";")[0].strip().lower() == SVG:
        return _svg(text)
    return text


def text_of(value: Any) -> TextValue:
    """The value as text. Raises InvalidValue."""
    if isinstance(value, str | LongText):
        return value
    if isinstance(value, list) and all(isinstance(line, str | LongText) for line in value):
        return value
    raise InvalidValue("not text")


def chunks_of(text: TextValue) -> Iterator[str]:
    """The text in bounded pieces."""
    if isinstance(text, list):
        for line in text:
            yield from text_chunks(line)
    else:
        yield from text_chunks(text)


def check_base64(chunks: Iterable[str]) -> None:
    """Raises InvalidValue unless the chunks are one base64 text (RFC 4648, padded; white space is let through)."""
    digits = padding = 0
    for chunk in chunks:
        if not chunk.isascii():
            raise InvalidValue("not base64")
        data = chunk.encode().translate(None, _WHITESPACE)
        body = data.rstrip(b"=")
        padding += len(data) - len(body)
        digits += len(data)
        if body and (padding > len(data) - len(body) or body.translate(None, _ALPHABET)):
            raise InvalidValue("not base64")
    if padding > 2 or digits % 4:
        raise InvalidValue("not base64: its length or padding is wrong")


def _svg(text: TextValue) -> TextValue:
    start = next((stripped for chunk in chunks_of(text) if (stripped := chunk.lstrip("\ufeff \t\r\n"))), "")
    if start.startswith("<"):
        return text
    if sum(len(chunk) for chunk in chunks_of(text)) > SVG_CHARS:
        raise InvalidValue(f"neither SVG text nor base64 of at most {SVG_CHARS} characters")
    # jupyter_client sends any bytes as base64 and does not mark them.
    encoded = "".join(chunks_of(text))
    try:
        check_base64([encoded])
        decoded = binascii.a2b_base64(encoded).decode("utf-8-sig")
    except ValueError:
        raise InvalidValue("neither SVG text nor base64 of it") from None
    if not decoded.lstrip().startswith(_SVG_BEGINNINGS):
        raise InvalidValue("neither SVG text nor base64 of it")
    return decoded
