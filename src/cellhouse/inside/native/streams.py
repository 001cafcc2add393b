"""sys.stdout and sys.stderr: real files over real descriptors, that lose nothing and know who prints."""

from __future__ import annotations

import _thread
import contextlib
import io
import os
import select
import sys
from collections.abc import Callable
from typing import Any

from .interrupts import Interrupts
from .link import Link
from .origin import origin
from .pipes import Pipe

BUFFER_BYTES = 65_536
FRAGMENT_CHARS = 4_096
_write = io.TextIOWrapper.write


class Stream(io.TextIOWrapper):
    """A text file over descriptor 1 or 2 that writes each line through when it ends: no death can take it back.

    It is as quick as any file of Python's: what has to be looked at is looked at by a `write` that is put in front for
    as long as it is needed.
    """

    def __init__(self, number: int, name: str) -> None:
        raw = io.FileIO(number, "w", closefd=False)
        raw.name = f"<{name}>"
        super().__init__(
            io.BufferedWriter(raw, BUFFER_BYTES),
            encoding="utf-8",
            errors="backslashreplace",
            line_buffering=True,
        )

    def front(self, write: Callable[[str], int] | None) -> None:
        """Have `write` called in place of our own."""
        if write is None:
            self.__dict__.pop("write", None)
        else:
            self.__dict__["write"] = write

    def write_plainly(self, text: str) -> int:
        return _write(self, text)

    @property
    def usable(self) -> bool:
        """Whether the user's code has neither closed nor detached it."""
        try:
            buffer: Any = self.buffer  # None or an error after `detach`
            return buffer is not None and not self.closed
        except ValueError:
            return False


class Streams:
    """Both streams, and whose text what is printed is."""

    def __init__(self, interrupts: Interrupts) -> None:
        self.current = ""
        """The execution that runs: its text goes down the pipes. Any other's goes as messages that name it."""
        self.careful = False
        self.pipes = [Pipe(number, interrupts) for number in (1, 2)]
        self._interrupts = interrupts
        self._link: Link | None = None
        self._pid = os.getpid()
        self._lock: Any = _thread.RLock()
        self._error_open = False
        self._fragments: dict[tuple[int, str, str], str] = {}
        self._make()

    def _make(self) -> None:
        self.out, self.err = Stream(1, "stdout"), Stream(2, "stderr")
        sys.stdout = sys.__stdout__ = self.out  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = self.err  # type: ignore[misc]
        self._put_in_front()

    def attach(self, link: Link) -> None:
        self._link = link

    def begin(self, parent: str) -> None:
        """An execution is about to run; what an earlier one has broken is made whole."""
        self.heal()
        self.current = parent

    def heal(self) -> None:
        """Give back what the user's code has closed, deleted or detached; what it has replaced is left."""
        for pipe in self.pipes:
            pipe.heal()
        out, err = self.out, self.err
        if not (out.usable and err.usable):
            self._make()
        for name, before, now in (("stdout", out, self.out), ("stderr", err, self.err)):
            theirs = getattr(sys, name, None)
            if theirs is before or _unusable(theirs):
                setattr(sys, name, now)

    # who writes

    def be_careful(self, careful: bool = True) -> None:
        """Somebody else than the running execution may print: look at each write, one thread at a time.

        (A text file's `write` is not safe for threads before CPython 3.12.4.)
        """
        if careful != self.careful:
            self.careful = careful
            self._put_in_front()

    def _put_in_front(self) -> None:
        careful = self.careful
        self._front(self.out, "stdout", self._write_careful if careful else None)
        self._front(self.err, "stderr", self._write_careful if careful else self._write_error)

    @staticmethod
    def _front(stream: Stream, name: str, write: Callable[[Stream, str, str], int] | None) -> None:
        stream.front(None if write is None else lambda text: write(stream, name, text))

    def _write_output(self, stream: Stream, name: str, text: str) -> int:
        """The first after something on stderr that has not ended its line."""
        self._close_error()
        return stream.write_plainly(text)

    def _write_error(self, stream: Stream, name: str, text: str) -> int:
        """Rare enough to keep its place among what goes to stdout."""
        if not self._error_open:
            with contextlib.suppress(ValueError):
                self.out.flush()
        count = stream.write_plainly(text)
        self._error_open = True
        if text.endswith("\n"):
            self._close_error()
        elif not self.careful:
            self._front(self.out, "stdout", self._write_output)
        return count

    def _close_error(self) -> None:
        """What was written to stderr goes out before anything else is written to stdout."""
        self._error_open = False
        if not self.careful:
            self.out.front(None)
        with contextlib.suppress(ValueError):
            self.err.flush()
        if self._link is not None:
            self._link.mark()

    def _write_careful(self, stream: Stream, name: str, text: str) -> int:
        who = origin.get()
        if who and who != self.current and os.getpid() == self._pid and isinstance(text, str):
            if stream.closed:
                raise ValueError("I/O operation on closed file.")
            self._write_late(name, who, text)
            return len(text)
        with self._lock:
            if name == "stderr":
                return self._write_error(stream, name, text)
            if self._error_open:
                self._close_error()
            return stream.write_plainly(text)

    # text of others than the running execution

    def _write_late(self, name: str, who: str, text: str) -> None:
        key = (_thread.get_ident(), name, who)
        text = self._fragments.pop(key, "") + text
        if text.endswith("\n") or len(text) > FRAGMENT_CHARS:
            self._send_late(name, who, text)
        else:
            self._fragments[key] = text

    def _send_late(self, name: str, who: str, text: str) -> None:
        if self._link is not None:
            self._link.send("stream", {"name": name, "text": text}, parent=who)

    def flush_late(self) -> None:
        """Lines that nobody has ended yet."""
        for key in list(self._fragments):
            text = self._fragments.pop(key, "")
            if text:
                self._send_late(key[1], key[2], text)

    # flushing

    def flush(self) -> None:
        """Hand on what is buffered: at most a line that has not ended."""
        for stream in (self.out, self.err):
            with contextlib.suppress(ValueError, OSError):  # closed
                stream.flush()

    def flush_theirs(self) -> None:
        """At the end of an execution: what stands in a replacement may have been meant for us."""
        for stream in (getattr(sys, "stdout", None), getattr(sys, "stderr", None)):
            if stream is not None and stream is not self.out and stream is not self.err:
                with contextlib.suppress(Exception):  # whatever it is, it is the user's
                    stream.flush()

    def flush_some(self) -> None:
        """Called by the helper thread, which must not wait: lines that have not ended, where somebody reads."""
        poll = select.poll()
        for pipe in self.pipes:
            poll.register(pipe.fd, select.POLLOUT)
        ready = {fd for fd, _ in poll.poll(0)}
        for stream, pipe in ((self.out, self.pipes[0]), (self.err, self.pipes[1])):
            if pipe.fd in ready:
                with contextlib.suppress(ValueError, OSError):
                    stream.flush()

    def in_fork(self) -> None:
        """In a child of the user's: it may end without notice, so nothing is held back."""
        for stream in (self.out, self.err):
            stream.front(None)
            with contextlib.suppress(ValueError):
                stream.reconfigure(write_through=True)

    def reopen(self) -> None:
        """Descriptors 1 and 2 are other pipes by now."""
        for pipe in self.pipes:
            pipe.reopen()


def _unusable(stream: Any) -> bool:
    try:
        return stream is None or bool(getattr(stream, "closed", False)) or not hasattr(stream, "write")
    except ValueError:  # a text file whose buffer was taken away
        return True
