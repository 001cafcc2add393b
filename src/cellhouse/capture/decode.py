"""Text as kernels and descriptors send it, made clean: always encodable as UTF-8, in bounded pieces, nothing cut in two."""

import re
from codecs import utf_8_decode
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from cellhouse.messages import LongText, text_chunks

PIECE_BYTES: Final = 65_536
"""UTF-8 bytes of one piece at most: what one event holds, and what is folded and written at once."""

_BYTES_OF_CHARACTER: Final = 4
_SURROGATES = re.compile("[\ud800-\udfff]")


class Piece(NamedTuple):
    """Some clean text, and the same in UTF-8."""

    text: str
    data: bytes


def pieces(text: str, size: int = PIECE_BYTES) -> Iterator[Piece]:
    """Clean text in pieces of at most `size` bytes. Raises UnicodeEncodeError where it is not clean."""
    step = size if text.isascii() else max(1, size // _BYTES_OF_CHARACTER)
    if len(text) <= size:
        data = text.encode()
        if len(data) <= size:
            if text:
                yield Piece(text, data)
            return
    for start in range(0, len(text), step):
        part = text[start : start + step]
        yield Piece(part, part.encode())


def clean(text: str, *, backslash: str = "\\") -> str:
    """The text with surrogate pairs joined, and each lone surrogate written out as `\\udXXX`.

    `backslash` is what stands for the backslash: two of them, where the text is a JSON document.
    """
    if text.isascii() or not _SURROGATES.search(text):
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _SURROGATES.sub(lambda found: f"{backslash}u{ord(found[0]):04x}", joined)


def _if_clean(chunk: str) -> list[Piece] | None:
    """Its pieces, or None. Encoding is the quickest search for surrogates, and its bytes are wanted anyway."""
    try:
        return list(pieces(chunk))
    except UnicodeEncodeError:
        return None


class TextCleaner:
    """Cleans a stream of text whose chunks may be cut inside a surrogate pair."""

    __slots__ = ("_high",)

    def __init__(self) -> None:
        self._high = ""

    def feed(self, chunk: str) -> Iterator[Piece]:
        """A bounded chunk in clean pieces. A high surrogate at its end waits for the next chunk."""
        whole = None if self._high else _if_clean(chunk)
        yield from pieces(self._cleaned(chunk)) if whole is None else whole

    def finish(self) -> Iterator[Piece]:
        """What still waited; it stays a lone surrogate."""
        high, self._high = self._high, ""
        yield from pieces(clean(high))

    def _cleaned(self, chunk: str) -> str:
        text = self._high + chunk
        self._high = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return clean(text[:-1] if self._high else text)


class ByteDecoder:
    """Decodes a stream of bytes as UTF-8: stray bytes become U+FFFD, a character cut in two does not.

    What is UTF-8 already, as nearly all is, becomes a piece as it is: decoded once, encoded never.
    """

    __slots__ = ("_cut",)

    def __init__(self) -> None:
        self._cut = b""

    def feed(self, data: bytes) -> Iterator[Piece]:
        """The characters that are whole by now. A piece may be longer by the beginning of its first one."""
        for start in range(0, len(data), PIECE_BYTES):
            yield from self._decoded(self._cut + data[start : start + PIECE_BYTES])

    def _decoded(self, data: bytes) -> Iterator[Piece]:
        try:
            text, used = utf_8_decode(data, "strict", False)
        except UnicodeDecodeError:
            text, used = utf_8_decode(data, "replace", False)
            self._cut = data[used:]
            yield from pieces(text)
            return
        self._cut = data[used:]
        if text:
            yield Piece(text, data[:used])

    def finish(self) -> Iterator[Piece]:
        """What still waited for the rest of its character, as U+FFFD."""
        cut, self._cut = self._cut, b""
        yield from pieces(cut.decode("utf-8", "replace"))


def cleaned(text: str | LongText, end: str = "") -> Iterator[Piece]:
    """A whole text in clean pieces, with `end` behind it."""
    if isinstance(text, str) and len(text) <= PIECE_BYTES:
        yield from pieces(clean(text) + end)
        return
    cleaner = TextCleaner()
    for chunk in text_chunks(text):
        yield from cleaner.feed(chunk)
    yield from cleaner.finish()
    yield from pieces(end)


def gathered(parts: Iterable[Piece]) -> Iterator[Piece]:
    """The same text in few pieces: small ones are put together, up to the size of one."""
    texts: list[Piece] = []
    size = 0
    for part in parts:
        if texts and size + len(part.data) > PIECE_BYTES:
            yield _joined(texts)
            texts, size = [], 0
        texts.append(part)
        size += len(part.data)
    if texts:
        yield _joined(texts)


def _joined(parts: list[Piece]) -> Piece:
    return Piece("".join([part.text for part in parts]), b"".join([part.data for part in parts]))
