"""sys.stdout and sys.stderr: real files over real descriptors, that lose nothing and know who prints."""

from __future__ import annotations

import contextlib
import ctypes
import io
import sys
from collections.abc import Callable, Sequence
from typing import Any

from .interrupts import Interrupts
from .link import Link
from .origin import origin
from .own import _thread, mmap, os
from .pipes import Pipe
from .printed import SLICE_BYTES, SPILL_BYTES, Buffer, Printed

REGION_BYTES = 1 << 20
"""Of the memory that each stream has for what is printed and not yet handed on."""
FRAGMENT_CHARS = 4_096
_write = io.TextIOWrapper.write


class Stream(io.TextIOWrapper):
    """A text file over descriptor 1 or 2. All that is printed goes through the `write` that is put in front of it."""

    def __init__(self, printed: Printed) -> None:
        self.printed = printed
        printed.closed = False
        memory: Any = printed
        super().__init__(memory, encoding="utf-8", errors="backslashreplace")
        self._CHUNK_SIZE = 1  # nothing stays in the file itself
        self._buffer = Buffer(printed)
        self.plain = True
        """Whether it is as it was made; the user's code may have asked for another encoding."""
        self._over = False

    @property
    def buffer(self) -> Any:
        return self._buffer

    def detach(self) -> Any:
        self.front(None)
        super().detach()
        return self._buffer

    def close(self) -> None:
        """Once only: a finalizer does it again, when what is printed has another file already."""
        if not self._over:
            self._over = True
            self.front(None)
            super().close()

    def retire(self) -> None:
        """It has a successor, which nothing that becomes of it may close."""
        self._over = True

    def reconfigure(self, **how: Any) -> None:
        self.plain = False
        super().reconfigure(**how)

    def front(self, write: Callable[[str], int] | None) -> None:
        """Have `write` called in place of our own."""
        if write is None:
            self.__dict__.pop("write", None)
        else:
            self.__dict__["write"] = write

    def put(self, text: str) -> int:
        """Write; the lock is held. ValueError where it is closed or detached, whoever has put a `write` in front since."""
        if self.plain and type(text) is str:
            if self.closed:
                raise ValueError("I/O operation on closed file.")
            self.printed.append(text.encode("utf-8", "backslashreplace"))
            return len(text)
        count = _write(self, text)
        if self.printed.full:
            self.printed.spill()
        return count

    @property
    def usable(self) -> bool:
        """Whether the user's code has neither closed nor detached it."""
        try:
            return not self.closed
        except ValueError:
            return False


