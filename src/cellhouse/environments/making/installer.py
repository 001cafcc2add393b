"""Who resolves and installs: uv where it is there, else pip. Both are run as programs, in this account's name."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from cellhouse.environments.making.asked import Asked
from cellhouse.environments.making.lock import BadLock, Lock, Locked, canonical
from cellhouse.model import FailedPrecondition

REPORT_BYTES: Final = 64 << 20
SAID_BYTES: Final = 1 << 20
SHOWN_LINES: Final = 30
SHOWN_CHARS: Final = 4000
# Settings that would send packages elsewhere. What else is configured (an index, a proxy, certificates) stays in force.
_ELSEWHERE: Final = (
    "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_PYTHON",
    "PIP_REQUIRE_VIRTUALENV", "PIP_DRY_RUN", "PIP_REPORT", "UV_SYSTEM_PYTHON", "UV_PROJECT_ENVIRONMENT", "UV_PYTHON",
)  # fmt: skip


class BuildFailed(FailedPrecondition):
    """What was asked for could not be resolved or installed; the message ends with what the tool said."""


class Installer(Protocol):
    """One way of making environments."""

    name: str

    def resolve(self, asked: Asked) -> Lock:
        """Raises BuildFailed."""

    def build(self, prefix: Path, asked: Asked, lock: Lock) -> None:
        """A virtual environment at `prefix`, which exists, with exactly these packages. Raises BuildFailed."""


@contextlib.contextmanager
def find_installer(name: str | None = None) -> Iterator[Installer]:
    """ "uv", "pip", or without a name uv where it is on PATH, else pip. Raises FailedPrecondition."""
    uv = shutil.which("uv")
    if name == "pip" or (name is None and uv is None):
        with _directory() as work:
            yield Pip(work)
        return
    if uv is None:
        raise FailedPrecondition(
            "uv is not on PATH; install it, or take --installer pip", reason="NO_INSTALLER"
        )
    yield Uv(uv)


class Uv:
    """https://docs.astral.sh/uv: seconds instead of minutes."""

    name = "uv"

    def __init__(self, program: str) -> None:
        self._program = program

    def resolve(self, asked: Asked) -> Lock:
        with _directory() as work:
            requirements = work / "requirements.in"
            requirements.write_text("".join(f"{line}\n" for line in asked.requirements()))
            argv = [
                self._program,
                "pip",
                "compile",
                "--quiet",
                "--generate-hashes",
                "--no-header",
                "--no-annotate",
            ]
            argv += ["--no-emit-index-url", "--no-emit-find-links", "--python", str(asked.interpreter.path)]
            locked = work / "locked.txt"
            _run([*argv, "--output-file", str(locked), str(requirements)], "resolve", cwd=work)
            try:
                return _pinned(Lock.of_requirements(locked.read_text()))
            except BadLock as error:
                raise _unlockable(str(error)) from None

    def build(self, prefix: Path, asked: Asked, lock: Lock) -> None:
        with _directory() as work:
            python = str(asked.interpreter.path)
            quiet = [self._program, "--quiet"]
            _run(
                [*quiet, "venv", "--allow-existing", "--no-project", "--python", python, str(prefix)],
                "make",
                cwd=work,
            )
            install = [*quiet, "pip", "install", "--no-deps", "--compile-bytecode", "--link-mode", "copy"]
            install += ["--python", str(prefix / "bin" / "python")]
            _install(install, lock, work)


class Pip:
    """The pip that comes with the Python that the environment is made from, in a passing environment of its own."""

    name = "pip"

    def __init__(self, directory: Path) -> None:
        """The directory is ours, and passes."""
        self._directory = directory

    def resolve(self, asked: Asked) -> Lock:
        with _directory() as work:
            requirements = work / "requirements.in"
            requirements.write_text("".join(f"{line}\n" for line in asked.requirements()))
            report = work / "report.json"
            argv = [
                *self._pip(work, asked),
                "install",
                "--dry-run",
                "--ignore-installed",
                "--report",
                str(report),
            ]
            _run([*argv, "-r", str(requirements)], "resolve", cwd=work)
            return lock_of_report(_report(report))

    def build(self, prefix: Path, asked: Asked, lock: Lock) -> None:
        with _directory() as work:
            _run([str(asked.interpreter.path), "-m", "venv", "--without-pip", str(prefix)], "make", cwd=work)
            pip = [*self._pip(work, asked), "--python", str(prefix / "bin" / "python")]
            _install([*pip, "install", "--no-deps", "--compile", "--no-warn-script-location"], lock, work)

    def _pip(self, work: Path, asked: Asked) -> list[str]:
        """The command of a pip that belongs to nobody: `--python` lets it install elsewhere."""
        python = self._directory / "bin" / "python"
        if not python.exists():
            _run([str(asked.interpreter.path), "-m", "venv", str(self._directory)], "make", cwd=work)
        return [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]


