"""Starts ipykernel so that it loses nothing that it can be kept from losing; runs inside the walls.

Standard library and the kernel environment's ipykernel only. Each assumption about ipykernel or IPython
is checked where it is used: where it no longer holds, the kernel runs as it comes.
"""

import builtins
import contextlib
import functools
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from importlib import import_module
from typing import Any

STREAM_CHARS = 262_144
"""One stream message carries at most this much text, so that whoever reads it needs little memory."""
LONG_CHARS = 1_024
"""Text from here on is written as JSON by a search for what needs an escape, and not character by character."""
FLUSH_SECONDS = 0.05


def main() -> None:
    """Start the kernel that the arguments (`-f connection_file`) describe; returns when it has ended."""
    # Python puts this file's directory first; a cell's imports must not see it, nor ours see the cell's.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") not in (here, os.getcwd())]
    sys.modules["debugpy"] = None  # type: ignore[assignment]  # half of a start, and no debugger is offered
    warnings.filterwarnings("ignore", message="Message serialization failed")

    iostream = import_module("ipykernel.iostream")
    shell_class = import_module("IPython.core.interactiveshell").InteractiveShell
    _keep_no_printed_text(shell_class)
    _report_exception_groups(shell_class)
    _cut_stream_messages(iostream.OutStream)
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
    _pack_lone_surrogates(getattr(app, "session", None))
    _pack_long_text_quickly(getattr(app, "session", None))
    app.start()


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
            packed.decode()
        except UnicodeError:
            default = getattr(import_module("jupyter_client.session"), "json_default", None)
            return json.dumps(content, default=default).encode()
        return packed

    session.pack = pack_any


_CONTROLS = {chr(code): f"\\u{code:04x}" for code in range(32)}
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), *{**_CONTROLS, "\n": "\\n", "\t": "\\t", "\r": "\\r"}.items())


def _pack_long_text_quickly(session: Any) -> None:
    """Python's encoder of JSON takes more than half of the time that it takes to send printed text."""
    pack = getattr(session, "pack", None)
    if pack is None:
        return

    def pack_text(content: Any) -> Any:
        text = content.get("text") if type(content) is dict else None
        if type(text) is not str or len(text) < LONG_CHARS or content.keys() != {"name", "text"}:
            return pack(content)
        for character, escape in _ESCAPES:
            if character in text:
                text = text.replace(character, escape)
        try:
            return b'{"name":%b,"text":"%b"}' % (json.dumps(content["name"]).encode(), text.encode())
        except UnicodeEncodeError:  # not from a stream: those have been through `cut`
            return pack(content)

    session.pack = pack_text


def _send_at_once_in_its_thread(thread_class: Any) -> None:
    """The publishing thread asks itself to send, through a pipe of bounded length: enough messages from one
    flush and it waits for itself for ever. What runs in that thread already can be sent there and then."""
    schedule_send = getattr(thread_class, "send_multipart", None)
    if schedule_send is None or not hasattr(thread_class, "_really_send"):
        return

    def send_multipart(self: Any, *args: Any, **kwargs: Any) -> None:
        if threading.current_thread() is self.thread:
            self._really_send(*args, **kwargs)
        else:
            schedule_send(self, *args, **kwargs)

    thread_class.send_multipart = send_multipart


if __name__ == "__main__":
    main()
