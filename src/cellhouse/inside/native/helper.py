"""The one thread of our own: what has to happen while the user's code has the main thread."""

from __future__ import annotations

from .interrupts import AGAIN_SECONDS, Interrupts
from .own import _thread, traceback
from .streams import Streams

FLUSH_SECONDS = 0.03
PARK_TICKS = 30
"""It sleeps after so many ticks in which nothing ran."""


class Helper:
    """Hands on what is printed while a cell runs in good time, and delivers interrupts that were put off."""

    def __init__(self, interrupts: Interrupts, streams: Streams) -> None:
        self._interrupts, self._streams = interrupts, streams
        self._parked = False  # nor started
        self._idle = 0
        self._gate = _thread.allocate_lock()
        self._pause = _thread.allocate_lock()

    def start(self) -> None:
        self._gate.acquire()
        self._pause.acquire()
        _thread.start_new_thread(self._run, ())

    def wake(self) -> None:
        """A cell begins."""
        self._idle = 0
        if self._parked:
            self._parked = False
            self._gate.release()

    def _run(self) -> None:
        interrupts, streams = self._interrupts, self._streams
        while True:
            if self._idle > PARK_TICKS:
                self._parked = True
                self._gate.acquire()
            again = interrupts.again()
            self._pause.acquire(timeout=AGAIN_SECONDS if again else FLUSH_SECONDS)
            self._idle = 0 if interrupts.running or streams.careful else self._idle + 1
            try:
                streams.flush_late()
                streams.flush_some()
            except Exception:
                traceback.print_exc(file=streams.err)
