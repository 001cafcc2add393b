"""sys.stdout and sys.stderr: real files over real descriptors, that lose nothing and know who prints."""

from __future__ import annotations

import _thread
import contextlib
import io
import os
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


class _Raw(io.RawIOBase):
    """What a buffered writer writes to: the pipe, or whatever the user's code has put in the descriptor's place."""

    def __init__(self, pipe: Pipe, name: str, interrupts: Interrupts) -> None:
        self.name = name
        self.pipe = pipe
        self.impatient = 0
        """Ident of a thread that must not wait for the reader now."""
        self._interrupts = interrupts
        self._pid = os.getpid()

    def fileno(self) -> int:
        return self.pipe.number

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int | None:
        size = len(data)
        self.pipe.written += size
        if os.getpid() != self._pid or self.pipe.redirected:
            return os.write(self.pipe.number, data)
        if self.impatient == _thread.get_ident():
            return self.pipe.write_some(data)
        interrupts = self._interrupts
        interrupts.enter()
        try:
            self.pipe.write(data)
        finally:
            # Not raised here: what is between this and the user's code would lose the text it has in its hands.
            interrupts.leave()
        return size


class Stream(io.TextIOWrapper):
    """Buffered, and in the plain case as quick as any file: what has to be looked at is looked at by a `write` that is put
    in front for as long as it is needed."""

    def __init__(self, pipe: Pipe, name: str, interrupts: Interrupts) -> None:
        self._raw = _Raw(pipe, f"<{name}>", interrupts)
        super().__init__(
            io.BufferedWriter(self._raw, BUFFER_BYTES), encoding="utf-8", errors="backslashreplace"
        )

    def front(self, write: Callable[[str], int] | None) -> None:
        """Have `write` called in place of our own."""
        if write is None:
            self.__dict__.pop("write", None)
        else:
            self.__dict__["write"] = write

    @property
    def fronted(self) -> bool:
        return "write" in self.__dict__

    def write_plainly(self, text: str) -> int:
        return _write(self, text)

    def flush_some(self) -> bool:
        """Called by the helper thread: hand on what is buffered unless nobody reads; whether there was anything."""
        raw = self._raw
        before = raw.pipe.written
        raw.impatient = _thread.get_ident()
        try:
            # The inner one keeps what it can't write. The outer one would not, so it is asked once there is room.
            self.buffer.flush()
        except BlockingIOError:
            return True
        finally:
            raw.impatient = 0
        self.flush()
        return raw.pipe.written != before


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
        self._lock = _thread.RLock() if hasattr(_thread, "RLock") else _thread.allocate_lock()
        self._error_open = False
        self._fragments: dict[tuple[int, str, str], str] = {}
        self._make()

    def _make(self) -> None:
        out, err = (
            Stream(pipe, name, self._interrupts) for pipe, name in zip(self.pipes, ("stdout", "stderr"))
        )
        self.out, self.err = out, err
        sys.stdout = sys.__stdout__ = out  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = err  # type: ignore[misc]

    def attach(self, link: Link) -> None:
        self._link = link

    def begin(self, parent: str) -> None:
        """An execution is about to run; what an earlier one has broken is made whole."""
        for pipe in self.pipes:
            pipe.heal()
        out, err = self.out, self.err
        if out.closed or err.closed or _detached(out) or _detached(err):
            self._make()
        if _unusable(sys.stdout) or sys.stdout is out:
            sys.stdout = self.out
        if _unusable(sys.stderr) or sys.stderr is err:
            sys.stderr = self.err
        self.current = parent
        self.fresh()

    def fresh(self) -> None:
        """After a silence, the next line is handed on at once."""
        self._front(self.out, "stdout", self._write_careful if self.careful else self._write_first)
        self._front(self.err, "stderr", self._write_careful if self.careful else self._write_error)

    @staticmethod
    def _front(stream: Stream, name: str, write: Callable[[Stream, str, str], int]) -> None:
        stream.front(lambda text: write(stream, name, text))

    def be_careful(self, careful: bool = True) -> None:
        """Somebody else than the running execution may print: look at each write, one thread at a time.

        (A text file's `write` is not safe for threads before CPython 3.12.4.)
        """
        if careful != self.careful:
            self.careful = careful
            self.fresh()

    def _write_first(self, stream: Stream, name: str, text: str) -> int:
        if self._error_open:
            self._close_error()
        count = stream.write_plainly(text)
        if text.endswith("\n"):
            stream.front(None)
            stream.flush()
        return count

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
            self._front(self.out, "stdout", self._write_first)  # which comes after this, then
        return count

    def _close_error(self) -> None:
        """What was written to stderr goes out, before anything else is written to stdout."""
        self._error_open = False
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
            count = stream.write_plainly(text)
            if text.endswith("\n"):
                stream.flush()
            return count

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
        """Hand on what is buffered, the user's own replacements included."""
        for stream in (self.out, self.err):
            with contextlib.suppress(ValueError, OSError):  # closed, or not ours any more
                stream.flush()

    def flush_theirs(self) -> None:
        """At the end of an execution: what stands in a replacement may have been meant for us."""
        for stream in (sys.stdout, sys.stderr):
            if stream is not self.out and stream is not self.err:
                with contextlib.suppress(Exception):
                    stream.flush()

    def flush_some(self) -> None:
        """Called by the helper thread every few hundredths of a second while something may be printed."""
        for stream in (self.out, self.err):
            with contextlib.suppress(ValueError, OSError):
                if not stream.flush_some() and not stream.fronted:
                    self.fresh()

    def in_fork(self) -> None:
        """In a child of the user's: it may end without notice, so nothing is held back."""
        for stream in (self.out, self.err):
            stream.front(None)
            with contextlib.suppress(ValueError):
                stream.reconfigure(line_buffering=True, write_through=True)

    def reopen(self) -> None:
        """Descriptors 1 and 2 are other pipes by now."""
        for pipe in self.pipes:
            pipe.reopen()


def _detached(stream: Stream) -> bool:
    try:
        return stream.buffer is None
    except ValueError:
        return True


def _unusable(stream: Any) -> bool:
    return stream is None or bool(getattr(stream, "closed", False)) or not hasattr(stream, "write")
