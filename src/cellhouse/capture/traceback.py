"""Exceptions as kernels report them, made plain: no escapes, one frame an entry, bounded, and garbage survived."""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cellhouse.capture.decode import Piece, TextCleaner, clean, gathered, pieces
from cellhouse.capture.terminal import Terminal
from cellhouse.excerpt import Excerpt, Shortened
from cellhouse.messages import LongText, text_chunks
from cellhouse.model import CaptureLimits, ExecutionError, TextCut

NAME_CHARS: Final = 256
FRAMES: Final = 1_000
"""Entries of a traceback; of a longer one the first and the last half."""

ENTRIES: Final = 10_000
"""Entries of a traceback that are read at all, since each is folded for itself; of more, the first and the last half."""

_ESCAPES = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]|[\x1b][\\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\\\)|\x1b[ -/]*[0-~]"
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)


def plain(text: str) -> str:
    """Clean text without escapes and controls other than tab, line feed and carriage return."""
    return _ESCAPES.sub("", clean(text))


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """One exception, within limits; a cut is there where something was shortened."""

    error: ExecutionError
    value_cut: TextCut | None
    traceback_cut: TextCut | None

    @property
    def text_bytes(self) -> int:
        error = self.error
        return sum(len(part.encode()) for part in (error.name, error.value, *error.traceback))


