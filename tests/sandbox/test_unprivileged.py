"""Run by root, the tests of the sandboxes are run once more by a user that is nobody, as most will run them."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.support import PREFIXES, ROOT

UID = 61_234  # a made-up one: in no /etc/passwd, with no home
SECONDS = 110


def closed_to_others(path: Path) -> Path | None:
    """The topmost directory on the way to a path that others can't walk through."""
    for directory in (*reversed(path.parents), path):
        if not directory.stat().st_mode & 0o001:
            return directory
    return None


def opened(paths: tuple[Path, ...], scratch: Path) -> str:
    """A script that makes the paths reachable by others, in a mount namespace of its own."""
    lines = ["set -e", "mount --make-rprivate /"]
    closed = {path: directory for path in paths if (directory := closed_to_others(path)) is not None}
    saved = [(path, scratch / f"saved-{number}") for number, path in enumerate(closed)]
    for path, aside in saved:
        lines += [f"mkdir '{aside}'", f"mount --bind '{path}' '{aside}'"]
    for directory in sorted(set(closed.values())):
        lines.append(f"mount -t tmpfs -o mode=755 tmpfs '{directory}'")
    for path, aside in saved:
        lines += [f"mkdir -p '{path}'", f"mount --bind '{aside}' '{path}'"]
    return "\n".join(lines)


@pytest.fixture
def own() -> Iterator[Path]:
    """A directory of the plain user's own; pytest's own can be entered by nobody else."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        os.chown(directory, UID, UID)
        yield Path(directory)


SOME = "exit_status or own_network or no_privilege or nothing_of_proc or close_ends or loss_of"


@pytest.mark.parametrize("chosen", [SOME, pytest.param("", marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.skipif(os.geteuid() != 0, reason="not root: the other tests have just shown it")
@pytest.mark.skipif(
    not all(map(shutil.which, ("unshare", "mount", "setpriv"))), reason="needs unshare, mount and setpriv"
)
def test_sandboxes_work_for_a_plain_user(own: Path, chosen: str) -> None:
    paths = tuple(dict.fromkeys((*(path.resolve() for path in PREFIXES), ROOT)))
    tests = [str(ROOT / "tests" / "sandbox" / name) for name in ("test_sandbox.py", "test_bubblewrap.py")]
    pytest_line = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "--basetemp",
        str(own / "t"),
    ]
    script = f"""
{opened(paths, own)}
cd '{ROOT}'
exec setpriv --reuid {UID} --regid {UID} --clear-groups --inh-caps=-all --bounding-set=-all "$@"
"""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *pytest_line, "-k", chosen, *tests],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": f"{ROOT / 'src'}",
            "HOME": str(own),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
    assert " passed" in done.stdout
