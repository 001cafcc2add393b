"""IPython's shell with our ends: where displays, values, errors, pages and proposals go."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.util
import pdb  # noqa: T100
import shutil
import subprocess
import sys
import traceback
import types
import warnings
from collections.abc import Mapping
from typing import Any

from IPython import version_info
from IPython.core import debugger, magics, page
from IPython.core.autocall import ZMQExitAutocall
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_magic, magics_class
from traitlets import Any as AnyTrait, Instance, Type
from traitlets.config import Config

from .bundles import Bundles
from .link import Link
from .origin import origin
from .own import os, threading
from .requests import tail
from .standin import parent_message
from .streams import Streams
from .tracebacks import Report, text_of, unusual, without_ours, without_overhead

REMEMBERED_REPR_CHARS = 10_000
PLAIN_TYPES = (int, float, str, bool, bytes)


class Sink:
    """What the shell sends through, once there is a session; before (in a zygote), everything vanishes."""

    link: Link | None = None
    bundles: Bundles | None = None
    streams: Streams | None = None

    def interrupted(self) -> bool:
        """Whether the running cell's task was cancelled for an interrupt."""
        return self.link is not None and self.link.interrupts.asked


class Publisher(DisplayPublisher):
    """display_data, update_display_data and clear_output messages; Jupyter messaging 5.4."""

    sink = AnyTrait()
    _hooks_of_thread = AnyTrait()

    @property
    def _hooks(self) -> list[Any]:
        if self._hooks_of_thread is None:
            self._hooks_of_thread = threading.local()
        if not hasattr(self._hooks_of_thread, "hooks"):
            self._hooks_of_thread.hooks = []
        hooks: list[Any] = self._hooks_of_thread.hooks
        return hooks

    def register_hook(self, hook: Any) -> None:
        """`hook` gets each message of this thread before it goes, and returns it, or None to keep it."""
        self._hooks.append(hook)

    def unregister_hook(self, hook: Any) -> bool:
        try:
            self._hooks.remove(hook)
        except ValueError:
            return False
        return True

    def publish(
        self,
        data: Any,
        metadata: Any = None,
        source: Any = None,
        *,
        transient: Any = None,
        update: bool = False,
        **_: Any,
    ) -> None:
        self._validate_data(data, metadata)
        content = {"data": data, "metadata": metadata or {}, "transient": transient or {}}
        self._publish("update_display_data" if update else "display_data", content)

    def clear_output(self, wait: bool = False) -> None:
        self._publish("clear_output", {"wait": wait})

    def _publish(self, msg_type: str, content: dict[str, Any]) -> None:
        sink: Sink = self.sink
        if sink.link is None or sink.bundles is None:
            return
        if sink.link.pid != os.getpid():
            # In a fork of the user's there is nobody to show it to; what can be printed is.
            if "text/plain" in content.get("data", {}):
                print(content["data"]["text/plain"])
            return
        if self._hooks:
            message: Any = {
                "header": {"msg_type": msg_type},
                "msg_type": msg_type,
                "parent_header": parent_message()["header"],
                "content": content,
                "metadata": {},
            }
            for hook in self._hooks:
                message = hook(message)
                if message is None:
                    return
            msg_type, content = message["header"]["msg_type"], message["content"]
        if msg_type == "clear_output":
            sink.link.send(msg_type, content, parent=origin.get())
        else:
            sink.bundles.send(msg_type, content, origin.get())

    def set_parent(self, parent: Any) -> None:
        """The parent is the context's."""


class Hook(DisplayHook):
    """execute_result messages."""

    sink = AnyTrait()
    msg: dict[str, Any] | None = None

    def start_displayhook(self) -> None:
        self._is_active = True
        self.msg = {"execution_count": self.prompt_count, "data": {}, "metadata": {}}
        self.shell.failed_to_format = []

    def write_output_prompt(self) -> None:
        """The number is in the message."""

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        assert self.msg is not None
        self.msg["data"] = format_dict
        self.msg["metadata"] = md_dict or {}

    def compute_format_data(self, result: Any) -> Any:
        """A number or a text has one representation, and need not be shown to a dozen formatters to learn that."""
        kind = type(result)
        if kind in PLAIN_TYPES:
            display = self.shell.display_formatter
            others = (
                display.ipython_display_formatter,
                display.mimebundle_formatter,
                *display.formatters.values(),
            )
            plain = display.formatters["text/plain"]
            if display.active_types == self._all_types(display) and not any(
                kind in formatter.type_printers for formatter in others if formatter is not plain
            ):
                return {"text/plain": plain(result)}, {}
        return super().compute_format_data(result)

    @staticmethod
    def _all_types(display: Any) -> list[str]:
        return list(display.format_types)

    def log_output(self, format_dict: Any) -> None:
        """Only what history needs: the base class keeps every bundle for ever."""
        text = format_dict.get("text/plain")
        if isinstance(text, str) and len(text) <= REMEMBERED_REPR_CHARS:
            self.shell.history_manager.output_hist_reprs[self.prompt_count] = text
            if self.shell.logger.log_output:
                self.shell.logger.log_write(text, "output")

    def finish_displayhook(self) -> None:
        message, self.msg = self.msg, None
        self._is_active = False
        failed = self.shell.failed_to_format
        if message is not None and message["data"]:
            sink: Sink = self.sink
            if sink.bundles is not None and sink.link is not None and sink.link.pid == os.getpid():
                # Mostly it is the last that a cell does, and the reply follows at once.
                sink.bundles.send("execute_result", message, origin.get(), more=True)
        if failed and "text/plain" not in (message or {}).get("data", {}):
            self.shell.failure = failed[0]

    def set_parent(self, parent: Any) -> None:
        """The parent is the context's."""


