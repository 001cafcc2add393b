"""A pytest plugin for IPython's own tests: the shell that they test is the native kernel's. Runs in an environment.

IPython's conftest makes its shell with `TerminalInteractiveShell.instance`; here that gives ours, attached to a session
in memory that prints what it is sent. With CELLHOUSE_SHELL=theirs only outcomes are taken down.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import session as in_memory  # type: ignore[import-not-found]

outcomes: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}


def heard(msg_type: str, content: dict[str, Any]) -> None:
    """As a terminal would show it, which is what IPython's tests look at."""
    if msg_type == "error":
        text = "\n".join(content["traceback"])
        # The two that IPython itself does not print through `_showtraceback`.
        apart = content["ename"] == "UsageError" or "Exception Group Traceback" in text
        print(text, file=sys.stderr if apart else sys.stdout)
    elif msg_type == "execute_result":
        print(f"Out[{content['execution_count']}]: {content['data'].get('text/plain', '')}")
    elif "data" in content and "text/plain" in content["data"]:
        print(content["data"]["text/plain"])


def _show_pages(payloads: Any) -> None:
    """What goes to the pager is printed, too."""
    write = payloads.write_payload

    def write_and_show(data: Any, *args: Any, **options: Any) -> None:
        write(data, *args, **options)
        if data.get("source") == "page":
            print(data["data"].get("text/plain", ""))

    payloads.write_payload = write_and_show


class Ours:
    """Stands where the class TerminalInteractiveShell stood."""

    _instance: Any = None

    def __new__(cls, **options: Any) -> Any:
        shell = in_memory.native("shell")
        sink = shell.Sink()
        made = shell.ZMQInteractiveShell(sink=sink, **options)
        made.display_pub.sink = made.displayhook.sink = sink
        return made

    @classmethod
    def instance(cls, *_: Any, **__: Any) -> Any:
        if cls._instance is None:
            in_memory.load()
            cls._instance = in_memory.native("shell").make_shell()
            in_memory.Session(heard).attach(cls._instance)
            _show_pages(cls._instance.payload_manager)
        return cls._instance


if os.environ.get("CELLHOUSE_SHELL") != "theirs":
    from IPython.terminal import interactiveshell

    interactiveshell.TerminalInteractiveShell = Ours


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" or report.outcome != "passed":
        outcome = "skipped" if hasattr(report, "wasxfail") else report.outcome
        outcomes[outcome].append(report.nodeid)


def pytest_collectreport(report: Any) -> None:
    if report.outcome == "failed":
        outcomes["failed"].append(report.nodeid)


def pytest_sessionfinish() -> None:
    with open(os.environ["CELLHOUSE_OUTCOMES"], "w", encoding="utf-8") as file:
        json.dump(outcomes, file)
