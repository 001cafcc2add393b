"""The whole raw text of a stream, for paging: held while it is short, then written beside the log."""

from collections.abc import Callable
from typing import Final, NamedTuple

from cellhouse.capture.sink import Sink, SpillWriter, TextName

HOLD_BYTES: Final = 256 * 1024
"""Up to here a stream's events hold its text, so no file is made."""


class Keeping(NamedTuple):
    """Where the texts of one execution are kept, and who is told that something was not. The sink has the limit."""

    sink: Sink
    reached: Callable[[], None]
    failed: Callable[[OSError], None]


class Spill:
    """One text. Without a gap: once something could not be kept, nothing behind it is."""

    __slots__ = ("_closed", "_held", "_hold", "_keeping", "_name", "_writer", "kept", "offset")

    def __init__(self, name: TextName, keeping: Keeping, *, hold: int = HOLD_BYTES) -> None:
        self._name: TextName = name
        self._keeping = keeping
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
        try:
            if self._writer is None:
                self._writer = self._keeping.sink.spill(self._name)
                self.offset = self._writer.bytes_kept
            kept = self._writer.write(data)
        except OSError as error:
            self._closed = True
            self._keeping.failed(error)
            return
        self.kept += kept
        if kept < len(data):
            self._closed = True
            self._keeping.reached()
