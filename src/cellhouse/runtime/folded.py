"""What a record holds of a stream, shown as a terminal would: for the results of executions whose owner died."""

from cellhouse.capture.decode import cleaned
from cellhouse.capture.spill import Spill, SpillBudget
from cellhouse.capture.text import TextStream
from cellhouse.model import TextCut


class _KeptAlready:
    """Takes the place of what keeps the whole text: it stands beside the record."""

    bytes_kept = 0

    def write(self, data: bytes) -> int:
        return len(data)

    def spill(self, name: str) -> "_KeptAlready":
        return self


class FoldedText:
    """A `journal.TextView` with the same folding and shortening as a result that was frozen in time."""

    def __init__(self, limit: int) -> None:
        budget = SpillBudget(_KeptAlready(), 1 << 62, reached=lambda: None, failed=lambda error: None)  # type: ignore[arg-type]
        self._stream = TextStream(limit, Spill("stdout", budget, hold=0))

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