@magics_class
class KernelMagics(Magics):
    """Magics that are otherwise for terminals."""

    @line_magic
    def clear(self, line: str) -> None:
        """Clear the output."""
        self.shell.display_pub.clear_output()

    @line_magic
    def less(self, line: str) -> None:
        """Show a file through the pager."""
        if not line:
            raise UsageError("Missing filename.")
        with open(line, encoding="utf-8", errors="replace") as file:
            page.page(file.read())

    more = line_magic("more")(less)

    @line_magic
    def man(self, line: str) -> None:
        """Show a manual page through the pager."""
        page.page(self.shell.getoutput(f"man {line} | col -b", split=False))

    @line_magic
    def edit(self, line: str) -> None:
        """Say why there is no editor."""
        raise UsageError("there is no editor here: write the file, or use %load and run what it proposes")

    ed = line_magic("ed")(edit)

    @line_magic
    def connect_info(self, line: str) -> None:
        """Say how other clients connect."""
        print(
            "This kernel has no connection file: it talks to the service that started it, and to nobody else."
        )


class ZMQInteractiveShell(InteractiveShell):
    """The name is the one by which libraries know that they are in a notebook and not in a terminal."""

    displayhook_class = Type(Hook)
    display_pub_class = Type(Publisher)
    kernel = AnyTrait()
    sink = AnyTrait()
    exiter = Instance(ZMQExitAutocall)
    readline_use = autoindent = False
    keepkernel_on_exit: Any = None
    exiting = False
    last_report: Report | None = None
    failed_to_format: list[BaseException]
    failure: BaseException | None = None
    """What makes the execution fail although its code ran to the end."""

    def _exiter_default(self) -> ZMQExitAutocall:
        return ZMQExitAutocall(self)

    def _tee(self, channel: str) -> Any:
        """IPython 9 would wrap each write in Python and keep every string for ever."""
        return contextlib.nullcontext()

    def init_hooks(self) -> None:
        super().init_hooks()
        self.set_hook("show_in_pager", page.as_hook(self._page), 99)

    def init_environment(self) -> None:
        """No pager could be answered, and no colours are wanted."""
        os.environ.setdefault("TERM", "dumb")
        for name in ("PAGER", "GIT_PAGER"):
            os.environ[name] = "cat"
        os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")

    def init_magics(self) -> None:
        super().init_magics()
        self.register_magics(KernelMagics)

    def _page(self, text: Any, start: int = 0, screen_lines: int = 0, pager_cmd: Any = None) -> None:
        data = text if isinstance(text, Mapping) else {"text/plain": text}
        self.payload_manager.write_payload({"source": "page", "data": data, "start": max(0, start)})

    def set_next_input(self, s: str, replace: bool = False) -> None:
        self.payload_manager.write_payload({"source": "set_next_input", "text": s, "replace": replace})

    def ask_exit(self) -> None:
        """The process ends once the cell has."""
        self.exiting = not self.keepkernel_on_exit
        self.payload_manager.write_payload({"source": "ask_exit", "keepkernel": self.keepkernel_on_exit})

    def enable_gui(self, gui: Any = None) -> None:
        if gui not in (None, "inline", "asyncio", "agg"):
            raise UsageError(f"there is no GUI event loop here, {gui!r} neither; figures are shown inline")

    def system(self, cmd: str) -> None:
        """`!cmd`: the command writes straight to descriptors 1 and 2, or to what the code has put in the streams' place.

        `_exit_code` is negative for a signal.
        """
        streams = [getattr(sys, name, None) for name in ("stdout", "stderr")]
        ours = self.sink.streams
        own = (ours.out, ours.err) if ours is not None else streams
        takers = [None if stream in own else stream for stream in streams]
        pipes = [None if taker is None else subprocess.PIPE for taker in takers]
        command = [shutil.which("bash") or "/bin/sh", "-c", self.var_expand(cmd, depth=1)]
        if not any(pipes):
            self.user_ns["_exit_code"] = subprocess.call(command)
            return
        with subprocess.Popen(command, stdout=pipes[0], stderr=pipes[1]) as process:
            for taker, said in zip(takers, process.communicate()):
                if taker is not None and said:
                    taker.write(said.decode(errors="replace"))
        self.user_ns["_exit_code"] = process.returncode

    system_piped = system_raw = system

    def get_parent(self) -> dict[str, Any]:
        return parent_message()

    parent_header = property(lambda self: parent_message())

    def set_parent(self, parent: Any) -> None:
        """Libraries set it in threads of theirs, to have output where they want it."""
        header = parent.get("header", parent) if isinstance(parent, Mapping) else {}
        origin.set(str(header.get("msg_id", "")))

    async def run_code(self, *args: Any, **kwargs: Any) -> Any:
        failed = await super().run_code(*args, **kwargs)
        if getattr(sys, "stdout", None) is None and self.sink.streams is not None:
            self.sink.streams.heal()  # the shell looks at it next, and would take its absence for the code's error
        return failed

    def run_cell(self, *args: Any, **kwargs: Any) -> Any:
        """Called by magics and by the user's code; a session's own cells go another way."""
        result = super().run_cell(*args, **kwargs)
        caller = sys._getframe(1).f_code
        if caller.co_name == "capture" and os.path.dirname(magics.__file__) in caller.co_filename:
            # %%capture forgets how its cell ended, so that an error in it would go unnoticed.
            self.failure = result.error_before_exec or result.error_in_exec or self.failure
        return result

    # errors

    def showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
        kind, value, trace = exc_tuple or sys.exc_info()
        if value is None:
            super().showtraceback(exc_tuple, *args, **kwargs)
            return
        if isinstance(value, asyncio.CancelledError) and self.sink.interrupted():
            kind, value = KeyboardInterrupt, KeyboardInterrupt()  # that is what was meant
        trace = without_ours(value, trace)
        found = unusual(kind, value, trace, kwargs)
        if found is not None:
            self.report(found)
            return
        before = self.last_report
        super().showtraceback((kind, value, trace), *args, **kwargs)
        if self.last_report is before:  # an interrupt, or an error in the error
            self.report(Report.of(kind, value, traceback.format_exception(kind, value, trace)))

    def show_usage_error(self, exc: Any) -> None:
        """Of a magic that was called wrongly: its words are all there is to tell."""
        self.report(Report.of(type(exc), exc, [f"{type(exc).__name__}: {text_of(exc)}"]))

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        self.report(Report.of(etype, evalue, stb))

    def _format_exception_for_storage(self, exception: Any, *_: Any, **__: Any) -> dict[str, Any]:
        """IPython 9 would format each traceback a second time, to remember it."""
        return self.last_report.content() if self.last_report is not None else {}

    def report(self, found: Report) -> None:
        if self.displayhook.msg is not None and found.value is not None:
            self.failed_to_format.append(found.value)
        self.last_report = found
        sink: Sink = self.sink
        if sink.link is not None and sink.link.pid == os.getpid():
            sink.link.send("error", found.content(), parent=origin.get(), more=True)
        else:
            print("\n".join(found.traceback), file=sys.stderr)


