"""Runs checks in a kernel environment's Python, each in a fork of its own: one object in JSON a line, in and out."""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import session as in_memory  # type: ignore[import-not-found]


class Inside:
    """What a check has at hand."""

    @staticmethod
    def native(name: str) -> Any:
        """A module of the native kernel; nothing of it is imported before a check does so."""
        return in_memory.native(name)

    def shell(self) -> Any:
        """The native kernel's shell, without a session."""
        return self.native("shell").make_shell()

    def session(self) -> tuple[Any, Any]:
        """The shell, and the session in memory that it sends to."""
        shell = self.shell()
        return shell, in_memory.Session().attach(shell)

    @staticmethod
    def run(shell: Any, code: str) -> Any:
        return in_memory.run(shell, code)

    @staticmethod
    def without(*names: str) -> None:
        """Take attributes away, named with their module: as if this Python or IPython had none."""
        for name in names:
            module, _, attribute = name.rpartition(".")
            owner: Any = importlib.import_module(module)
            if hasattr(owner, attribute):
                delattr(owner, attribute)

    @staticmethod
    def raised(kind: Any, function: Any) -> str:
        """The text of the error of this kind that the function has to raise."""
        try:
            function()
        except kind as error:
            return str(error)
        raise AssertionError(f"no {kind}")

    @staticmethod
    def exit_code(function: Any) -> int:
        """How a process ends that calls this."""
        pid = os.fork()
        if pid == 0:
            try:
                function()
            finally:
                os._exit(99)  # it came back
        status = os.waitpid(pid, 0)[1]
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)


def check(wanted: dict[str, Any]) -> str:
    """Run one check; what went wrong, empty where nothing did."""
    # Lines as in the file, so that a traceback shows the one that failed.
    source = "from __future__ import annotations\n" + "\n" * (wanted["line"] - 2) + wanted["source"]
    found: dict[str, Any] = {"Inside": Inside}
    try:
        exec(compile(source, wanted["file"], "exec"), found)
        found[wanted["name"]](Inside())
    except BaseException:
        return traceback.format_exc()
    return ""


def main() -> None:
    in_memory.load()
    for name in (
        "concurrent.futures.thread",
        "asyncio",
        "IPython.core.interactiveshell",
        "IPython.core.magics",
    ):
        importlib.import_module(name)  # so that a fork imports little
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a check prints is no answer
    for line in sys.stdin:
        wanted = json.loads(line)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            with os.fdopen(write, "w") as pipe:
                pipe.write(check(wanted))
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            told = pipe.read()
        status = os.waitpid(pid, 0)[1]
        if status:
            told += f"\nthe check's process ended with wait status {status}"
        print(json.dumps(told), file=answers, flush=True)


if __name__ == "__main__":
    main()
