"""What a client waits for, how often it tries again, and how much it takes: each with its name and default."""

import random
from dataclasses import dataclass, fields
from typing import Final

from cellhouse.model import MIB, InvalidArgument

MAX_ATTEMPTS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Timeouts:
    """In seconds. None of them ends what runs: how long code may run is `execution_timeout` of its request."""

    # Until there is a connection.
    connect: float = 10.0
    # Until some bytes of a request are taken.
    write: float = 60.0
    # Until an answer begins, and from each piece of it to the next.
    read: float = 60.0
    # The same for calls that start or end a runtime or a kernel, and for a file's digest to be made.
    start: float = 300.0
    # From each piece of an event stream to the next; a service gives a sign of life every 15 s.
    idle: float = 45.0
    # Until one of the connections is free.
    pool: float = 30.0

    def __post_init__(self) -> None:
        _positive(self)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How a call that did not get through is repeated: after about `first`, twice that, … at most `longest` seconds.

    Each wait is drawn between half of that and the whole. It is given up after `attempts` in a row without any progress,
    or `total` seconds without any; `first_contact` seconds for a service that has never answered this client yet.
    """

    attempts: int = 12
    first: float = 0.1
    longest: float = 5.0
    total: float = 60.0
    first_contact: float = 3.0

    def __post_init__(self) -> None:
        _positive(self)
        if self.attempts > MAX_ATTEMPTS:
            raise InvalidArgument.of_field("attempts", f"takes at most {MAX_ATTEMPTS}")

    def wait(self, failures: int, rng: random.Random) -> float:
        """Seconds to wait after so many failures in a row, the first one being 1."""
        most = min(self.longest, self.first * 2.0 ** min(failures - 1, 64))
        return most * rng.uniform(0.5, 1.0)


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """What a client takes of what a service sends, and how much it holds."""

    # Bytes of one JSON answer.
    document_bytes: int = 64 * MIB
    # Bytes of one event, `finished` with its result included.
    event_bytes: int = 64 * MIB
    # Bytes of one rich output: its bundle, or one representation.
    output_bytes: int = 192 * MIB
    # Connections that are open, streams included.
    connections: int = 100
    # Streams that answered an `execute` and that nobody has begun to read.
    unread_streams: int = 16

    def __post_init__(self) -> None:
        _positive(self)


def _positive(settings: Timeouts | RetryPolicy | ClientLimits) -> None:
    for field in fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise InvalidArgument.of_field(field.name, f"{value!r} is no such number; it takes one above 0")
