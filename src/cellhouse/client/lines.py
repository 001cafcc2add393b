"""Lines of an event stream, and what each of them is."""

from typing import Any, Final, Literal, TypeAlias

import pydantic_core

from cellhouse.model import CellhouseError, Event, TailFrame, error_from_wire, parse_event

KINDS: Final = frozenset(
    (
        "queued", "started", "stream", "display", "displayUpdated", "cleared", "result", "error", "inputRequested",
        "artifact", "notice", "finished", "late",
    )
)  # fmt: skip


class LineTooLong(ValueError):
    """A line has more bytes than are taken."""


class Lines:
    """Cuts pieces of bytes into lines of at most `limit` bytes. A last line without its end is never given."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that have become whole, without their ends. LineTooLong."""
        first, *more = piece.split(b"\n")
        self._add(first)
        if not more:
            return []
        *whole, rest = more
        found = [b"".join(self._parts), *whole]
        self._parts, self._size = [], 0
        if max(map(len, found)) > self._limit:
            raise LineTooLong
        self._add(rest)
        return found

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            raise LineTooLong
        if part:
            self._parts.append(part)


class Unknown:
    """A numbered event of a kind that this client does not know: it is counted and not shown."""

    def __init__(self, seq: int) -> None:
        self.seq = seq


Frame: TypeAlias = Event | TailFrame | CellhouseError | Unknown | Literal["keepAlive"]


def parse_frame(line: bytes) -> Frame:
    """What a line is. ValueError where it is nothing that a stream may hold."""
    found: Any = pydantic_core.from_json(line, allow_inf_nan=False)
    if not isinstance(found, dict):
        raise ValueError(f"a line is a {type(found).__name__}, not an object")
    kind = found.get("type")
    if kind is None and "error" in found:
        return error_from_wire(found)
    if kind == "keepAlive":
        return "keepAlive"
    if kind == "tail":
        return TailFrame.from_wire(found)
    if kind not in KINDS:
        seq = found.get("seq")
        if type(seq) is not int or seq < 1 or not isinstance(kind, str):
            raise ValueError("a line is neither an event nor an error")
        return Unknown(seq)
    event = parse_event(found)
    if event.seq < 1:
        raise ValueError(f"an event of type {kind} has no number")
    return event
