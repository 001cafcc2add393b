"""One execute request at a time: from the busy status to the reply and the idle one, whatever the code does."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from .children import Children, end_fork_server
from .helper import Helper
from .libc import flush_c_output
from .link import Link
from .origin import origin
from .own import os, threading
from .questions import Questions
from .shell import ZMQInteractiveShell
from .standin import Running
from .streams import Streams
from .tracebacks import Report

LEAST_RECURSION = 1_000  # what an answer needs, also after code that has lowered the limit


class Executions:
    """Runs cells in the main thread: those that await nothing at once, others as a task of the loop."""

    def __init__(
        self,
        shell: ZMQInteractiveShell,
        link: Link,
        streams: Streams,
        questions: Questions,
        children: Children,
        loop: asyncio.AbstractEventLoop,
        *,
        after: Callable[[], None],
        ours: Callable[[Callable[[], None]], None],
    ) -> None:
        """`after` is called once a cell has ended that ran as a task; `ours` calls what is our own work then."""
        self.busy = False
        self._shell, self._link, self._streams = shell, link, streams
        self._interrupts = link.interrupts
        self._interrupts.entries |= {Executions._call.__code__, ours.__code__}
        self._questions, self._children, self._loop = questions, children, loop
        self.helper = Helper(self._interrupts, streams)
        self._after, self._ours = after, ours
        self._pid = os.getpid()

    def run(self, header: dict[str, Any], content: dict[str, Any]) -> None:
        """Answers before it returns, or, where the code awaits something, later."""
        self.busy = True
        code, silent = str(content["code"]), bool(content.get("silent"))
        if self._begin(str(header["id"]), content, silent):
            self._call(end_fork_server)
        look, error = self._call(lambda: self._look_at(code))
        if error is not None:
            self._finish(header, None, error)
            return
        how, awaits = look
        how["store_history"] = bool(content.get("store_history", True)) and not silent
        cell = self._shell.run_cell_async(code, silent=silent, **how)
        if not awaits:
            result, error = self._call(lambda: _at_once(cell))
            _, hook_error = self._call(lambda: self._after_cell(result, silent))
            self._finish(header, result, error or hook_error)
            return
        task = self._loop.create_task(cell)
        self._interrupts.task = task
        self._interrupts.running = True
        task.add_done_callback(lambda done: self._ours(lambda: self._task_done(header, silent, done)))

    def _begin(self, parent: str, content: dict[str, Any], silent: bool) -> bool:
        """Whether it has pipes of its own."""
        other_pipes = len(self._link.descriptors) >= 2
        if other_pipes:
            self._take_pipes()
        self._interrupts.begin()
        self._children.started = False
        origin.set(parent)
        Running.msg_id, Running.content = parent, content
        if self._streams.careful and not self._others():
            self._streams.be_careful(False)
        self._streams.begin(parent)
        self._questions.allowed = bool(content.get("allow_stdin"))
        self._shell.last_report = self._shell.failure = None
        self._link.send("status", {"execution_state": "busy"}, parent=parent, more=not silent)
        if not silent:
            echo = {"code": "", "execution_count": self._shell.execution_count}
            self._link.send("execute_input", echo, parent=parent, ordered=False)
        self.helper.wake()
        return other_pipes

    def _look_at(self, code: str) -> tuple[dict[str, Any], bool]:
        """How the shell is to be given the code, and whether it awaits something. The user's transformers run here."""
        failed: Any = None
        try:
            transformed = self._shell.transform_cell(code)
        except Exception:
            transformed, failed = code, sys.exc_info()
        how = {"transformed_cell": transformed, "preprocessing_exc_tuple": failed}
        return how, self._shell.should_run_async(code, **how)

    def _call(self, function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        """The one way from here into the user's code. What lands in this very frame is put off."""
        interrupts = self._interrupts
        depth = interrupts.depth
        try:
            interrupts.depth, interrupts.running = 0, True
            try:
                return function(), None
            finally:
                interrupts.running, interrupts.depth = False, depth
        except BaseException as error:
            return None, error

    def _after_cell(self, result: Any, silent: bool) -> None:
        """What hooks in after a cell: figures are shown here, for one."""
        self._shell.events.trigger("post_execute")
        if not silent:
            self._shell.events.trigger("post_run_cell", result)

    def _task_done(self, header: dict[str, Any], silent: bool, task: asyncio.Task[Any]) -> None:
        interrupts = self._interrupts
        interrupts.running = False
        interrupts.task = None
        result: Any = None
        error: BaseException | None = None
        try:
            result = task.result()
        except BaseException as raised:
            error = raised
        _, hook_error = self._call(lambda: self._after_cell(result, silent))
        self._finish(header, result, error or hook_error)
        self._after()

    # the end

    def _finish(self, header: dict[str, Any], result: Any, error: BaseException | None) -> None:
        if os.getpid() != self._pid:
            self._end_of_fork()
        sys.setrecursionlimit(max(sys.getrecursionlimit(), LEAST_RECURSION))
        parent = str(header["id"])
        if error is not None:
            self._show(error)
        elif result is not None:
            error = result.error_before_exec or result.error_in_exec or self._shell.failure
        if isinstance(error, asyncio.CancelledError) and self._interrupts.asked:
            error = KeyboardInterrupt()
        flush_c_output()
        _, flush_error = self._call(self._streams.flush_theirs)
        reply = self._reply(error or flush_error)
        self._streams.heal()
        self._streams.flush_late()
        self._answer(parent, reply)
        self._streams.current = ""
        self.busy = False
        self._link.send("status", {"execution_state": "idle"}, parent=parent, ordered=False)
        if self._shell.exiting:
            return
        if not self._streams.careful and self._others():
            self._streams.be_careful()

    def _show(self, error: BaseException) -> None:
        """An error that came out of the shell itself; what hinders its telling is told, too."""
        self._interrupts.enter()
        try:
            self._shell.showtraceback((type(error), error, error.__traceback__))
        except BaseException as second:
            self._shell.report(Report.of(type(error), error, [f"(while this was told: {second!r})"]))
        finally:
            self._interrupts.leave()

    def _reply(self, error: BaseException | None) -> dict[str, Any]:
        shell = self._shell
        reply: dict[str, Any] = {"status": "ok", "user_expressions": {}}
        if error is not None:
            last = shell.last_report
            entries = last.traceback if last is not None else []
            reply.update(status="error", **Report.of(type(error), error, entries).content())
        try:
            reply["execution_count"] = shell.execution_count - 1
            reply["payload"] = shell.payload_manager.read_payload()
            shell.payload_manager.clear_payload()
        except Exception as broken:  # the user's code can reach all of it
            print(f"the shell is broken: {type(broken).__name__}: {broken}", file=self._streams.err)
        return reply

    def _answer(self, parent: str, reply: dict[str, Any]) -> None:
        forked: dict[str, Any] = {"forked": True} if self._children.started else {}
        try:
            self._link.send("execute_reply", reply, parent=parent, channel="shell", more=True, **forked)
        except (TypeError, ValueError):  # what a magic of the user's has put into the payload
            reply["payload"] = []
            self._link.send("execute_reply", reply, parent=parent, channel="shell", more=True, **forked)

    def _others(self) -> bool:
        """Whether something that was started here goes on without a cell."""
        loop: Any = self._loop
        return bool(
            threading.active_count() > 1
            or asyncio.all_tasks(loop)
            or getattr(loop, "_scheduled", None)
            or getattr(loop, "_ready", None)
            or len(loop._selector.get_map()) > 2
        )

    def _take_pipes(self) -> None:
        """Children of an earlier execution keep its pipes; what follows has pipes of its own."""
        out, err, *rest = self._link.descriptors
        self._link.descriptors = rest
        for number, descriptor in ((1, out), (2, err)):
            os.dup2(descriptor, number)
            os.close(descriptor)
        self._streams.reopen()

    def _end_of_fork(self) -> NoReturn:
        """A child of `os.fork()` in a cell has run off the cell's end."""
        self._streams.flush()
        os._exit(0)


def _at_once(cell: Coroutine[Any, Any, Any]) -> Any:
    """Run a cell that awaits nothing."""
    try:
        cell.send(None)
    except StopIteration as end:
        return end.value
    cell.close()
    raise RuntimeError("the cell waits for something, which was not to be seen from its code")
