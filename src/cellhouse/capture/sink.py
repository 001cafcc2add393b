"""Where capture sends what it makes: the log of one execution, as far as capture needs to know it."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from cellhouse.model import Event, TailFrame

TextName = Literal["stdout", "stderr", "result", "traceback"]


class SpillWriter(Protocol):
    """A whole text kept beside the log."""

    @property
    def bytes_kept(self) -> int: ...

    def write(self, data: bytes) -> int:
        """Appends; the bytes kept, whole characters, fewer where the limit of all texts is reached.

        Raises OSError (DiskFull).
        """
        ...


class Sink(Protocol):
    """The log of one execution. Every method may raise OSError (DiskFull); what was there before stays whole."""

    def append(self, event: Event) -> Event:
        """Numbers and keeps an event."""
        ...

    def tail(self, frame: TailFrame) -> None:
        """Shows a frame to whoever follows; only the latest is kept."""
        ...

    def spill(self, name: TextName) -> SpillWriter: ...

    def note(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Keeps a fact that is no event."""
        ...
