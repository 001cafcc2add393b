"""Starts ipykernel so that it loses nothing that it can be kept from losing; runs inside the walls.

Standard library and the kernel environment's ipykernel only. Each assumption about ipykernel or IPython
is checked where it is used: where it no longer holds, the kernel runs as it comes.
"""

import builtins
import contextlib
import functools
import importlib.util
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from collections import deque
from importlib import import_module
from typing import Any

STREAM_CHARS = 262_144
"""One stream message carries at most this much text, so that whoever reads it needs little memory."""
LONG_CHARS = 1_024
LONG_DATA_CHARS = 65_536
ESCAPED_CHARS = 65_536  # at once: so much stays in the processor's cache while it is searched
"""Printed text, and text of a display, from here on is written as JSON by a search for what needs an escape, and not
character by character."""
FLUSH_SECONDS = 0.05
FLUSHERS = frozenset({"ipykernel.displayhook", "ipykernel.kernelbase", "ipykernel.zmqshell"})
"""Modules that flush before each thing they say, only so that printed text comes before it."""
MOST_WAITING = 64
"""Messages that may wait for the publishing thread before who shows more of them waits, too."""


def main() -> None:
    """Start the kernel that the arguments (`-f connection_file`) describe; returns when it has ended."""
    # Python puts this file's directory first; a cell's imports must not see it, nor ours see the cell's.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") not in (here, os.getcwd())]
    layer = _module(os.path.join(here, "native", "layer.py"))
    root = layer.enter(os.environ.get("HOME", ""), os.getcwd())
    sys.modules["debugpy"] = None  # type: ignore[assignment]  # half of a start, and no debugger is offered
    warnings.filterwarnings("ignore", message="Message serialization failed")

    iostream = import_module("ipykernel.iostream")
    shell_class = import_module("IPython.core.interactiveshell").InteractiveShell
    _keep_no_printed_text(shell_class)
    _report_exception_groups(shell_class)
    _cut_stream_messages(iostream.OutStream)
    _flush_what_is_there(iostream.OutStream)
    _publish_in_order(iostream.OutStream)
    _send_at_once_in_its_thread(iostream.IOPubThread)
    _reply_to_interrupts(getattr(import_module("ipykernel.ipkernel"), "IPythonKernel", None))
    iostream.OutStream.flush_interval = FLUSH_SECONDS

    config = import_module("traitlets.config").Config()
    config.IPKernelApp.capture_fd_output = False  # the service reads descriptors 1 and 2 itself
    config.IPKernelApp.quiet = True
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    app = _app_that_drops_nothing().instance(config=config)
    app.initialize(sys.argv[1:])
    if root and getattr(app, "shell", None) is not None:
        layer.add_magic(app.shell, root)
    _pack_lone_surrogates(getattr(app, "session", None))
    _pack_long_text_quickly(getattr(app, "session", None))
    _number_what_is_sent(getattr(app, "session", None))
    app.start()


