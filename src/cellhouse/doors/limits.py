"""Every limit of the service's doors, with its name and its default. Those of runtimes and executions are the house's."""

from dataclasses import dataclass
from typing import Final

from cellhouse.model import GIB, KIB, MIB


@dataclass(frozen=True, slots=True)
class DoorLimits:
    """What one caller may take up. Counts and rates are those of one tenant where nothing else is said."""

    # Bytes of a body that is JSON. Code of 4 MiB fits, escapes and all, unless most of it is control characters.
    body_bytes: int = 16 * MIB
    # Bytes of all JSON bodies that are being read.
    bodies_bytes: int = 256 * MIB
    # Bytes of one uploaded file.
    file_bytes: int = 4 * GIB
    # Requests in a second, and how many may come at once after a silence.
    requests_per_second: float = 1_000.0
    burst: int = 2_000
    # Requests that are being answered, streams and waiting calls included.
    max_requests: int = 4_096
    # Streams of events that are open.
    max_streams: int = 2_048
    # Of the whole service: what is left to other tenants is at least the difference.
    max_all_requests: int = 8_192
    # Bytes of an event stream that are read ahead of a slow reader, besides one event and the socket's own buffer.
    stream_page_bytes: int = 256 * KIB
    # A stream says that it lives so often while there is nothing to tell.
    heartbeat_seconds: float = 15.0
    # A reader that takes nothing for so long is cut off; it reads on from the number it had.
    stall_seconds: float = 300.0
    # How long what is open outlives its token, once that is revoked or has expired.
    recheck_seconds: float = 5.0
    # A body has to go on within so long, a request's head has to be there.
    body_seconds: float = 60.0
    head_seconds: float = 30.0
    # Between two requests of one connection.
    keep_alive_seconds: int = 75
    # From SIGTERM to the interrupts, and from there to the end.
    drain_seconds: float = 30.0
    grace_seconds: float = 10.0


HEAD_BYTES: Final = 64 * KIB
"""Of a request's line and headers."""
