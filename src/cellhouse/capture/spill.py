"""The whole raw text of a stream, for paging: held while it is short, then written beside the log."""

from collections.abc import Callable
from typing import Final

from cellhouse.capture.sink import Sink, SpillWriter, TextName

HOLD_BYTES: Final = 256 * 1024
"""Up to here a stream's events hold its text, so no file is made."""


class SpillBudget:
    """What all texts of one execution may write together."""

    __slots__ = ("_failed", "_reached", "left", "limit", "sink")

    def __init__(
        self, sink: Sink, limit: int, *, reached: Callable[[], None], failed: Callable[[OSError], None]
    ) -> None:
        self.sink = sink
        self.limit = self.left = limit
        self._reached = reached
        self._failed = failed

    def reached(self) -> None:
        self.left = 0
        self._reached()

    def failed(self, error: OSError) -> None:
        self._failed(error)


class Spill:
    """One text. Without a gap: once something could not be kept, nothing behind it is."""

    __slots__ = ("_budget", "_closed", "_held", "_hold", "_name", "_writer", "kept", "offset")

    def __init__(self, name: TextName, budget: SpillBudget, *, hold: int = HOLD_BYTES) -> None:
        self._name: TextName = name
        self._budget = budget
        self._hold = hold
        self._held: bytearray | None = bytearray()
        self._writer: SpillWriter | None = None
        self._closed = False
        self.kept = 0
        self.offset = 0  # bytes that were there before this text

    @property
    def begun(self) -> bool:
        return self._held is None

    def write(self, data: bytes) -> None:
        """Takes the next bytes of the text: whole characters."""
        if self._held is None:
            self._keep(data)
        elif len(self._held) + len(data) <= self._hold:
            self._held += data
        else:
            self.begin()
            self._keep(data)

    def begin(self) -> None:
        """From now on the text is written: it is long, or its events don't hold it."""
        if self._held is not None:
            held, self._held = bytes(self._held), None
            self._keep(held)

    def _keep(self, data: bytes) -> None:
        if self._closed or not data:
            return
        part = _whole_characters(data, self._budget.left)
        try:
            if self._writer is None:
                self._writer = self._budget.sink.spill(self._name)
                self.offset = self._writer.bytes_kept
            kept = self._writer.write(part) if part else 0
        except OSError as error:
            self._closed = True
            self._budget.failed(error)
            return
        self.kept += kept
        self._budget.left -= kept
        if kept < len(data):
            self._closed = True
            self._budget.reached()


def _whole_characters(data: bytes, size: int) -> bytes:
    """At most `size` bytes of the data, cut before the character that doesn't fit."""
    if len(data) <= size:
        return data
    while size and data[size] & 0xC0 == 0x80:
        size -= 1
    return data[:size]