def lock_of_report(report: Mapping[str, Any]) -> Lock:
    """From pip's installation report (format 1). Raises BuildFailed for what nothing pins."""
    listed = report.get("install")
    if not isinstance(listed, list):
        raise _unlockable("pip's report lists nothing")
    try:
        return _pinned(Lock.of([_reported(item) for item in listed]))
    except (KeyError, TypeError, AttributeError) as error:
        raise _unlockable(f"pip's report can't be read: {error!r}") from None


def _reported(item: Mapping[str, Any]) -> Locked:
    name, version = canonical(str(item["metadata"]["name"])), str(item["metadata"]["version"])
    source = item["download_info"]
    url = str(source["url"])
    if (repository := source.get("vcs_info")) is not None:
        return Locked(name, version, f"{repository['vcs']}+{url}@{repository['commit_id']}")
    if "dir_info" in source:
        raise _unlockable(
            f"{name} comes from a directory, which can change under its name; give a wheel of it"
        )
    hashes = tuple(sorted(f"{kind}:{digest}" for kind, digest in source["archive_info"]["hashes"].items()))
    return Locked(name, version, url if item.get("is_direct") else "", hashes)


def _pinned(lock: Lock) -> Lock:
    for each in lock.packages:
        if not each.hashes and "+" not in each.url.partition("://")[0]:
            raise _unlockable(
                f"{each.name} has no digest; give a release of it, an archive, or a repository at a commit"
            )
    return lock


def _unlockable(why: str) -> BuildFailed:
    return BuildFailed(f"the environment can't be locked: {why}", reason="ENVIRONMENT_UNLOCKABLE")


def _report(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        data = file.read(REPORT_BYTES + 1)
    if len(data) > REPORT_BYTES:
        raise _unlockable(f"pip's report has more than {REPORT_BYTES} bytes")
    document = json.loads(data)
    return document if isinstance(document, dict) else {}


def _install(argv: Sequence[str], lock: Lock, work: Path) -> None:
    for text, more in ((lock.hashed(), ["--require-hashes"]), (lock.unhashed(), [])):
        if text:
            file = work / f"lock{len(more)}.txt"
            file.write_text(text)
            _run([*argv, *more, "-r", str(file)], "install", cwd=work)


@contextlib.contextmanager
def _directory() -> Iterator[Path]:
    """A passing one of this account's own."""
    with tempfile.TemporaryDirectory(prefix="cellhouse-env-") as made:
        yield Path(made)


def _run(argv: Sequence[str], verb: str, *, cwd: Path) -> None:
    """To its end; what it says is kept for when it fails. Raises BuildFailed."""
    environment = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    with (cwd / "said").open("w+b") as said:
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=cwd,
                env=environment,
                umask=0o022,
                check=False,
            )
        except OSError as error:
            raise BuildFailed(
                f"{argv[0]} could not be run: {error.strerror}", reason="NO_INSTALLER"
            ) from None
        if done.returncode == 0:
            return
        said.seek(max(0, said.seek(0, os.SEEK_END) - SAID_BYTES))
        text = said.read().decode("utf-8", "replace")
    tail = "\n".join(text.rstrip().splitlines()[-SHOWN_LINES:])[-SHOWN_CHARS:]
    reason = "ENVIRONMENT_UNSOLVABLE" if verb == "resolve" else "ENVIRONMENT_BUILD_FAILED"
    how = f"status {done.returncode}" if done.returncode >= 0 else f"signal {-done.returncode}"
    raise BuildFailed(
        f"{Path(argv[0]).name} could not {verb} the environment ({how}); it said:\n{tail or '(nothing)'}",
        reason=reason,
    )
