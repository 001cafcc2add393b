"""The loop of one session: takes a request, runs it, answers; the user's asyncio tasks run in it between cells."""

from __future__ import annotations

import asyncio
import atexit
import gc
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from . import requests
from .bundles import Bundles
from .children import Children
from .comms import Comms
from .execution import Executions
from .frames import MARK_START
from .interrupts import Interrupts
from .landlock import enter as enter_landlock
from .layer import add_magic, enter as enter_layer
from .link import Link
from .origin import carry, origin
from .own import os, socket, threading, time, traceback
from .pipes import Pipe
from .pools import fill_pools as fill_pools
from .printed import write_all
from .questions import Questions
from .rehearsal import rehearse
from .shell import ZMQInteractiveShell, make_shell
from .standin import Kernel, kernel_info
from .streams import Streams
from .tracebacks import Report

_shell: ZMQInteractiveShell | None = None
_comms = Comms()
FAILURES = 100
"""Of the loop itself, one after the other, before it is given up."""


def prepare() -> None:
    """Make the shell and go a session's ways: what is forked from here begins with all that in its memory."""
    global _shell
    if _shell is None:
        _shell = make_shell()
        _comms.install()
        rehearse(_shell)
        gc.collect()


def run(sock: socket.socket) -> NoReturn:
    """Serve one session on `sock`; descriptors 1 and 2 are its pipes. Ends the process."""
    Host(sock).serve()


class Host:
    """One session. Single-threaded but for a helper that hands on what is printed while a cell runs."""

    def __init__(self, sock: socket.socket) -> None:
        self.shell = _shell if _shell is not None else make_shell()
        self.interrupts = Interrupts()
        self.interrupts.entries |= {Host.serve.__code__, Host._tell.__code__}
        self.link = Link(sock, [Pipe(number, self.interrupts) for number in (1, 2)], self.interrupts)
        self.bundles = Bundles(self.link)
        self.comms = _comms
        self.loop = asyncio.new_event_loop()
        self.loop.time = time.monotonic  # type: ignore[method-assign]
        self.interrupts.loop = self.loop
        self._failures = 0

    def serve(self) -> NoReturn:
        try:
            self._start()
        except Exception:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        asyncio.set_event_loop(self.loop)
        self.loop.set_exception_handler(self._background_error)
        self.loop.add_reader(self.link.sock, self._readable)
        self.loop.call_soon(self._ours, self._work)  # what came with the first message
        while True:
            try:
                self.loop.call_soon(self._runs)
                self.loop.run_forever()
            except KeyboardInterrupt:
                continue  # of a cell's own task, which has it by now
            except BaseException:
                # SystemExit of another task or a callback, or what a signal's handler raised: nobody else hears of it.
                self._failures += 1
                if self._failures > FAILURES:
                    self._give_up()
                self._tell()

    def _runs(self) -> None:
        self._failures = 0

    def _ours(self, work: Callable[[], None]) -> None:
        """Do work of our own. What goes wrong in it ends the process: better an end that is told than a wait without end."""
        self.interrupts.enter()
        try:
            work()
        except BaseException:
            self._give_up()
        try:
            self.interrupts.leave()
        except BaseException:  # of a handler of the user's that had to wait
            self._tell()

    def _tell(self) -> None:
        """An error that belongs to no cell."""
        self.interrupts.depth += 1
        self.streams.heal()
        traceback.print_exc(file=self.streams.err)
        self.interrupts.depth -= 1  # what was put off meanwhile comes again

    def _give_up(self) -> NoReturn:
        try:
            self.streams.flush()
            write_all(2, traceback.format_exc().encode("utf-8", "backslashreplace"))
        finally:
            os._exit(1)

    def _start(self) -> None:
        header, content = self._first()
        limits = content.get("limits", {})
        self.bundles.bundle_bytes = int(limits.get("bundleBytes", self.bundles.bundle_bytes))
        self.bundles.text_chars = int(limits.get("textChars", self.bundles.text_chars))
        if content.get("isolate") and not enter_landlock():
            raise RuntimeError("this session can't be kept from others: Landlock has no scopes here")
        layer = enter_layer(os.environ.get("HOME", ""), os.getcwd())
        sys.path.insert(0, "")  # as a notebook has it
        sys.stdout.flush()
        sys.stderr.flush()
        memory = self.link.descriptors.pop(0)
        self.streams = streams = Streams(self.interrupts, self.link.pipes, memory)
        os.close(memory)
        streams.attach(self.link)
        self.link.flush = streams.flush
        self.questions = Questions(self.link, lambda: streams.current)
        self.children = Children(streams.hand_on, streams.in_fork)
        carry(lambda: streams.be_careful())
        self.children.watch()
        self.interrupts.put_off_handlers()
        self.questions.install()
        self.comms.link = self.link
        self.comms.install()
        if layer:
            add_magic(self.shell, layer)
        sink = self.shell.sink
        sink.link, sink.bundles, sink.streams = self.link, self.bundles, self.streams
        self.shell.kernel = Kernel(self.shell, self.link, self.comms.manager, self.questions.input)
        self.interrupts.begin()
        self.executions = Executions(
            self.shell,
            self.link,
            self.streams,
            self.questions,
            self.children,
            self.loop,
            after=self._cell_done,
            ours=self._ours,
        )
        self.executions.helper.start()
        mark = MARK_START + bytes.fromhex(content["nonce"])
        streams.start_marks(mark)
        self.link.start(mark)
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
        self._ours(self._take_in)

    def _take_in(self) -> None:
        self.link.receive()
        self._work()

    def _work(self) -> None:
        executions = self.executions
        while self.link.inbox and not executions.busy:
            header, content, buffers = self.link.inbox.popleft()
            kind = str(header.get("type"))
            if kind == "execute_request":
                executions.run(header, content)
                self._leave_where_asked()
            else:
                self._answer(kind, header, content, buffers)

    def _cell_done(self) -> None:
        self._leave_where_asked()
        self._work()

    def _leave_where_asked(self) -> None:
        """`quit()` lets the cell run to its end."""
        if self.shell.exiting and not self.executions.busy:
            self._leave()

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
        except BaseException as error:  # `sys.exit()` in a callback of a widget's is its error, too
            found = Report.of(type(error), error, traceback.format_exception(type(error), error, None))
            name = kind.replace("_request", "")
            self._reply(name, header, {"status": "error", **found.content()})
        finally:
            self.streams.current = ""
            origin.reset(token)

    def _reply(self, name: str, header: dict[str, Any], content: dict[str, Any], **more: Any) -> None:
        self.link.send(f"{name}_reply", content, parent=str(header.get("id", "")), channel="shell", **more)

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

    def _leave(self) -> NoReturn:
        """End as a Python program does: threads are awaited, what was registered is run."""
        status = 0
        self.interrupts.depth = 0  # from here on it is the user's code
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
