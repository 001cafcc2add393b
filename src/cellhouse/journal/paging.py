"""Pages of a whole text, by offsets in bytes of its UTF-8, cut at characters."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PAGE_BYTES = 4 << 20
_CHARACTER_BYTES = 4


@dataclass(frozen=True, slots=True)
class TextPage:
    """Text from byte `offset` on; the next page begins at `next_offset`. `total_bytes` is what can be read here."""

    text: str
    offset: int
    next_offset: int
    total_bytes: int
    eof: bool


def page_of(read: Callable[[int, int], bytes], offset: int, limit: int, total: int) -> TextPage:
    """A page through `read(offset, size)`: at most `limit` bytes, but a whole character at least.

    An offset inside a character is moved back to its start; one past the end gives an empty page.
    """
    limit = min(max(limit, _CHARACTER_BYTES), PAGE_BYTES)
    offset = min(max(offset, 0), total)
    # From up to three bytes before, so that the start of the character at `offset` is seen.
    start = max(0, offset - (_CHARACTER_BYTES - 1))
    data = read(start, offset - start + limit)
    at = offset - start
    back = at
    while back > 0 and back < len(data) and _continues(data[back]) and at - back < _CHARACTER_BYTES - 1:
        back -= 1
    if back < len(data) and not _continues(data[back]):
        at = back
    body = data[at : at + limit]
    offset = start + at
    if offset + len(body) < total and (rest := _unfinished(body)) < len(body):
        body = body[: len(body) - rest]
    end = offset + len(body)
    return TextPage(body.decode("utf-8", "replace"), offset, end, total, end >= total)


def _continues(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _unfinished(data: bytes) -> int:
    """Bytes at the end of `data` that begin a character which goes on behind it."""
    for back in range(1, min(_CHARACTER_BYTES - 1, len(data)) + 1):
        byte = data[-back]
        if _continues(byte):
            continue
        wanted = 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        return back if wanted > back else 0
    return 0


def read_spill(path: Path, offset: int, size: int) -> bytes:
    """Bytes of a spilled text; fewer at its end."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        parts = []
        while size > 0 and (part := os.pread(fd, min(size, 1 << 20), offset)):
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def spill_size(path: Path) -> int:
    """Bytes of a spilled text; -1 where there is none."""
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return -1