class _Measure:
    """Totals of a text that goes by, and its two ends."""

    def __init__(self, room: int) -> None:
        self.bytes = 0
        self.ends_line = True
        self.excerpt = Excerpt(room, room // 2 + 1)

    def add(self, text: str) -> None:
        self.bytes += len(text.encode())
        self.ends_line = text.endswith("\n") if text else self.ends_line
        self.excerpt.add(text)

    def cut(self, head: int, tail: int, spilled: int) -> TextCut:
        return TextCut(
            total_bytes=self.bytes,
            total_chars=self.excerpt.chars,
            total_lines=self.excerpt.newlines + (0 if self.ends_line else 1),
            kept_head_chars=head,
            kept_tail_chars=tail,
            omitted_chars=self.excerpt.chars - head - tail,
            spilled_bytes=spilled,
        )


class ErrorText:
    """The content of an `error` message or reply (Jupyter messaging 5.4), read as often as needed, never copied whole."""

    def __init__(self, content: Mapping[str, Any], limits: CaptureLimits) -> None:
        self._limits = limits
        name = content.get("ename")
        self.name = plain(name)[:NAME_CHARS] if isinstance(name, str) and name else "UnknownError"
        self._value = content.get("evalue")
        entries = content.get("traceback")
        if isinstance(entries, str | LongText):
            entries = [entries]
        self._entries = _bounded(entries) if isinstance(entries, list | tuple) else []

    def value(self) -> Iterator[str]:
        return _plain_chunks(self._value)

    def frames(self) -> Iterator["_Frame"]:
        for entry in self._entries:
            if isinstance(entry, str | LongText):
                yield _Frame(entry, self._limits.traceback_chars)

    def text(self) -> Iterator[Piece]:
        """The whole traceback as printed text; the bare exception where there is none."""
        return gathered(self._printed())

    def _printed(self) -> Iterator[Piece]:
        ends_line = True
        printed = False
        for entry in self._entries:
            if not isinstance(entry, str | LongText):
                continue
            for part in _folded_chunks(entry):
                printed = printed or not part.isspace()
                ends_line = part.endswith("\n")
                yield from pieces(part)
            if not ends_line:
                ends_line = True
                yield from pieces("\n")
        if not printed:
            yield from pieces(f"{self.name}: ")
            for part in self.value():
                yield from pieces(part)
            yield from pieces("\n")

    def report(self, pointer: str, keep: Callable[[Iterator[Piece]], int]) -> ErrorReport:
        """Bounded. Where something is cut, `keep` is given the whole, value first, and tells how many bytes it kept."""
        value = _Measure(self._limits.error_value_chars)
        for part in self.value():
            value.add(part)
        shown = value.excerpt.render(self._limits.error_value_chars, pointer)
        frames = _Frames(self.frames(), self._limits.traceback_chars, pointer)
        error = ExecutionError(name=self.name, value=shown.text, traceback=frames.entries)
        if not shown.omitted_chars and not frames.cut:
            return ErrorReport(error, None, None)
        spilled = keep(self._whole(bool(shown.omitted_chars)))
        return ErrorReport(
            error,
            value.cut(shown.head_chars, shown.tail_chars, spilled) if shown.omitted_chars else None,
            frames.figures(spilled) if frames.cut else None,
        )

    def _whole(self, with_value: bool) -> Iterator[Piece]:
        if with_value:
            yield from pieces(f"{self.name}: ")
            for part in self.value():
                yield from pieces(part)
            yield from pieces("\n")
        yield from self.text()


class _Frame:
    """One folded entry: its size, and as much of its ends as could be shown."""

    __slots__ = ("bytes", "excerpt")

    def __init__(self, entry: str | LongText, room: int) -> None:
        self.excerpt = Excerpt(room, room // 2 + 1)
        self.bytes = 0
        for part in _folded_chunks(entry):
            self.bytes += len(part.encode())
            self.excerpt.add(part)

    @property
    def chars(self) -> int:
        return self.excerpt.chars

    def shown(self, limit: int, pointer: str) -> Shortened:
        return self.excerpt.render(limit, pointer)


class _Frames:
    """The first and the last frames that fit, and an entry between them that says what is missing."""

    def __init__(self, frames: Iterator[_Frame], limit: int, pointer: str) -> None:
        self.entries: tuple[str, ...]
        first: list[_Frame] = []
        last: deque[_Frame] = deque()
        self._chars = self._bytes = self._lines = self._count = 0
        first_chars = last_chars = 0
        for frame in frames:
            self._count += 1
            self._chars += frame.chars
            self._bytes += frame.bytes
            self._lines += frame.excerpt.newlines + 1
            fits = first_chars + frame.chars <= limit and len(first) < FRAMES and not last
            if fits or not first:
                first.append(frame)
                first_chars += frame.chars
                continue
            last.append(frame)
            last_chars += frame.chars
            while len(last) > 1 and (last_chars - last[0].chars >= limit // 2 or len(last) > FRAMES // 2):
                last_chars -= last.popleft().chars
        self.cut = bool(last) or first_chars > limit
        self._head = self._tail = 0
        if not last:
            self.entries, self._head = _fitting(iter(first), limit, FRAMES, pointer)
            return
        head, self._head = _fitting(iter(first), limit - limit // 2, FRAMES // 2, pointer)
        # The last names the exception.
        tail, self._tail = _fitting(reversed(last), limit // 2, FRAMES // 2, pointer)
        left_out = self._count - len(head) - len(tail)
        chars = self._chars - self._head - self._tail
        middle = f"… {left_out} frame{'s' if left_out != 1 else ''}, {chars} characters not shown; read {pointer} …"
        self.entries = (*head, middle, *reversed(tail)) if left_out else (*head, *reversed(tail))

    def figures(self, spilled: int) -> TextCut:
        return TextCut(
            total_bytes=self._bytes,
            total_chars=self._chars,
            total_lines=self._lines,
            kept_head_chars=self._head,
            kept_tail_chars=self._tail,
            omitted_chars=self._chars - self._head - self._tail,
            spilled_bytes=spilled,
        )


def _fitting(frames: Iterator[_Frame], room: int, most: int, pointer: str) -> tuple[tuple[str, ...], int]:
    """The frames that fit, the first of them shortened if need be, and the characters kept of them."""
    texts: list[str] = []
    kept = 0
    for frame in frames:
        if texts and (kept + frame.chars > room or len(texts) >= most):
            break
        shown = frame.shown(room, pointer)
        texts.append(shown.text)
        kept += frame.chars - shown.omitted_chars
    return tuple(texts), kept


def _bounded(entries: Sequence[Any]) -> list[Any]:
    """The entries that are read, and between them one that says how many are not."""
    if len(entries) <= ENTRIES:
        return list(entries)
    half = ENTRIES // 2
    said = f"… {len(entries) - 2 * half} of the traceback's {len(entries)} entries are left out: {ENTRIES} are read …"
    return [*entries[:half], said, *entries[-half:]]


def _plain_chunks(value: Any) -> Iterator[str]:
    if isinstance(value, str | LongText):
        cleaner = TextCleaner()
        for chunk in text_chunks(value):
            for piece in cleaner.feed(chunk):
                yield _ESCAPES.sub("", piece.text)
        for piece in cleaner.finish():
            yield piece.text
    elif value is not None:
        number = isinstance(value, float | bool) or (isinstance(value, int) and value.bit_length() < 64)
        yield str(value) if number else f"<{type(value).__name__}>"


def _folded_chunks(entry: str | LongText) -> Iterator[str]:
    """An entry as a screen shows it: nothing that could write over what stands before it is left."""
    parts: list[str] = []
    terminal = Terminal(parts.append)
    cleaner = TextCleaner()
    for chunk in text_chunks(entry):
        for piece in cleaner.feed(chunk):
            terminal.feed(piece.text, piece.data)
        if parts:
            yield "".join(parts)
            parts.clear()
    for piece in cleaner.finish():
        terminal.feed(piece.text, piece.data)
    parts.append(terminal.screen())
    yield "".join(parts)
