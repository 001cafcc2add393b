"""What shows a stream of text again: for results made from a record."""

from typing import Protocol

from cellhouse.excerpt import Excerpt
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
        self._bytes = self._chars = self._newlines = 0  # ever written
        self._ends_line = True
        self._shown = self._begun()

    def _begun(self) -> Excerpt:
        return Excerpt(self._limit, self._limit // 2 + 1)

    def write(self, text: str) -> None:
        if not text:
            return
        newlines = text.count("\n")
        self._bytes += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        self._chars += len(text)
        self._newlines += newlines
        self._ends_line = text.endswith("\n")
        self._shown.add(text, newlines)

    def clear(self) -> int:
        before, self._shown = self._shown, self._begun()
        return before.chars

    def render(self, pointer: str) -> tuple[str, TextCut | None]:
        shown = self._shown.render(self._limit, pointer)
        if not shown.omitted_chars:
            return shown.text, None
        return shown.text, TextCut(
            total_bytes=self._bytes,
            total_chars=self._chars,
            total_lines=self._newlines + (0 if self._ends_line else 1),
            kept_head_chars=shown.head_chars,
            kept_tail_chars=shown.tail_chars,
            omitted_chars=shown.omitted_chars,
            spilled_bytes=0,
        )
