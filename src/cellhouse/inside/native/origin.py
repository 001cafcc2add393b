"""Which execution started what: carried through tasks by their context, through threads and executors by us."""

from __future__ import annotations

import _thread
import concurrent.futures.thread
import sys
import threading
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any

origin: ContextVar[str] = ContextVar("cellhouse_origin", default="")
"""The msg_id of the execution whose code runs in this context; empty where there is none."""


def carry(on_thread: Callable[[], None]) -> None:
    """From now on whatever starts a thread or hands work to a pool of them hands its origin on.

    `on_thread` is called before a thread starts. Only what there is of the standard library's internals is used.
    """
    start_new_thread = _thread.start_new_thread

    def start(function: Any, *args: Any, **kwargs: Any) -> int:
        on_thread()
        # Positional in every release of Python 3: function, args[, kwargs].
        return start_new_thread(_of(origin.get(), function), *args, **kwargs)

    _thread.start_new_thread = start
    _thread.start_new = start
    if getattr(threading, "_start_new_thread", None) is start_new_thread:
        threading._start_new_thread = start  # type: ignore[attr-defined]
    joinable = getattr(threading, "_start_joinable_thread", None)
    if joinable is not None:

        def start_joinable(function: Any, *args: Any, **kwargs: Any) -> Any:
            on_thread()
            return joinable(_of(origin.get(), function), *args, **kwargs)

        threading._start_joinable_thread = start_joinable  # type: ignore[attr-defined]

    if hasattr(threading.Thread(), "_context"):  # from Python 3.14 on, a thread runs in a context of its own
        start_thread = threading.Thread.start

        def start_in_context(self: Any) -> None:
            if self._context is None:
                self._context = (
                    copy_context() if getattr(sys.flags, "thread_inherit_context", False) else Context()
                )
                self._context.run(origin.set, origin.get())
            start_thread(self)

        threading.Thread.start = start_in_context  # type: ignore[method-assign]

    work: Any = getattr(concurrent.futures.thread, "_WorkItem", None)
    if work is not None:
        _carry_through_pool(work)


def _of(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        origin.set(name)  # a thread begins with an empty context, and ends with it
        return function(*args, **kwargs)

    return run


def _carry_through_pool(work: Any) -> None:
    """A worker thread outlives the execution that started it: each piece of work has the origin of who handed it in."""
    init, run = work.__init__, work.run
    names = "_cellhouse_origin"

    def init_with_origin(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        setattr(self, names, origin.get())

    def run_with_origin(self: Any, *args: Any, **kwargs: Any) -> Any:
        token = origin.set(getattr(self, names, ""))
        try:
            return run(self, *args, **kwargs)
        finally:
            origin.reset(token)

    if "__slots__" not in vars(work):
        work.__init__, work.run = init_with_origin, run_with_origin
