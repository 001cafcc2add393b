"""Head and tail of a text, with the line between that says what is not shown: for results made from a record."""

from collections import deque
from typing import Protocol

from cellhouse.model import TextCut


class TextView(Protocol):
    """What shows one stream of a recovered execution. Given from above, it can fold text as a terminal would."""

    def write(self, text: str) -> None: ...

    def clear(self) -> int:
        """Drop what is shown; the characters that were."""
        ...

    def render(self, pointer: str) -> tuple[str, TextCut | None]:
        """The text within its limit, and the figures where it was shortened; `pointer` is what to read for the rest."""
        ...


class PlainText:
    """Shows text as it is: whole up to `limit` characters, else half from the beginning and half from the end."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._total = [0, 0, 0]  # bytes, characters, line ends ever written
        self._ends_line = True
        self._begin()

    def _begin(self) -> None:
        self._head: list[str] = []
        self._head_chars = 0
        self._tail: deque[str] = deque()
        self._tail_chars = 0
        self._chars = 0
        self._newlines = 0

    def write(self, text: str) -> None:
        if not text:
            return
        newlines = text.count("\n")
        self._total[0] += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        self._total[1] += len(text)
        self._total[2] += newlines
        self._ends_line = text.endswith("\n")
        self._chars += len(text)
        self._newlines += newlines
        if self._head_chars < self._limit:
            part = text[: self._limit - self._head_chars]
            self._head.append(part)
            self._head_chars += len(part)
            text = text[len(part) :]
        if not text:
            return
        self._tail.append(text[-self._limit :])
        self._tail_chars += len(self._tail[-1])
        while self._tail_chars - len(self._tail[0]) >= self._limit:
            self._tail_chars -= len(self._tail.popleft())

    @property
    def ends_line(self) -> bool:
        return self._ends_line

    def clear(self) -> int:
        chars = self._chars
        self._begin()
        return chars

    def render(self, pointer: str) -> tuple[str, TextCut | None]:
        head, tail = "".join(self._head), "".join(self._tail)
        if self._chars <= self._limit:
            return head, None
        first, last = split(head, (head + tail)[-self._limit :], self._limit)
        text, omitted = join(first, last, self._chars, self._newlines, pointer)
        return text, TextCut(
            total_bytes=self._total[0],
            total_chars=self._total[1],
            total_lines=self._total[2] + (0 if self._ends_line else 1),
            kept_head_chars=len(first),
            kept_tail_chars=len(last),
            omitted_chars=omitted,
            spilled_bytes=0,
        )


def split(beginning: str, ending: str, limit: int) -> tuple[str, str]:
    """The head and the tail to keep of a text that is longer than `limit`, cut at line ends where there are any."""
    head = beginning[: limit - limit // 2]
    head = head[: head.rfind("\n", len(head) // 2) + 1] or head
    size = limit // 2
    tail = ending[len(ending) - size :]
    if size < len(ending) and ending[len(ending) - size - 1] != "\n":
        tail = tail[tail.find("\n", 0, len(tail) // 2) + 1 :]
    return head, tail


def join(head: str, tail: str, chars: int, newlines: int, pointer: str) -> tuple[str, int]:
    """Head, the line of what is missing, tail; and the characters that are missing."""
    omitted = chars - len(head) - len(tail)
    lines = max(1, newlines - head.count("\n") - tail.count("\n"))
    plural = ("s" if omitted != 1 else "", "s" if lines != 1 else "")
    line = f"… {omitted} character{plural[0]} ({lines} line{plural[1]}) not shown; read {pointer} …"
    return f"{head}{'' if not head or head.endswith(chr(10)) else chr(10)}{line}\n{tail}", omitted