def _module(path: str) -> Any:
    """A file of ours, under a name that can't be the user's."""
    spec = importlib.util.spec_from_file_location("cellhouse_layer", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _app_that_drops_nothing() -> Any:
    """IPKernelApp with an iopub socket that holds the writer back when its queue is full (default: drop in silence)."""
    zmq = import_module("zmq")
    base: Any = import_module("ipykernel.kernelapp").IPKernelApp

    def bind_socket(self: Any, socket: Any, port: int) -> Any:
        if socket.socket_type == zmq.XPUB:
            socket.setsockopt(zmq.XPUB_NODROP, 1)
        return base._bind_socket(self, socket, port)

    return type("App", (base,), {"_bind_socket": bind_socket} if hasattr(base, "_bind_socket") else {})


def _keep_no_printed_text(shell_class: Any) -> None:
    """IPython 9 keeps every printed string for ever, through a wrapper in Python round each write."""
    if hasattr(shell_class, "_tee"):
        shell_class._tee = lambda self, channel: contextlib.nullcontext()


def _report_exception_groups(shell_class: Any) -> None:
    """IPython prints the traceback of an exception group to stderr, and the front end hears of no error at all."""
    show, groups = getattr(shell_class, "showtraceback", None), getattr(builtins, "BaseExceptionGroup", None)
    if show is None or groups is None or not hasattr(shell_class, "_showtraceback"):
        return

    def has_group(error: Any) -> bool:
        return error is not None and (isinstance(error, groups) or has_group(error.__context__))

    def showtraceback(self: Any, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
        kind, value, trace = exc_tuple or sys.exc_info()
        if not has_group(value) or isinstance(value, SyntaxError) or kwargs.get("exception_only"):
            show(self, exc_tuple, *args, **kwargs)
            return
        if trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_name == "run_code":
            trace = trace.tb_next  # the shell's own frame, which no other traceback shows either
        self._showtraceback(kind, value, traceback.format_exception(kind, value, trace))

    shell_class.showtraceback = showtraceback


def _cut_stream_messages(stream_class: Any) -> None:
    """Long text goes out in several messages, lone surrogates as visible text; and a stream has a descriptor."""
    flush_buffers = getattr(stream_class, "_flush_buffers", None)
    if flush_buffers is None:
        return

    def cut(self: Any) -> Any:
        for parent, text in flush_buffers(self):
            try:
                text.encode()
            except UnicodeEncodeError:  # a lone surrogate would cost the whole message
                text = text.encode("utf-8", "backslashreplace").decode()
            for start in range(0, len(text), STREAM_CHARS):
                yield parent, text[start : start + STREAM_CHARS]

    stream_class._flush_buffers = cut
    stream_class.fileno = lambda self: {"stdout": 1, "stderr": 2}[self.name]


def _flush_what_is_there(stream_class: Any) -> None:
    """A flush waits for the publishing thread, though mostly nothing is buffered: half of the time that a display takes.

    Only ipykernel's own flushes are shortened: the code's own promise that what was said before has been handed on.
    """
    flush, publish = getattr(stream_class, "flush", None), getattr(stream_class, "_flush", None)
    if flush is None or publish is None or not hasattr(stream_class, "_rotate_buffers"):
        return

    def publish_and_say_so(self: Any) -> None:
        self._publishing = True  # before the buffers are taken, and until what was in them is on its way
        try:
            publish(self)
        finally:
            self._publishing = False

    def flush_what_is_there(self: Any) -> None:
        waiting = getattr(self.pub_thread, "_events", None)
        if (
            sys._getframe(1).f_globals.get("__name__") not in FLUSHERS
            or self.echo is not None
            or self._buffers
            or self._publishing  # looked at after the buffers
            or waiting is None
            or len(waiting) >= MOST_WAITING
        ):
            flush(self)

    stream_class._publishing = False
    stream_class._flush = publish_and_say_so
    stream_class.flush = flush_what_is_there


def _publish_in_order(stream_class: Any) -> None:
    """Text whose time has come goes out at once (below), and so would overtake what was shown before it and still waits.

    Who shows something has its text taken first: so all that waits when text is taken by the clock comes before that text.
    """
    rotate = getattr(stream_class, "_rotate_buffers", None)
    if rotate is None or not hasattr(stream_class, "_schedule_flush"):
        return

    def rotate_in_order(self: Any) -> Any:
        send_next = getattr(self.pub_thread, "send_next", None)
        if not self._by_the_clock or send_next is None:
            return rotate(self)
        with self._buffer_lock:
            buffers, waiting = rotate(self), len(self.pub_thread.unsent)
        for _ in range(waiting):
            send_next()
        return buffers

    def flush_by_the_clock(self: Any) -> None:
        self._by_the_clock = True
        try:
            self._flush()
        finally:
            self._by_the_clock = False

    def schedule_flush(self: Any) -> None:
        if self._flush_pending:
            return
        self._flush_pending = True
        call_later = self._io_loop.call_later
        self.pub_thread.schedule(lambda: call_later(self.flush_interval, flush_by_the_clock, self))

    stream_class._by_the_clock = False
    stream_class._rotate_buffers = rotate_in_order
    stream_class._schedule_flush = schedule_flush


def _reply_to_interrupts(kernel_class: Any) -> None:
    """An interrupt that comes between the end of the code and the reply would cost the reply."""
    do_execute = getattr(kernel_class, "do_execute", None)
    if do_execute is None:
        return

    @functools.wraps(do_execute)
    async def execute(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            try:
                return await do_execute(self, *args, **kwargs)
            finally:
                if threading.current_thread() is threading.main_thread():
                    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its own comes back after the reply
        except KeyboardInterrupt:
            error = {"status": "error", "ename": "KeyboardInterrupt", "evalue": "", "traceback": []}
            return {**error, "execution_count": self.execution_count, "user_expressions": {}, "payload": []}

    kernel_class.do_execute = execute


def _pack_lone_surrogates(session: Any) -> None:
    """One of them, in an exception or a display, would cost the whole message or make it no UTF-8; as an escape it is JSON."""
    pack = getattr(session, "pack", None)
    if pack is None:
        return

    def pack_any(content: Any) -> Any:
        try:
            packed = pack(content)
            if not packed.isascii():
                packed.decode()
        except UnicodeError:
            default = getattr(import_module("jupyter_client.session"), "json_default", None)
            return json.dumps(content, default=default).encode()
        return packed

    session.pack = pack_any


class _Unnumbered(str):
    """Stands for the number of a message that isn't packed yet."""

    __slots__ = ()


def _number_what_is_sent(session: Any) -> None:
    """A message is numbered when it is made. One that is never sent then, for its repr raised or its content can't be packed,
    would look like one that was lost on the way. So a header gets its number when it is packed, which is after the content."""
    pack = getattr(session, "pack", None)
    make = getattr(import_module("jupyter_client.session"), "msg_header", None)
    if (
        pack is None
        or make is None
        or not hasattr(session, "msg_header")
        or not hasattr(type(session), "msg_id")
    ):
        return

    def msg_header(msg_type: str) -> Any:
        return make(_Unnumbered(), msg_type, session.username, session.session)

    def pack_numbered(content: Any) -> Any:
        if type(content) is dict and type(content.get("msg_id")) is _Unnumbered:
            content["msg_id"] = session.msg_id
        return pack(content)

    session.msg_header, session.pack = msg_header, pack_numbered


_CONTROLS = {chr(code): f"\\u{code:04x}" for code in range(32)}
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), *{**_CONTROLS, "\n": "\\n", "\t": "\\t", "\r": "\\r"}.items())


def _pack_long_text_quickly(session: Any) -> None:
    """Python's encoder of JSON takes most of the time that it takes to send printed text or a large figure."""
    pack = getattr(session, "pack", None)
    if pack is None:
        return

    def pack_text(content: Any) -> Any:
        try:
            return _with_long_text(content, pack)
        except UnicodeEncodeError:  # a lone surrogate
            return pack(content)

    session.pack = pack_text


def _with_long_text(content: Any, pack: Any) -> Any:
    if type(content) is not dict:
        return pack(content)
    text: Any = content.get("text")
    data: Any = content.get("data")
    if type(text) is str and len(text) >= LONG_CHARS and content.keys() == {"name", "text"}:
        return b'{"name":%b,"text":"%b"}' % (json.dumps(content["name"]).encode(), _escaped(text))
    long = {} if type(data) is not dict else {name: value for name, value in data.items() if _is_long(value)}
    if not long:
        return pack(content)
    mark = os.urandom(16).hex()  # stands for the texts, where nothing else can be taken for it
    stand_ins = {name: f"{mark}{number:06}" for number, name in enumerate(long)}
    packed = pack({**content, "data": {**data, **stand_ins}})
    for name, value in long.items():
        before, found, after = packed.partition(stand_ins[name].encode())
        if not found:
            return pack(content)
        packed = b"".join((before, _escaped(value), after))
    return packed


def _is_long(value: Any) -> bool:
    return type(value) is str and len(value) >= LONG_DATA_CHARS


def _escaped(text: str) -> bytes:
    """The inside of a JSON string. Raises UnicodeEncodeError for a lone surrogate."""
    parts = []
    for start in range(0, len(text), ESCAPED_CHARS):
        part = text[start : start + ESCAPED_CHARS]
        for character, escape in _ESCAPES:
            if character in part:
                part = part.replace(character, escape)
        parts.append(part.encode())
    return b"".join(parts)


def _send_at_once_in_its_thread(thread_class: Any) -> None:
    """The publishing thread asks itself to send, through a pipe of bounded length: enough messages from one
    flush and it waits for itself for ever. What runs in that thread already can be sent there and then."""
    if not hasattr(thread_class, "send_multipart") or not hasattr(thread_class, "_really_send"):
        return
    init = thread_class.__init__

    def with_queue(self: Any, *args: Any, **kwargs: Any) -> None:
        self.unsent = deque()  # messages of other threads
        init(self, *args, **kwargs)

    def send_next(self: Any) -> None:
        if self.unsent:  # else it went before its turn
            args, kwargs = self.unsent.popleft()
            self._really_send(*args, **kwargs)

    def send_multipart(self: Any, *args: Any, **kwargs: Any) -> None:
        if threading.current_thread() is self.thread or not self.thread.is_alive():  # as it is in a fork
            self._really_send(*args, **kwargs)
        else:
            self.unsent.append((args, kwargs))
            self.schedule(self.send_next)

    thread_class.__init__ = with_queue
    thread_class.send_next = send_next
    thread_class.send_multipart = send_multipart


if __name__ == "__main__":
    main()
