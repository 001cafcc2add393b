"""Time as a parameter: the clock that everything is given, and RFC 3339."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the house gets its time; tests give one that they move themselves."""

    def now(self) -> datetime:
        """The wall clock, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean anything."""
        ...


class SystemClock:
    """The machine's own clock."""

    __slots__ = ()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


def rfc3339(moment: datetime) -> str:
    """`2026-01-02T03:04:05.678Z`: UTC, milliseconds (cut, not rounded). A time without a zone is a ValueError."""
    if moment.tzinfo is None:
        raise ValueError(
            "the time has no zone, so it is no point in time; pass an aware datetime, such as Clock.now()"
        )
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="milliseconds")[:-6] + "Z"


def parse_rfc3339(text: str) -> datetime:
    """The moment that an RFC 3339 text names, in UTC. ValueError where it is none or has no zone."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no zone; write it like 2026-01-02T03:04:05.678Z")
    return moment.astimezone(UTC)
