"""The loop of one session: takes a request, runs it, answers; the user's asyncio tasks run in it between cells."""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import gc
import os
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from . import requests
from .bundles import Bundles
from .children import Children
from .comms import Comms
from .helper import Helper
from .interrupts import Interrupts
from .landlock import enter as enter_landlock
from .link import Link
from .origin import carry, origin
from .questions import Questions
from .shell import ZMQInteractiveShell, make_shell, warm
from .standin import Kernel, Running, kernel_info
from .streams import Streams
from .tracebacks import Report

_shell: ZMQInteractiveShell | None = None


def prepare() -> None:
    """Make the shell and go its ways once: what is forked from here begins with it."""
    global _shell
    if _shell is None:
        _shell = make_shell()
        warm(_shell)
        gc.collect()


def run(sock: socket.socket) -> NoReturn:
    """Serve one session on `sock`; descriptors 1 and 2 are its pipes. Ends the process."""
    Host(sock).serve()


class Host:
    """One session. Single-threaded but for a helper that hands on what is printed while a cell runs."""

    def __init__(self, sock: socket.socket) -> None:
        self.shell = _shell if _shell is not None else make_shell()
        self.interrupts = Interrupts()
        self.interrupts.entries = {Host._call.__code__, Host._after_async.__code__}
        self.streams = Streams(self.interrupts)
        self.link = Link(sock, self.streams.pipes, self.interrupts, self.streams.flush)
        self.streams.attach(self.link)
        self.bundles = Bundles(self.link)
        self.questions = Questions(self.link, lambda: self.streams.current)
        self.children = Children(self.streams.flush, self._in_fork)
        self.comms = Comms()
        self.helper = Helper(self.interrupts, self.streams)
        self.loop = asyncio.new_event_loop()
        self._busy = False
        self._pid = os.getpid()
        self._libc = _c_library()

    def serve(self) -> NoReturn:
        try:
            self._start()
        except Exception:
            traceback.print_exc()
            self.streams.flush()
            os._exit(1)
        asyncio.set_event_loop(self.loop)
        self.loop.set_exception_handler(self._background_error)
        self.loop.add_reader(self.link.sock, self._readable)
        self.loop.call_soon(self._work)  # what came with the first message
        while True:
            try:
                self.loop.run_forever()
            except (KeyboardInterrupt, SystemExit):
                # Of a task or callback: a cell's own is caught where the cell is run.
                traceback.print_exc()

    def _start(self) -> None:
        header, content = self._first()
        limits = content.get("limits", {})
        self.bundles.bundle_bytes = int(limits.get("bundleBytes", self.bundles.bundle_bytes))
        self.bundles.text_chars = int(limits.get("textChars", self.bundles.text_chars))
        if content.get("isolate"):
            enter_landlock()
        carry(lambda: self.streams.be_careful())
        self.children.watch()
        self.questions.install()
        self.comms.link = self.link
        self.comms.install()
        sink = self.shell.sink
        sink.link, sink.bundles, sink.streams = self.link, self.bundles, self.streams
        self.shell.kernel = Kernel(self.shell, self.link, self.comms.manager, self.questions.input)
        self.interrupts.begin()
        self.helper.start()
        self.streams.flush()
        self.link.start(bytes.fromhex(content["nonce"]))
        self._reply("kernel_info", header, kernel_info())

    def _first(self) -> tuple[dict[str, Any], dict[str, Any]]:
        self.link.sock.setblocking(True)
        while not self.link.inbox:
            self.link.receive()
        self.link.sock.setblocking(False)
        header, content, _ = self.link.inbox.popleft()
        return header, content

    # requests

    def _readable(self) -> None:
        self.link.receive()
        self._work()

    def _work(self) -> None:
        while self.link.inbox and not self._busy:
            header, content, buffers = self.link.inbox.popleft()
            kind = str(header.get("type"))
            if kind == "execute_request":
                self._execute(header, content)
            else:
                self._answer(kind, header, content, buffers)

    def _answer(
        self, kind: str, header: dict[str, Any], content: dict[str, Any], buffers: list[bytes]
    ) -> None:
        """What takes little time and runs no cell. A failure is the answer."""
        token = origin.set(str(header.get("id", "")))
        code, cursor = str(content.get("code", "")), content.get("cursor_pos")
        try:
            if kind == "kernel_info_request":
                self._reply("kernel_info", header, kernel_info())
            elif kind == "complete_request":
                self._reply("complete", header, requests.complete(self.shell, code, cursor))
            elif kind == "inspect_request":
                level = int(content.get("detail_level", 0))
                self._reply("inspect", header, requests.inspect(self.shell, code, cursor, level))
            elif kind == "is_complete_request":
                self._reply("is_complete", header, requests.is_complete(self.shell, code))
            elif kind == "history_request":
                self._reply("history", header, requests.history(self.shell, content))
            elif kind == "comm_info_request":
                self._reply("comm_info", header, self.comms.info(content.get("target_name")))
            elif kind in ("comm_open", "comm_msg", "comm_close"):
                self.streams.begin(origin.get())
                self.comms.handle(kind, content, buffers)
                self.link.send("status", {"execution_state": "idle"}, parent=origin.get())
            elif kind == "shutdown_request":
                self._reply("shutdown", header, {"status": "ok", "restart": False})
                self._leave()
        except Exception as error:
            found = Report.of(type(error), error, traceback.format_exception(type(error), error, None))
            name = kind.replace("_request", "")
            self._reply(name, header, {"status": "error", **found.content()})
        finally:
            self.streams.current = ""
            origin.reset(token)

    def _reply(self, name: str, header: dict[str, Any], content: dict[str, Any], **more: Any) -> None:
        self.link.send(f"{name}_reply", content, parent=str(header.get("id", "")), channel="shell", **more)

    # execution

    def _execute(self, header: dict[str, Any], content: dict[str, Any]) -> None:
        shell, parent = self.shell, str(header["id"])
        code, silent = str(content["code"]), bool(content.get("silent"))
        if len(self.link.descriptors) >= 2:
            self._take_pipes()
        self.interrupts.begin()
        self.children.started = False
        origin.set(parent)
        Running.msg_id, Running.content = parent, content
        if self.streams.careful and not self._others():
            self.streams.be_careful(False)
        self.streams.begin(parent)
        self.questions.allowed = bool(content.get("allow_stdin"))
        shell.last_report = shell.failure = None
        self.link.send("status", {"execution_state": "busy"}, parent=parent, more=not silent)
        if not silent:
            echo = {"code": "", "execution_count": shell.execution_count}
            self.link.send("execute_input", echo, parent=parent, ordered=False)
        self.helper.wake()
        options: dict[str, Any] = {
            "store_history": bool(content.get("store_history", True)) and not silent,
            "silent": silent,
        }
        failed: Any = None
        try:
            transformed = shell.transform_cell(code)
        except Exception:
            transformed, failed = code, sys.exc_info()
        how = {"transformed_cell": transformed, "preprocessing_exc_tuple": failed}
        if not shell.should_run_async(code, **how):
            result, error = self._call(lambda: _at_once(shell.run_cell_async(code, **how, **options)))
            _, hook_error = self._call(lambda: self._after_cell(result, silent))
            self._finish(header, result, error or hook_error)
            return
        self._busy = True
        task = self.loop.create_task(shell.run_cell_async(code, **how, **options))
        self.interrupts.task = task
        self.interrupts.running = True
        task.add_done_callback(lambda done: self._after_async(header, silent, done))

    def _after_cell(self, result: Any, silent: bool) -> None:
        """What hooks in after a cell: figures are shown here, for one."""
        self.shell.events.trigger("post_execute")
        if not silent:
            self.shell.events.trigger("post_run_cell", result)

    def _call(self, function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        """The one way from here into the user's code. An interrupt that lands in this very frame is put off."""
        try:
            self.interrupts.running = True
            try:
                return function(), None
            finally:
                self.interrupts.running = False
        except BaseException as error:
            return None, error

    def _after_async(self, header: dict[str, Any], silent: bool, task: asyncio.Task[Any]) -> None:
        interrupts = self.interrupts
        interrupts.running = False
        interrupts.task = None
        self._busy = False
        result: Any = None
        error: BaseException | None = None
        try:
            result = task.result()
        except asyncio.CancelledError:
            error = KeyboardInterrupt() if interrupts.asked else asyncio.CancelledError()
        except BaseException as raised:
            error = raised
        _, failed = self._call(lambda: self._after_cell(result, silent))
        self._finish(header, result, error or failed)
        self._work()

    def _finish(self, header: dict[str, Any], result: Any, error: BaseException | None) -> None:
        if os.getpid() != self._pid:
            self._end_of_fork()
        shell = self.shell
        if error is not None:
            self._show(error)
        elif result is not None:
            error = result.error_before_exec or result.error_in_exec or shell.failure
        if error is not None and self.interrupts.asked and isinstance(error, asyncio.CancelledError):
            error = KeyboardInterrupt()
        payload = shell.payload_manager.read_payload()
        shell.payload_manager.clear_payload()
        reply: dict[str, Any] = {
            "status": "ok",
            "execution_count": shell.execution_count - 1,
            "payload": payload,
            "user_expressions": {},
        }
        if error is not None:
            last = shell.last_report
            entries = last.traceback if last is not None else []
            reply.update(status="error", **Report.of(type(error), error, entries).content())
        self._libc()
        self.streams.flush_theirs()
        self.streams.heal()
        self.streams.flush_late()
        forked = {"forked": True} if self.children.started else {}
        try:
            self._reply("execute", header, reply, more=True, **forked)
        except (TypeError, ValueError):  # what a magic of the user's has put into the payload
            reply["payload"] = []
            self._reply("execute", header, reply, more=True, **forked)
        self.streams.current = ""
        self.link.send("status", {"execution_state": "idle"}, parent=str(header["id"]), ordered=False)
        if shell.exiting:
            self._leave()
        if not self.streams.careful and self._others():
            self.streams.be_careful()

    def _show(self, error: BaseException) -> None:
        """An error that came out of the shell; what hinders its telling is not told, too."""
        self.interrupts.enter()
        try:
            self.shell.showtraceback((type(error), error, error.__traceback__))
        except BaseException as second:
            self.shell._report(Report.of(type(error), error, [f"(while this was told: {second!r})"]))
        finally:
            self.interrupts.leave()

    def _others(self) -> bool:
        """Whether something that was started here goes on without a cell."""
        loop: Any = self.loop
        return bool(
            threading.active_count() > 1
            or asyncio.all_tasks(loop)
            or getattr(loop, "_scheduled", None)
            or getattr(loop, "_ready", None)
            or len(loop._selector.get_map()) > 2
        )

    def _take_pipes(self) -> None:
        """Children of an earlier execution keep its pipes; what follows has pipes of its own."""
        out, err, *rest = self.link.descriptors
        self.link.descriptors = rest
        for number, descriptor in ((1, out), (2, err)):
            os.dup2(descriptor, number)
            os.close(descriptor)
        self.streams.reopen()

    def _background_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Told where the task came from, as far as Python lets that be known."""
        task = context.get("task") or context.get("future")
        context_of = getattr(task, "get_context", None)
        who = context_of().get(origin, "") if context_of is not None else ""
        token = origin.set(who or origin.get())
        try:
            loop.default_exception_handler(context)
        finally:
            origin.reset(token)

    # ends

    def _in_fork(self) -> None:
        self.streams.in_fork()

    def _end_of_fork(self) -> NoReturn:
        """A child of `os.fork()` in a cell has run off the cell's end."""
        self.streams.flush()
        os._exit(0)

    def _leave(self) -> NoReturn:
        """End as a Python program does: threads are awaited, what was registered is run."""
        status = 0
        try:
            shutdown = getattr(threading, "_shutdown", None)
            if shutdown is not None:
                shutdown()
            atexit._run_exitfuncs()
        except BaseException:
            traceback.print_exc()
            status = 1
        self.streams.flush()
        os._exit(status)


def _at_once(cell: Coroutine[Any, Any, Any]) -> Any:
    """Run a cell that awaits nothing."""
    try:
        cell.send(None)
    except StopIteration as end:
        return end.value
    cell.close()
    raise RuntimeError("the cell waits for something, which was not to be seen from its code")


def _c_library() -> Callable[[], None]:
    """Hands on what C code has printed, which the C library keeps for itself when it writes to a pipe."""
    try:
        library = ctypes.CDLL(None)
        stdout = ctypes.c_void_p.in_dll(library, "stdout")
        flush = library.fflush
    except (OSError, ValueError, AttributeError):
        return lambda: None
    flush.argtypes, flush.restype = [ctypes.c_void_p], ctypes.c_int

    def flush_c() -> None:
        flush(stdout)

    return flush_c
