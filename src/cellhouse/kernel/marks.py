"""What a pipe of a native kernel brings, taken apart into text and the marks in it. No I/O, no clock.

A mark is `b"\\x00\\x01"`, the nonce, and two numbers. One of order: its epoch, from 1 on without a gap, and how many
frames must have been handed on before the text behind it. One of a piece: 0, and the number of the piece of text behind it.
Executed code can read the nonce and forge marks, whole ones and parts.
"""

import struct
from collections import deque

NONCE_BYTES = 16
NUMBERS = struct.Struct(">QQ")
PREFIX = b"\x00\x01"
MARK_BYTES = len(PREFIX) + NONCE_BYTES + NUMBERS.size
NUMBERS_BELOW = 1 << 48
"""No kernel counts that far."""
LANE_BYTES = 1 << 18
"""What waits of one pipe; with more, `wants` says that it need not be read."""
PIECE_BYTES = 256
"""What anything that waits counts at least."""

Mark = tuple[int, int]


class Lane:
    """One pipe: what of it waits, in its order. `stream`: 0 is stdout, 1 is stderr."""

    __slots__ = ("ended", "held", "items", "loose", "since", "stream", "tail", "texts", "turn")

    def __init__(self, stream: int) -> None:
        self.stream = stream
        self.items: deque[bytes | Mark] = deque()
        self.tail = b""
        """What may be the beginning of a mark, at the end of all that came."""
        self.held = 0
        self.texts = 0
        """How many of the items are text."""
        self.since: float | None = None
        """Since when the first byte that waits has had nothing happen to it."""
        self.ended = False
        self.loose = False
        """Its marks of order are taken out, and hold nothing up."""
        self.turn: int | None = None
        """The epoch that the next mark of order must have; None where any may come."""

    @property
    def barrier(self) -> Mark | None:
        """The mark of order that all else waits behind."""
        item = self.items[0] if self.items else None
        return item if isinstance(item, tuple) and item[0] and not self.loose else None

    @property
    def waits(self) -> bool:
        """Whether text waits, or what may be text."""
        return bool(self.texts or self.tail)

    @property
    def wants(self) -> bool:
        """Whether more of this pipe may be brought in."""
        return self.held < LANE_BYTES

    def bring(self, data: bytes, mark: bytes) -> list[Mark]:
        """Take in what was read; the marks of order in it. `mark`: what each begins with."""
        if self.tail:
            data, self.tail = self.tail + data, b""
        if not data:
            return []
        ordering: list[Mark] = []
        at, found = 0, data.find(mark)
        while 0 <= found <= len(data) - MARK_BYTES:
            begun = data.find(mark, found + 1, found + MARK_BYTES + len(mark) - 1)
            if begun >= 0:
                found = begun  # a part of one, which must not swallow a whole one
                continue
            epoch, number = NUMBERS.unpack_from(data, found + len(mark))
            if epoch >= NUMBERS_BELOW or number >= NUMBERS_BELOW:
                found = data.find(mark, found + 1)
                continue
            if found > at:
                self._add(data[at:found])
            self._add((epoch, number))
            if epoch:
                ordering.append((epoch, number))
            at = found + MARK_BYTES
            found = data.find(mark, at)
        end = found if found >= 0 else _begun(data, at, mark)
        if end > at:
            self._add(data if end - at == len(data) else data[at:end])
        self.tail = data[end:]
        return ordering

    def drop_last_marks(self, count: int) -> None:
        """Of the marks of order that wait, forget so many of the last; the text stays."""
        kept: deque[bytes | Mark] = deque()
        while count:
            item = self.items.pop()
            if isinstance(item, tuple) and item[0]:
                self.held -= _size(item)
                count -= 1
            else:
                kept.appendleft(item)
        self.items += kept

    def end(self) -> None:
        """Nothing more comes, so that the beginning of a mark is none."""
        self.ended = True
        self.let_go()

    def let_go(self) -> None:
        """What may be the beginning of a mark counts as text from now on."""
        if self.tail:
            self._add(self.tail)
            self.tail = b""

    def take(self) -> bytes | Mark:
        """The first item, which is done with."""
        item = self.items.popleft()
        self.held -= _size(item)
        self.texts -= isinstance(item, bytes)
        return item

    def _add(self, item: bytes | Mark) -> None:
        self.items.append(item)
        self.held += _size(item)
        self.texts += isinstance(item, bytes)


def _size(item: bytes | Mark) -> int:
    return PIECE_BYTES + (len(item) if isinstance(item, bytes) else MARK_BYTES)


def _begun(data: bytes, at: int, mark: bytes) -> int:
    """Where the beginning of a mark stands at the end of the data; its length where none does."""
    start = max(at, len(data) - len(mark) + 1)
    while (start := data.find(b"\0", start)) >= 0:
        if mark.startswith(data[start:]):
            return start
        start += 1
    return len(data)
