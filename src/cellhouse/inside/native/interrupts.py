"""SIGINT: a KeyboardInterrupt lands in the user's code or nowhere, never in ours."""

from __future__ import annotations

import asyncio
import selectors
import signal as theirs
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from .own import _thread, signal

AGAIN_SECONDS = 0.001
LOOP_FILES = {
    function.__code__.co_filename
    for function in (
        asyncio.BaseEventLoop.run_forever,
        asyncio.SelectorEventLoop.add_reader,
        asyncio.AbstractEventLoop.run_forever,
        selectors.DefaultSelector.select,
    )
}
"""What an event loop is made from. It does not bear an exception in its own middle."""


class Interrupts:
    """Decides what becomes of a SIGINT. Python runs signal handlers in the main thread, between any two bytecodes.

    Between cells it is ignored. While our own code works for the user's (`with interrupts:`), it is put off until that
    is left. While a cell waits in the event loop, its task is cancelled.
    """

    def __init__(self) -> None:
        self.main = _thread.get_ident()
        self.running = False
        """True exactly while the user's code may be interrupted."""
        self.pending = False
        self.entries: set[CodeType] = {
            Interrupts.enter.__code__,
            Interrupts.leave.__code__,
            Interrupts.arrived.__code__,
            _PutOff.__call__.__code__,
        }
        """Code of ours at the border to the user's: what lands right there is put off, too."""
        self.task: asyncio.Task[Any] | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        """Where handlers of the user's are called that come while it waits."""
        self.asked = False
        """Whether the task was cancelled by us: its CancelledError then means KeyboardInterrupt."""
        self.depth = 0
        """Not 0 while our own code runs."""
        self._later: dict[int, Callable[..., Any]] = {}
        """Handlers of the user's that wait. One of a signal: as in Python itself, more of the same become one."""

    def put_off_handlers(self) -> None:
        """Handlers of the user's, too, are called in the user's code and not in the middle of ours."""
        set_handler, get_handler = signal.signal, signal.getsignal

        def setsignal(number: int, handler: Any) -> Any:
            if callable(handler) and handler != self.handle and not isinstance(handler, _PutOff):
                handler = _PutOff(self, handler)
            return _theirs(set_handler(number, handler))

        def getsignal(number: int) -> Any:
            return _theirs(get_handler(number))

        theirs.signal, theirs.getsignal = setsignal, getsignal  # type: ignore[assignment]

    def arrived(self, number: int, frame: FrameType | None, handler: Callable[..., Any]) -> None:
        """A signal with a handler of the user's."""
        if self.inside or (frame is not None and frame.f_code in self.entries):
            self._later[number] = handler
        elif frame is not None and frame.f_code.co_filename in LOOP_FILES and self.loop is not None:
            if number not in self._later:
                self._later[number] = handler
                self.loop.call_soon_threadsafe(self._call_later)
        else:
            handler(number, frame)

    def begin(self) -> None:
        """A cell is about to run."""
        self.pending = self.asked = False
        if signal.getsignal(signal.SIGINT) != self.handle:
            signal.signal(signal.SIGINT, self.handle)

    def enter(self) -> None:
        """What follows, up to `leave`, is not interrupted."""
        if _thread.get_ident() == self.main:
            self.depth += 1

    __enter__ = enter

    def __exit__(self, *_: object) -> None:
        if self.leave() and self.running:
            self.pending = False
            raise KeyboardInterrupt

    def leave(self) -> bool:
        """Leave without raising; whether an interrupt waits that the next look of `again` will deliver."""
        if _thread.get_ident() != self.main:
            return False
        self.depth -= 1
        if self._later and not self.depth:
            self._call_later()
        return self.pending and not self.depth

    def _call_later(self) -> None:
        """Handlers that were put off. What one of them prints may call the others in its middle."""
        for number in sorted(self._later):
            handler = self._later.pop(number, None)
            if handler is not None:
                handler(number, None)

    @property
    def inside(self) -> bool:
        """Whether this thread is in our own code, where no interrupt is raised."""
        return self.depth > 0 and _thread.get_ident() == self.main

    def deliver(self) -> None:
        """Raise what was put off, at a place where that does no harm."""
        if self.cut_short and not self.depth:
            self.pending = False
            raise KeyboardInterrupt

    @property
    def cut_short(self) -> bool:
        """Whether who waits in our own code for somebody else should stop waiting."""
        return self.pending and self.running and _thread.get_ident() == self.main

    def again(self) -> bool:
        """Called by the helper thread: deliver what was put off, by having the signal come once more."""
        again: list[int] = [signal.SIGINT] if self.pending and self.running else []
        if not self.depth:
            again += sorted(self._later)
        for number in again:
            # A real one: the main thread may be waiting in a system call by now, which has to be broken off.
            signal.pthread_kill(self.main, number)
        return bool(again)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The signal handler."""
        if not self.running:
            return
        if self.depth or (frame is not None and frame.f_code in self.entries):
            self.pending = True
            return
        task = self.task
        if task is not None and asyncio.current_task(task.get_loop()) is not task:
            # The cell waits, or another task runs: neither the loop nor that other one is what was meant.
            self.asked = True
            task.get_loop().call_soon_threadsafe(task.cancel)
            return
        self.pending = False
        raise KeyboardInterrupt


class _PutOff:
    """A handler of the user's, as the signal module gets it."""

    def __init__(self, interrupts: Interrupts, handler: Callable[..., Any]) -> None:
        self.interrupts, self.handler = interrupts, handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.interrupts.arrived(number, frame, self.handler)


def _theirs(handler: Any) -> Any:
    return handler.handler if isinstance(handler, _PutOff) else handler
