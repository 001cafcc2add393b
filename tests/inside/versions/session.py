"""The native shell with a session in memory: what it would send is kept. Runs in a kernel environment's Python."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Callable
from typing import Any

KERNEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../src/cellhouse/inside/kernel.py")


def load() -> None:
    """Make the package `cellhouse_native` importable, as the kernel itself does; nothing of it that counts runs."""
    spec = importlib.util.spec_from_file_location("cellhouse_native_kernel", os.path.normpath(KERNEL))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.load()


def native(name: str) -> Any:
    """A module of the native kernel."""
    return importlib.import_module(f"cellhouse_native.{name}")


class Session:
    """Stands where the link and the bundles of a session stand; `heard` is called for each message."""

    def __init__(self, heard: Callable[[str, dict[str, Any]], None] | None = None) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.pid = os.getpid()
        self.interrupts = types.SimpleNamespace(asked=False)
        self._heard = heard

    def send(self, msg_type: str, content: Any, parent: str = "", **_: Any) -> None:
        self.sent.append((msg_type, content))
        if self._heard is not None:
            self._heard(msg_type, content)

    def of(self, msg_type: str) -> list[dict[str, Any]]:
        """The contents of the messages of one type, in order."""
        return [content for kind, content in self.sent if kind == msg_type]

    def attach(self, shell: Any) -> Session:
        shell.sink.link = shell.sink.bundles = self
        return self


def run(shell: Any, code: str) -> Any:
    """Run a cell as `execution` does; IPython's ExecutionResult."""
    shell.last_report = shell.failure = None
    failed: Any = None
    try:
        transformed = shell.transform_cell(code)
    except Exception:
        transformed, failed = code, sys.exc_info()
    how = {"transformed_cell": transformed, "preprocessing_exc_tuple": failed}
    assert not shell.should_run_async(code, **how)
    try:
        shell.run_cell_async(code, **how, store_history=True, silent=False).send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("the cell awaits something")
