"""SIGTERM and SIGHUP: whoever ends this program ends the code in it first, so that its end is on record."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self

GRACE_SECONDS: Final = 5.0
"""From the interrupt to the end of the session, for code that heeds none."""

Ask = Callable[[], Awaitable[object]]


class Signals:
    """A context manager of the main task. `received` is the first such signal, by which the exit status is told.

    Before the code runs it cancels the task; while it runs (`watching`), it is interrupted, and after
    `GRACE_SECONDS`, or on a second signal, its session is ended. Once it has ended, a signal changes nothing but the exit
    status: closing a house is not broken off.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._interrupt: Ask | None = None
        self._end: Ask | None = None
        self._over = False
        self._timer: asyncio.TimerHandle | None = None
        self._asked: set[asyncio.Future[object]] = set()
        self._handled: list[signal.Signals] = []

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
                self._loop.add_signal_handler(number, self._on_signal, number)
                self._handled.append(number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.done()
        for number in self._handled:
            self._loop.remove_signal_handler(number)

    @property
    def status(self) -> int | None:
        """The exit status of a program that ended by this signal, as shells tell it."""
        return None if self.received is None else 128 + self.received

    def watching(self, interrupt: Ask, end: Ask) -> None:
        """From here on the code runs: how it is interrupted, and how it is ended."""
        self._interrupt, self._end = interrupt, end

    def done(self) -> None:
        """From here on there is nothing to interrupt."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()

    def _on_signal(self, number: signal.Signals) -> None:
        first, self.received = self.received is None, self.received or number
        if self._over:
            return
        if self._interrupt is None or self._end is None:
            if first and self._task is not None:
                self._task.cancel()
        elif first:
            self._ask(self._interrupt)
            self._timer = self._loop.call_later(GRACE_SECONDS, self._ask, self._end)
        else:
            self._ask(self._end)

    def _ask(self, what: Ask) -> None:
        asked = asyncio.ensure_future(what())
        self._asked.add(asked)
        asked.add_done_callback(self._asked.discard)
