"""Processes that the user's code starts: our text comes before theirs, and who started one is remembered."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

# These run no hooks of os.register_at_fork.
STARTS = (
    "_posixsubprocess.fork_exec",
    "subprocess._fork_exec",
    "os.posix_spawn",
    "os.posix_spawnp",
    "os.system",
)
ENDS = ("os._exit", "os.abort", "os.execv", "os.execve", "os.kill", "os.killpg", "signal.raise_signal")
"""What may end this process on the spot."""


class Children:
    """Knows whether the running execution may have left processes that still hold descriptors 1 and 2."""

    def __init__(self, flush: Callable[[], None], in_fork: Callable[[], None]) -> None:
        """`flush` hands on what is printed so far; `in_fork` is called in a child that goes on with the user's code."""
        self.started = False
        self._flush = flush
        self._in_fork = in_fork
        self._quiet = False

    def watch(self) -> None:
        """From now on, see each start of a process that Python code can make."""
        os.register_at_fork(before=self._before, after_in_child=self._after_in_child)
        for names, announce in ((STARTS, self._before), (ENDS, self._flush)):
            for name in names:
                module, _, attribute = name.rpartition(".")
                owner = importlib.import_module(module)
                function = getattr(owner, attribute, None)
                if function is not None:
                    setattr(owner, attribute, _after(announce, function, module))

    def unseen(self) -> _Unseen:
        """A context for forks of our own."""
        return _Unseen(self)

    def _before(self) -> None:
        if not self._quiet:
            self.started = True
            self._flush()

    def _after_in_child(self) -> None:
        if not self._quiet:
            self._in_fork()


def end_fork_server() -> None:
    """End the server that multiprocessing forks from, which has another execution's pipes; it is started again when needed.

    Python 3.14 forks from it unless told otherwise. While children of it live it stays, for it tells how they end: what
    is forked from it then prints where those do. May take as long as that process likes.
    """
    module: Any = sys.modules.get("multiprocessing.forkserver")
    server = getattr(module, "_forkserver", None)
    stop = getattr(server, "_stop", None)
    if stop is not None and getattr(server, "_forkserver_pid", None):
        import multiprocessing  # it is there

        if not multiprocessing.active_children():
            stop()


def _after(announce: Callable[[], None], function: Callable[..., Any], module: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def announced(*args: Any, **kwargs: Any) -> Any:
        announce()
        return function(*args, **kwargs)

    announced.__module__ = module  # where pickle looks for it
    return announced


class _Unseen:
    def __init__(self, children: Children) -> None:
        self._children = children

    def __enter__(self) -> None:
        self._children._quiet = True

    def __exit__(self, *_: object) -> None:
        self._children._quiet = False
