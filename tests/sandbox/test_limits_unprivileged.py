"""Run by root, the tests of limits are run once more by a user that is nobody: there is a watcher then, and no cgroup."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cellhouse.environments import Environment
from tests.sandbox.support import PREFIXES, ROOT
from tests.sandbox.test_unprivileged import UID, opened

SECONDS = 110
ALL = ("tests/sandbox/test_limits.py", "tests/promises/test_promise_6_limits.py")


@pytest.fixture
def own() -> Iterator[Path]:
    """A directory of the plain user's own; pytest's own can be entered by nobody else."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        os.chown(directory, UID, UID)
        yield Path(directory)


@pytest.mark.parametrize(
    "tests", [ALL[:1], pytest.param(ALL[1:], marks=pytest.mark.slow)], ids=["sandbox", "house"]
)
@pytest.mark.skipif(os.geteuid() != 0, reason="not root: the other tests have just shown it")
@pytest.mark.skipif(
    not all(map(shutil.which, ("unshare", "mount", "setpriv"))), reason="needs unshare, mount and setpriv"
)
def test_limits_for_a_plain_user(own: Path, environment: Environment, tests: tuple[str, ...]) -> None:
    seen = (*PREFIXES, environment.prefix, *environment.base_prefixes)
    paths = tuple(dict.fromkeys((*(path.resolve() for path in seen), ROOT)))
    script = f"""
{opened(paths, own)}
cd '{ROOT}'
exec setpriv --reuid {UID} --regid {UID} --clear-groups --inh-caps=-all --bounding-set=-all "$@"
"""
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(own / "t")]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *line, *tests],
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
