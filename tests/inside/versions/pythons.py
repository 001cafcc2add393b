"""The Pythons of this machine, one of each supported minor version."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

MINORS = range(9, 15)
"""3.9 to 3.14: what the native kernel has to run in."""
SECONDS = 60.0

# A virtual environment's own interpreter counts as what it was made from; a launcher that leads nowhere fails here.
ASK = (
    "import os, sys, venv, ensurepip, ssl, sqlite3, ctypes\n"
    "print(*sys.version_info[:3], os.path.realpath(getattr(sys, '_base_executable', None) or sys.executable))"
)


@dataclass(frozen=True, slots=True, order=True)
class Python:
    version: tuple[int, int, int]
    path: Path

    @property
    def minor(self) -> str:
        return f"{self.version[0]}.{self.version[1]}"

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


def find(environ: Mapping[str, str], minors: range | list[int] = MINORS) -> dict[str, Python | None]:
    """By minor version the newest that works, from PATH, pyenv and uv; None where there is none."""
    found: dict[str, Python | None] = {}
    for minor in minors:
        known = [python for path in _candidates(environ, minor) if (python := ask(path)) is not None]
        found[f"3.{minor}"] = max((p for p in known if p.version[:2] == (3, minor)), default=None)
    return found


def _candidates(environ: Mapping[str, str], minor: int) -> Iterator[Path]:
    home = Path(environ.get("HOME", "/"))
    for directory in environ.get("PATH", "").split(os.pathsep):
        path = Path(directory, f"python3.{minor}")
        if directory and path.is_file():
            yield path
    pyenv = Path(environ.get("PYENV_ROOT") or home / ".pyenv")
    uv = Path(environ.get("UV_PYTHON_INSTALL_DIR") or home / ".local" / "share" / "uv" / "python")
    for prefix in sorted([*pyenv.glob(f"versions/3.{minor}.*"), *uv.glob(f"cpython-3.{minor}.*")]):
        path = prefix / "bin" / f"python3.{minor}"
        if path.is_file():
            yield path


def ask(path: Path) -> Python | None:
    """What this interpreter is; None where it does not run, or lacks what an environment needs."""
    try:
        done = subprocess.run(
            [path, "-I", "-c", ASK], capture_output=True, text=True, timeout=SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    major, minor, micro, real = done.stdout.rstrip("\n").split(" ", 3)
    return Python((int(major), int(minor), int(micro)), Path(real))
