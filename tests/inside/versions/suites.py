"""IPython's own tests of the parts that the native kernel's shell is made from, with that shell under test."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.inside.versions.inapplicable import reason
from tests.inside.versions.prefixes import CACHE, CanNotBeMade, Prefix, install

HERE = Path(__file__).parent
SUITES = CACHE.with_name("version-suites")
SECONDS = 1200.0
NEEDED = (
    "pytest",
    "pytest-asyncio",
    "pytest-timeout",
    "testpath",
    "packaging",
    "setuptools",
    "tomli",
    "exceptiongroup",
)
FILES = (
    "alias", "async_helpers", "autocall", "capture", "compilerop", "completer", "completerlib", "display",
    "display_2", "display_functions", "display_trap", "displayhook", "error", "events", "exceptiongroup_tb",
    "extension", "formatters", "guarded_eval", "handlers", "history", "hooks", "imports", "inputtransformer2",
    "inputtransformer2_line", "interactiveshell", "iplib", "logger", "macro", "magic", "magic_arguments",
    "magics_code", "oinspect", "page", "payload", "prefilter", "pretty", "run", "splitinput", "storemagic",
    "syspathcontext", "tokenutil", "ultratb",
)  # fmt: skip
"""Test files by what follows `test_`; a version has those of them that it has."""


@dataclass(slots=True)
class Verdict:
    passed: int = 0
    skipped: int = 0
    inapplicable: list[str] = field(default_factory=list)
    theirs: list[str] = field(default_factory=list)
    """Fail with IPython's own shell, too."""
    failed: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    """Said not to apply, and pass."""
    trouble: str = ""

    @property
    def good(self) -> bool:
        return not self.failed and not self.stale and not self.trouble and self.passed > 0


def run(prefix: Prefix, log: Path) -> Verdict:
    """Raises CanNotBeMade where the tests can't be had."""
    source = _source(prefix.ipython)
    libraries = _libraries(prefix)
    tests = sorted(path for path in source.rglob("test_*.py") if path.stem[5:] in FILES and _counts(path))
    names = [str(path.relative_to(source)) for path in tests]
    outcomes, words = _pytest(prefix, source, libraries, names, "ours", log)
    if outcomes is None:
        return Verdict(trouble=words)
    verdict = Verdict(passed=len(outcomes["passed"]), skipped=len(outcomes["skipped"]))
    failed = sorted(set(outcomes["failed"]))
    verdict.stale = sorted(name for name in outcomes["passed"] if reason(name) is not None)
    verdict.inapplicable = [name for name in failed if reason(name) is not None]
    if unexpected := [name for name in failed if reason(name) is None]:
        again, _ = _pytest(prefix, source, libraries, unexpected, "theirs", log.with_suffix(".theirs.log"))
        theirs = set(again["failed"]) if again is not None else set()
        verdict.theirs = [name for name in unexpected if name in theirs]
        verdict.failed = [name for name in unexpected if name not in theirs]
    return verdict


def _counts(path: Path) -> bool:
    return path.parent.name == "tests" and "terminal" not in path.parts


def _source(version: str) -> Path:
    """IPython's own release, unpacked."""
    source = SUITES / f"ipython-{version}"
    if source.is_dir():
        return source
    with_archive = SUITES / "archives"
    argv = [sys.executable, "-m", "pip", "download", "-qq", "--disable-pip-version-check", "--no-deps"]
    argv += ["--no-binary", "ipython", "--dest", str(with_archive), f"ipython=={version}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CanNotBeMade(f"pip could not download the sources of IPython {version}:\n{done.stderr[-2000:]}")
    unpacked = SUITES / f".ipython-{version}"
    shutil.rmtree(unpacked, ignore_errors=True)
    with tarfile.open(with_archive / f"ipython-{version}.tar.gz") as archive:
        archive.extractall(unpacked, filter="data")
    (unpacked / f"ipython-{version}").rename(source)
    unpacked.rmdir()
    return source


def _libraries(prefix: Prefix) -> Path:
    """What IPython's tests need, beside the environment and not in it."""
    libraries = SUITES / f"libraries-{prefix.python.minor}"
    if libraries.is_dir():
        return libraries
    made = libraries.with_name(f".{libraries.name}")
    shutil.rmtree(made, ignore_errors=True)
    install(prefix.python, prefix.interpreter, "--target", str(made), *NEEDED)
    made.rename(libraries)
    return libraries


def _pytest(
    prefix: Prefix, source: Path, libraries: Path, names: list[str], shell: str, log: Path
) -> tuple[dict[str, list[str]] | None, str]:
    """Outcomes by name, or None and what happened instead. A copy is what runs: the tests write where they are."""
    place = SUITES / "running"
    shutil.rmtree(place, ignore_errors=True)
    home = place / "home"
    home.mkdir(parents=True)
    shutil.copytree(source, place / "source")
    told = place / "outcomes.json"
    environ = {
        "PATH": os.pathsep.join([str(prefix.path / "bin"), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(map(str, (place / "source", HERE, libraries))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(home),
        "IPYTHONDIR": str(home / ".ipython"),
        "LANG": "C.UTF-8",
        "TMPDIR": str(home),
        "CELLHOUSE_SHELL": shell,
        "CELLHOUSE_OUTCOMES": str(told),
    }
    argv = [str(prefix.interpreter), "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider"]
    argv += [
        "-p",
        "ipython_plugin",
        "-o",
        "addopts=",
        "-o",
        "filterwarnings=default",
        "-o",
        "timeout=120",
        *names,
    ]
    with log.open("w") as output:
        try:
            done = subprocess.run(
                argv,
                cwd=place / "source",
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None, f"they did not end within {SECONDS:.0f} s; {log}"
    if not told.is_file():
        return None, f"pytest ended with {done.returncode} and told nothing; {log}"
    outcomes: dict[str, list[str]] = json.loads(told.read_text())
    shutil.rmtree(place, ignore_errors=True)
    return outcomes, ""