ZMQInteractiveShell.__module__ = "ipykernel.zmqshell"


def make_shell() -> ZMQInteractiveShell:
    """The one shell of this process, without a session yet."""
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor" if version_info[0] >= 9 else "NoColor"
    config.InteractiveShell.banner1 = ""
    config.IPKernelApp.parent_appname = "cellhouse"  # tqdm and wandb look for this section
    sink = Sink()
    without_overhead()
    # As ipykernel does it: what asks in a debugger can be interrupted.
    pdb.Pdb, pdb.set_trace = debugger.InterruptiblePdb, debugger.set_trace  # type: ignore[misc]
    _pretend(ZMQInteractiveShell)
    shell: ZMQInteractiveShell = ZMQInteractiveShell.instance(config=config, sink=sink)
    shell.display_pub.sink = shell.displayhook.sink = sink
    shell.failed_to_format = []
    # Nothing is saved, so nobody else is there; and a signal's handler that raises right in a `with` of Python 3.14 leaves
    # a lock locked for ever.
    nobody: Any = contextlib.nullcontext()
    shell.history_manager.db_input_cache_lock = shell.history_manager.db_output_cache_lock = nobody
    shell.history_manager.get_tail = functools.partial(tail, shell.history_manager)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(Exception):  # an extension that is not there is not needed
            shell.extension_manager.load_extension("storemagic")
    return shell


def _pretend(shell_class: Any) -> None:
    """`ipykernel.zmqshell` is where libraries look for the class of a notebook's shell."""
    module = types.ModuleType("ipykernel.zmqshell")
    module.ZMQInteractiveShell = shell_class  # type: ignore[attr-defined]
    module.ZMQDisplayPublisher = Publisher  # type: ignore[attr-defined]
    module.ZMQShellDisplayHook = Hook  # type: ignore[attr-defined]
    sys.modules.setdefault("ipykernel.zmqshell", module)
    spec = importlib.util.find_spec("ipykernel")
    if spec is not None and spec.loader is not None and "ipykernel" not in sys.modules:
        # Its being there is the sign that some look for; it is loaded when somebody wants something of it.
        spec.loader = importlib.util.LazyLoader(spec.loader)
        package = importlib.util.module_from_spec(spec)
        sys.modules["ipykernel"] = package
        spec.loader.exec_module(package)
