"""Shortening: the head and the tail of a text, and one line between them that says exactly what is not shown."""

from collections import deque
from dataclasses import dataclass
from typing import Final

_PARTS: Final = 512
"""Pieces held of a head or a tail before they are joined: small ones cost many times their text."""


@dataclass(frozen=True, slots=True)
class Shortened:
    """A text within its limit, and what was left out of it; 0 left out where it is whole."""

    text: str
    head_chars: int
    tail_chars: int
    omitted_chars: int
    omitted_lines: int


class Excerpt:
    """Keeps the first `room` characters and the last `tail_room` of a text that is only ever added to."""

    __slots__ = ("_head", "_head_chars", "_room", "_tail", "_tail_chars", "_tail_room", "chars", "newlines")

    def __init__(self, room: int, tail_room: int) -> None:
        self._room = room
        self._tail_room = max(1, tail_room)
        self._head: list[str] = []
        self._head_chars = 0
        self._tail: deque[str] = deque()
        self._tail_chars = 0
        self.chars = 0
        self.newlines = 0

    def add(self, text: str, newlines: int | None = None) -> None:
        """`newlines` is the count of its line ends, for a caller that has it."""
        self.chars += len(text)
        self.newlines += text.count("\n") if newlines is None else newlines
        if self._head_chars < self._room:
            part = text[: self._room - self._head_chars]
            self._head.append(part)
            self._head_chars += len(part)
            if len(self._head) > _PARTS:
                self._head = ["".join(self._head)]
            text = text[len(part) :]
        if text:
            self._add_to_tail(text[-self._tail_room :])

    def _add_to_tail(self, text: str) -> None:
        tail = self._tail
        tail.append(text)
        self._tail_chars += len(text)
        while self._tail_chars - len(tail[0]) >= self._tail_room:
            self._tail_chars -= len(tail.popleft())
        if len(tail) > _PARTS:
            whole = "".join(tail)[-self._tail_room :]
            tail.clear()
            tail.append(whole)
            self._tail_chars = len(whole)

    @property
    def whole(self) -> bool:
        """Whether head and tail together are all there was."""
        return self.chars == self._head_chars + self._tail_chars

    def head(self) -> str:
        return "".join(self._head)

    def tail(self) -> str:
        return "".join(self._tail)

    def render(self, limit: int, pointer: str) -> Shortened:
        """The text within `limit` characters, which is at most the room."""
        if self.whole:
            return shorten(self.head() + self.tail(), limit, pointer)
        return join(self.head(), self.tail(), self.chars, self.newlines, limit, pointer)


def shorten(text: str, limit: int, pointer: str) -> Shortened:
    """A whole text within `limit` characters."""
    if len(text) <= limit:
        return Shortened(text, len(text), 0, 0, 0)
    return join(text, text, len(text), text.count("\n"), limit, pointer)


def join(beginning: str, ending: str, chars: int, newlines: int, limit: int, pointer: str) -> Shortened:
    """Head, line of what is missing, tail: of a text of `chars` > `limit` characters with so many line ends.

    `beginning` and `ending` are the first and the last half of the limit, or more; less where there is no more of them.
    The limit is for head and tail; the line between comes on top. Lines are counted that are not shown whole.
    """
    head = _head(beginning, limit - limit // 2)
    tail = _tail(ending, min(limit // 2, len(ending)))
    omitted = chars - len(head) - len(tail)
    lines = newlines - head.count("\n") - tail.count("\n")
    if not _starts_line(ending, len(tail)):
        lines += 1
    break_before = "" if not head or head.endswith("\n") else "\n"
    text = f"{head}{break_before}{missing(omitted, lines, pointer)}\n{tail}"
    return Shortened(text, len(head), len(tail), omitted, lines)


def missing(chars: int, lines: int, pointer: str) -> str:
    """The line that stands for text that is not shown. Without a pointer, it is kept nowhere."""
    units = f"{chars} character{'s' if chars != 1 else ''} ({lines} line{'s' if lines != 1 else ''})"
    where = f"read {pointer}" if pointer else "they were not kept"
    return f"… {units} not shown; {where} …"


def _head(text: str, size: int) -> str:
    """The first `size` characters, or up to the last line end in the second half of them."""
    part = text[:size]
    return part[: part.rfind("\n", size // 2) + 1] or part


def _tail(text: str, size: int) -> str:
    """The last `size` characters, or from the first line that begins in the first half of them."""
    part = text[len(text) - size :]
    if _starts_line(text, size):
        return part
    return part[part.find("\n", 0, size // 2) + 1 :]


def _starts_line(text: str, size: int) -> bool:
    """Whether the last `size` characters begin a line."""
    return text[len(text) - size - 1 : len(text) - size] in ("\n", "")
