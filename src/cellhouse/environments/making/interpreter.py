"""The Python that an environment is made from."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cellhouse.model import FailedPrecondition, InvalidArgument

LEAST: Final = (3, 9)
"""The native kernel and the supervisor run in this Python and later ones."""
ASK_SECONDS: Final = 30
ANSWER_BYTES: Final = 16 * 1024

_QUESTION: Final = """
import json, os, sys, sysconfig
base = getattr(sys, "_base_executable", None) or sys.executable
print(json.dumps({
    "path": os.path.realpath(base),
    "version": ".".join(map(str, sys.version_info[:3])),
    "tag": sys.implementation.cache_tag or sys.implementation.name,
    "platform": sysconfig.get_platform(),
}))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """One Python, as it says of itself: `path` is the real file, `tag` such as cpython-311."""

    path: Path
    version: str
    tag: str
    platform: str

    def identity(self) -> dict[str, str]:
        """What makes an environment another one. Not the patch release: packages don't depend on it."""
        return {"path": str(self.path), "tag": self.tag, "platform": self.platform}


def find_interpreter(name: str | None = None) -> Interpreter:
    """By path, by a name on PATH, or by a version such as 3.12; without one, the Python that runs this.

    Runs it once, isolated. Raises InvalidArgument where there is none, FailedPrecondition where it is of no use.
    """
    if name is None:
        path = getattr(sys, "_base_executable", None) or sys.executable
    else:
        wanted = f"python{name}" if name[:1].isdigit() else name
        found = shutil.which(wanted) if os.sep not in wanted else wanted
        if found is None or not os.access(found, os.X_OK) or not Path(found).is_file():
            raise InvalidArgument.of_field(
                "python", f"{name[:200]!a} is no Python here; give the path of one, or a name that is on PATH"
            )
        path = found
    answer = _ask(path)
    version = tuple(int(part) for part in answer["version"].split(".")[:2])
    if version < LEAST:
        raise FailedPrecondition(
            f"python: {path} is Python {answer['version']}; kernels need {LEAST[0]}.{LEAST[1]} or later",
            reason="PYTHON_TOO_OLD",
            metadata={"python": str(path)[:200], "version": answer["version"][:32]},
        )
    return Interpreter(Path(answer["path"]), answer["version"], answer["tag"], answer["platform"])


def _ask(path: str) -> dict[str, str]:
    def useless(why: str) -> FailedPrecondition:
        return FailedPrecondition(
            f"python: {path} can't be used: {why}; name another one",
            reason="PYTHON_UNUSABLE",
            metadata={"python": path[:200]},
        )

    try:
        done = subprocess.run(
            [path, "-I", "-S", "-c", _QUESTION],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ASK_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise useless(f"it did not say what it is within {ASK_SECONDS} s") from None
    except OSError as error:
        raise useless(error.strerror or str(error)) from None
    if done.returncode:
        said = done.stderr[-200:].decode("utf-8", "replace").strip()
        raise useless(f"it ended with status {done.returncode}: {said}")
    try:
        answer: Any = json.loads(done.stdout[:ANSWER_BYTES])
    except ValueError:
        raise useless("what it says of itself is not JSON") from None
    names = ("path", "version", "tag", "platform")
    if not isinstance(answer, dict) or not all(isinstance(answer.get(name), str) for name in names):
        raise useless("what it says of itself is incomplete")
    return {name: answer[name] for name in names}
