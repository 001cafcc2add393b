"""Updates of displays, gathered: each display is written so often a second at most, and in the end its last state."""

import heapq
from collections.abc import Callable
from typing import Final

from cellhouse.capture.bundle import Bundle
from cellhouse.capture.displays import Display
from cellhouse.model import CaptureLimits, Clock

AT_ONCE_BYTES: Final = 1024 * 1024
"""A bigger bundle is not held: it is written at once."""
WAITING_BYTES: Final = 16 * 1024 * 1024
"""What may wait in all; past it the longest waiting is written early."""


class Updates:
    """Holds the newest state of each display until it may be written."""

    __slots__ = ("_bytes", "_clock", "_heap", "_limits", "_order", "_waiting", "_write")

    def __init__(self, limits: CaptureLimits, clock: Clock, write: Callable[[Display, Bundle], None]) -> None:
        self._limits = limits
        self._clock = clock
        self._write = write
        self._waiting: dict[Display, Bundle] = {}  # the longest waiting first
        self._bytes = 0
        self._heap: list[tuple[float, int, Display]] = []
        self._order = 0

    def put(self, display: Display, bundle: Bundle) -> None:
        self._forget(display)
        due = display.last_write + self._limits.update_seconds
        if bundle.size > AT_ONCE_BYTES or due <= self._clock.monotonic():
            self._now(display, bundle)
            return
        bundle.detach()
        self._waiting[display] = bundle
        self._bytes += bundle.size
        self._order += 1
        heapq.heappush(self._heap, (due, self._order, display))
        if len(self._heap) > 2 * len(self._waiting) + 16:
            self._tidy()
        while self._bytes > WAITING_BYTES:
            self._now(*self._take(next(iter(self._waiting))))

    def next_due(self) -> float | None:
        """When the next write is due."""
        while self._heap and self._heap[0][2] not in self._waiting:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run_due(self) -> None:
        now = self._clock.monotonic()
        while (due := self.next_due()) is not None and due <= now:
            self._now(*self._take(heapq.heappop(self._heap)[2]))

    def flush(self) -> None:
        """Writes every last state."""
        while self._waiting:
            self._now(*self._take(next(iter(self._waiting))))
        self._heap.clear()

    def _take(self, display: Display) -> tuple[Display, Bundle]:
        bundle = self._waiting.pop(display)
        self._bytes -= bundle.size
        return display, bundle

    def _forget(self, display: Display) -> None:
        if display in self._waiting:
            self._take(display)

    def _tidy(self) -> None:
        """Drops what is in the heap for states that were replaced."""
        first: dict[Display, tuple[float, int, Display]] = {}
        for entry in self._heap:
            if entry[2] in self._waiting:
                first[entry[2]] = min(entry, first.get(entry[2], entry))
        self._heap = list(first.values())
        heapq.heapify(self._heap)

    def _now(self, display: Display, bundle: Bundle) -> None:
        display.last_write = self._clock.monotonic()
        self._write(display, bundle)
