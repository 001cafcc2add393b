"""What a record holds of a stream, shown as a terminal would: for the results of executions whose owner died."""

from cellhouse.capture.decode import cleaned
from cellhouse.capture.spill import Spill
from cellhouse.capture.text import TextStream
from cellhouse.model import TextCut


class _KeptAlready(Spill):
    """Keeps nothing: the whole text stands beside the record."""

    __slots__ = ()

    def __init__(self) -> None:
        self.kept = self.offset = 0

    def write(self, data: bytes) -> None:
        return


class FoldedText:
    """A `journal.TextView` with the same folding and shortening as a result that was frozen in time."""

    def __init__(self, limit: int) -> None:
        self._stream = TextStream(limit, _KeptAlready())

    def write(self, text: str) -> None:
        for piece in cleaned(text):
            self._stream.write(piece)

    def clear(self) -> int:
        before = self._stream.cleared_chars
        self._stream.clear()
        return self._stream.cleared_chars - before

    def render(self, pointer: str) -> tuple[str, TextCut | None]:
        shown = self._stream.render(pointer)
        return shown.text, self._stream.cut(shown)
