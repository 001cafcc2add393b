"""One text stream of an execution: what was sent, counted and kept whole, and what a screen shows of it, in bounds."""

import re
from typing import Final

from cellhouse.capture.decode import Piece
from cellhouse.capture.spill import Spill
from cellhouse.capture.terminal import Terminal
from cellhouse.excerpt import Excerpt, Shortened, join
from cellhouse.model import TextCut

SLOTS: Final = 2_048
"""Places in one stream that text can be put into later. A place is a lone surrogate, which clean text never has."""
SLOT_CHARS: Final = 65_536
SLOTS_CHARS: Final = 1_048_576
"""Characters of one place, and of all places of one stream."""

_FIRST_SLOT: Final = 0xD800
_SLOT = re.compile("[\ud800-\udfff]")


class TextStream:
    """Takes text in clean pieces; its totals are of the raw text, its rendering is folded and shortened."""

    __slots__ = (
        "_chars", "_ends_line", "_excerpt", "_gone", "_limit", "_newlines", "_scrolled", "_slots", "_slots_chars", "_terminal",
        "cleared_chars", "spill", "total_bytes",
    )  # fmt: skip

    def __init__(self, limit: int, spill: Spill) -> None:
        self._limit = limit
        self.spill = spill
        self.total_bytes = 0
        self._chars = 0
        self._newlines = 0
        self._ends_line = True
        self.cleared_chars = 0
        self._terminal = Terminal(self._scroll)
        self._gone = 0  # line ends that have left the screen
        self._begin()

    def _begin(self) -> None:
        """An empty screen, and nothing above it."""
        # A slot is one character here and may be none or many when it is shown, hence the room for all of them.
        self._excerpt = Excerpt(self._limit + SLOTS, self._limit // 2 + 1 + SLOTS)
        self._slots: list[str] = []
        self._slots_chars = 0
        self._scrolled: set[int] = set()

    # Text

    def count(self, piece: Piece) -> None:
        """Text that was sent and is shown in a slot: counted and kept, not folded."""
        self._count(piece)

    def _count(self, piece: Piece) -> int:
        newlines = piece.text.count("\n")
        self.total_bytes += len(piece.data)
        self._chars += len(piece.text)
        self._newlines += newlines
        self._ends_line = piece.text.endswith("\n")
        self.spill.write(piece.data)
        return newlines

    def write(self, piece: Piece) -> None:
        """Text that was sent and is shown where the cursor is."""
        self._terminal.feed(piece.text, piece.data, self._count(piece))

    @property
    def at_line_start(self) -> bool:
        return self._terminal.column == 0

    # Slots

    def reserve(self, text: str) -> int | None:
        """A slot at the cursor that holds folded text. None where there can be no more of them."""
        number = len(self._slots)
        if number == SLOTS or not self._fits(len(text)):
            return None
        self._slots.append(text)
        self._slots_chars += len(text)
        self._terminal.put_character(chr(_FIRST_SLOT + number))
        return number

    def keep_place(self) -> int | None:
        """A slot that holds nothing yet, before the line in which the cursor stands at its start."""
        number = len(self._slots)
        if number == SLOTS:
            return None
        self._slots.append("")
        self._terminal.put_anchor(chr(_FIRST_SLOT + number))
        return number

    def end_slot(self) -> None:
        """A line end behind a slot."""
        self._terminal.feed("\n")

    def fill(self, number: int, text: str) -> bool:
        """Puts folded text into a slot, in place of what it holds. False where it is too long or no longer shown."""
        before = len(self._slots[number])
        if not self._fits(len(text), before) or not self._shown(number):
            return False
        self._slots[number] = text
        self._slots_chars += len(text) - before
        return True

    def _fits(self, chars: int, before: int = 0) -> bool:
        return chars <= SLOT_CHARS and self._slots_chars - before + chars <= SLOTS_CHARS

    def _shown(self, number: int) -> bool:
        return number in self._scrolled or self._terminal.shows(chr(_FIRST_SLOT + number))

    def _scroll(self, text: str) -> None:
        gone = self._terminal.newlines_gone
        self._excerpt.add(text, gone - self._gone)
        self._gone = gone
        if self._slots and not text.isascii():
            self._scrolled.update(map(_number, _SLOT.findall(text)))

    def _expanded(self, text: str) -> str:
        if not self._slots or text.isascii():
            return text
        return _SLOT.sub(lambda found: self._slots[_number(found[0])], text)

    # Results

    def clear(self) -> None:
        """What is shown goes, and counts as cleared. Slots are void."""
        self.cleared_chars += self._figures(self._terminal.screen())[0]
        self._terminal.clear()
        self._begin()

    def _figures(self, screen: str) -> tuple[int, int]:
        """Characters and line ends of what is shown, slots included."""
        excerpt = self._excerpt
        chars = excerpt.chars + len(screen)
        newlines = excerpt.newlines + screen.count("\n")
        if self._slots:
            for number in self._scrolled.union(map(_number, _SLOT.findall(screen))):
                chars += len(self._slots[number]) - 1
                newlines += self._slots[number].count("\n")
        return chars, newlines

    def render(self, pointer: str, limit: int | None = None) -> Shortened:
        """What is shown, within the stream's limit, or a narrower one."""
        limit = self._limit if limit is None else min(limit, self._limit)
        excerpt, screen = self._excerpt, self._terminal.screen()
        chars, newlines = self._figures(screen)
        if excerpt.whole:
            text = self._expanded(excerpt.head() + excerpt.tail() + screen)
            if chars <= limit:
                return Shortened(text, chars, 0, 0, 0)
            return join(text, text, chars, newlines, limit, pointer)
        beginning = self._expanded(excerpt.head())
        ending = self._expanded(excerpt.tail() + screen)
        return join(beginning, ending, chars, newlines, limit, pointer)

    def cut(self, shown: Shortened) -> TextCut | None:
        """The figures of a rendering; None where it is whole."""
        if not shown.omitted_chars:
            return None
        return TextCut(
            total_bytes=self.total_bytes,
            total_chars=self._chars,
            total_lines=self._newlines + (0 if self._ends_line else 1),
            kept_head_chars=shown.head_chars,
            kept_tail_chars=shown.tail_chars,
            omitted_chars=shown.omitted_chars,
            spilled_bytes=self.spill.kept,
        )


def _number(slot: str) -> int:
    return ord(slot) - _FIRST_SLOT