class Streams:
    """Both streams, and whose text what is printed is."""

    def __init__(self, interrupts: Interrupts, pipes: Sequence[Pipe], memory: int) -> None:
        """`memory`: a descriptor of twice REGION_BYTES, which the service has, too."""
        self.current = ""
        """The execution that runs: its text goes down the pipes. Any other's goes as messages that name it."""
        self.careful = False
        self.lock: Any = _thread.RLock()
        self.pipes = pipes
        self.printed = [Printed(memory, REGION_BYTES, offset=at) for at in (0, REGION_BYTES)]
        for printed, pipe, name in zip(self.printed, self.pipes, ("<stdout>", "<stderr>")):
            printed.belong(pipe, name, interrupts, self.lock)
        self._link: Link | None = None
        self._pid = os.getpid()
        self._error_open = False
        self._fragments: dict[tuple[int, str, str], str] = {}
        self._make()

    def _make(self) -> None:
        self.out, self.err = Stream(self.printed[0]), Stream(self.printed[1])
        sys.stdout = sys.__stdout__ = self.out  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = self.err  # type: ignore[misc]
        self.fresh()

    def attach(self, link: Link) -> None:
        self._link = link
        for printed in self.printed:
            printed.before = link.send_waiting

    def start_marks(self, mark: bytes) -> None:
        """`mark` is what each mark begins with."""
        for printed in self.printed:
            printed.mark = mark

    def begin(self, parent: str) -> None:
        """An execution is about to run; what an earlier one has broken is made whole."""
        self.heal()
        self.current = parent
        self.fresh()

    def heal(self) -> None:
        """Give back what the user's code has closed, deleted or detached; what it has replaced is left."""
        for pipe in self.pipes:
            pipe.heal()
        out, err = self.out, self.err
        if not (out.usable and err.usable):
            out.retire()
            err.retire()
            self._make()
        for name, before, now in (("stdout", out, self.out), ("stderr", err, self.err)):
            theirs = getattr(sys, name, None)
            if theirs is before or _unusable(theirs):
                setattr(sys, name, now)

    # who writes

    def fresh(self) -> None:
        """After a silence the next line is handed on at once."""
        if self.careful:
            self._front(self.out, "stdout", self._write_careful)
            self._front(self.err, "stderr", self._write_careful)
        else:
            self._front(self.out, "stdout", self._write_first)
            self._front(self.err, "stderr", self._write_error)

    def be_careful(self, careful: bool = True) -> None:
        """Somebody else than the running execution may print: look at each write."""
        if careful != self.careful:
            self.careful = careful
            self.fresh()

    @staticmethod
    def _front(stream: Stream, name: str, write: Callable[[Stream, str, str], int]) -> None:
        stream.front(lambda text: write(stream, name, text))

    def _write_first(self, stream: Stream, name: str, text: str) -> int:
        with self.lock:
            if self._error_open:
                self._close_error()
            count = stream.put(text)
        if text.endswith("\n"):
            stream.front(_in_bulk(stream, self._write_first))
            stream.printed.spill()
        return count

    def _write_error(self, stream: Stream, name: str, text: str) -> int:
        """Rare enough to keep its place among what goes to stdout."""
        with self.lock:
            if not self._error_open:
                self.printed[0].spill()
            count = stream.put(text)
            self._error_open = True
            if text.endswith("\n"):
                self._close_error()
            elif not self.careful:
                self._front(self.out, "stdout", self._write_first)
        return count

    def _close_error(self) -> None:
        """What was written to stderr goes out before anything else is written to stdout."""
        self._error_open = False
        self.printed[1].spill()
        if self._link is not None:
            self._link.mark()

    def _write_careful(self, stream: Stream, name: str, text: str) -> int:
        who = origin.get()
        if who and who != self.current and os.getpid() == self._pid and isinstance(text, str):
            if stream.closed:
                raise ValueError("I/O operation on closed file.")
            self._write_late(name, who, text)
            return len(text)
        if name == "stderr":
            return self._write_error(stream, name, text)
        with self.lock:
            if self._error_open:
                self._close_error()
            return stream.put(text)

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
        """Hand on what has been printed; an interrupt waits."""
        for printed in self.printed:
            printed.spill_quietly()

    def hand_on(self) -> None:
        """All there is, before something happens that is out of our hands."""
        self.flush()
        if self._link is not None:
            self._link.send_waiting()

    def flush_theirs(self) -> None:
        """At the end of an execution: what stands in a replacement may have been meant for us."""
        for stream in (getattr(sys, "stdout", None), getattr(sys, "stderr", None)):
            if stream is not None and stream is not self.out and stream is not self.err:
                with contextlib.suppress(Exception):  # whatever it is, it is the user's
                    stream.flush()

    def flush_some(self) -> None:
        """Called by the helper thread every few hundredths of a second, which must not wait for the reader."""
        if self._link is not None:
            self._link.send_waiting()
        if not self.printed[0].spill_some() and not self.careful:
            self._front(self.out, "stdout", self._write_first)
        self.printed[1].spill_some()

    def in_fork(self) -> None:
        """In a child of the user's: it has memory of its own for what it prints, and hands on each line."""
        self.lock = _thread.RLock()  # another thread of the parent's may have held it
        for printed, stream in zip(self.printed, (self.out, self.err)):
            _make_private(printed)
            printed.in_fork(self.lock)
            stream.front(lambda text, stream=stream: _write_through(stream, text))  # type: ignore[misc]

    def reopen(self) -> None:
        """Descriptors 1 and 2 are other pipes by now."""
        for pipe in self.pipes:
            pipe.reopen()


def _in_bulk(stream: Stream, otherwise: Callable[[Stream, str, str], int]) -> Callable[[str], int]:
    """The quick way, for a single thread that prints much: each write of it is one step that no other thread sees half."""
    printed, encode = stream.printed, str.encode
    write, tell = mmap.mmap.write.__get__(printed), printed.tell

    def write_more(text: str) -> int:
        try:
            data = encode(text, "utf-8", "backslashreplace")
        except TypeError:
            return _write(stream, text)  # which says so in its own words
        if len(data) > SLICE_BYTES or printed.aside is not None or not stream.plain:
            return otherwise(stream, "stdout", text)
        write(data)
        if tell() > SPILL_BYTES:
            printed.spill()
        return len(text)

    return write_more


def _write_through(stream: Stream, text: str) -> int:
    count = stream.put(text)
    if text.endswith("\n"):
        stream.printed.spill_quietly()
    return count


def _make_private(memory: mmap.mmap) -> None:
    """In a fork: the same addresses, but nobody else's, and empty."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    fixed = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10  # MAP_FIXED, the same on every architecture of Linux
    made = library.mmap(address, len(memory), mmap.PROT_READ | mmap.PROT_WRITE, fixed, -1, 0)
    if made != address:
        os._exit(1)  # it would write into its parent's text


def _unusable(stream: Any) -> bool:
    try:
        return stream is None or bool(getattr(stream, "closed", False)) or not hasattr(stream, "write")
    except (
        BaseException
    ):  # a text file whose buffer was taken away, or whatever else the user's code has put there
        return True
