"""An environment's Python that runs checks of ours, and the tests that are made of them."""

import inspect
import json
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.inside.versions.served import Inside

SERVED = Path(__file__).with_name("served.py")
Check = Callable[[Inside], None]


class Interpreter:
    """One process for all checks; each runs in a fork of it."""

    def __init__(self, python: Path, directory: Path) -> None:
        self._process = subprocess.Popen(
            ["env", f"HOME={directory}", f"IPYTHONDIR={directory}", str(python), "-I", "-B", str(SERVED)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=directory,
        )

    def run(self, check: Check) -> None:
        """Fails with the traceback of the check, where that fails."""
        lines, line = inspect.getsourcelines(check)
        while not lines[0].startswith("def "):  # decorators
            lines, line = lines[1:], line + 1
        wanted = {
            "source": textwrap.dedent("".join(lines)),
            "line": line,
            "file": inspect.getsourcefile(check),
            "name": check.__name__,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(wanted), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        told = json.loads(answer) if answer else "the environment's Python is gone; its words are above"
        if told:
            pytest.fail(told, pytrace=False)

    def close(self) -> None:
        self._process.communicate(timeout=30)


def inside(check: Check) -> Callable[[Interpreter], None]:
    """A test whose body runs in each environment's Python: 3.9 and later, and nothing of this file but its argument."""

    def test(interpreter: Interpreter) -> None:
        interpreter.run(check)

    test.__name__ = check.__name__
    test.__doc__ = check.__doc__
    return test
