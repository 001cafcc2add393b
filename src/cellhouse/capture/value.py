"""The text of an expression's value: the result, unless another value follows; then it counts as printed where it stood."""

from collections.abc import Iterator
from typing import Final

from cellhouse.capture.decode import Piece, cleaned, pieces
from cellhouse.capture.spill import Spill
from cellhouse.capture.text import TextStream
from cellhouse.excerpt import Shortened
from cellhouse.messages import LongText
from cellhouse.model import TextCut

EVENT_BYTES: Final = 65_536
"""A value up to here is whole in its event; a longer one is written whole beside the log."""
HELD_BYTES: Final = 8 * 1024 * 1024
"""A value up to here can be printed whole when another one follows; a longer one is printed shortened."""


class Value:
    """One displayed value. `place` is its slot in stdout, once something was printed behind it."""

    __slots__ = ("_held", "_pointer", "_stream", "place", "placed", "spill")

    def __init__(self, text: str | LongText, limit: int, spill: Spill, pointer: str) -> None:
        self.spill = spill
        self.placed = False
        self.place: int | None = None
        self._pointer = pointer
        self._stream = TextStream(limit, spill)
        self._held: list[str] | None = []
        for piece in cleaned(text):
            self._stream.write(piece)
            if self._held is not None:
                self._held.append(piece.text)
                if self._stream.total_bytes > HELD_BYTES:
                    self._held = None

    @property
    def text_bytes(self) -> int:
        return self._stream.total_bytes

    def event_text(self) -> str:
        """The raw text, or where it is long the text as shown."""
        if self._held is not None and self.text_bytes <= EVENT_BYTES:
            return "".join(self._held)
        return self._stream.render(self._pointer, EVENT_BYTES // 4).text

    def printed(self) -> Iterator[Piece]:
        """As printed text, with its line end. Nothing where the value has no text."""
        if not self.text_bytes:
            return
        text = self.render().text if self._held is None else "".join(self._held)
        yield from pieces(text + "\n")

    def render(self) -> Shortened:
        return self._stream.render(self._pointer)

    def cut(self, shown: Shortened) -> TextCut | None:
        return self._stream.cut(shown)
