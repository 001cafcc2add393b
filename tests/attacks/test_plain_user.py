"""Run by root, the attacks are made once more by a service that is a plain user's, as most will run it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cellhouse.environments import Environment
from tests.attacks.bombs import BOMBS
from tests.attacks.conftest import SKIPPED
from tests.attacks.escapes import ESCAPES
from tests.attacks.host_probes import HOST_PROBES
from tests.attacks.probes import PROBES
from tests.attacks.siblings import ATTACKS
from tests.sandbox.support import PREFIXES, ROOT
from tests.sandbox.test_unprivileged import UID, opened

SECONDS = 600
# What code says and how much of it: there nothing asks who the service is.
WHOEVER_RUNS = ("test_forged_messages.py", "test_output_bombs.py")
PROGRAMS = ("unshare", "mount", "setpriv")


@pytest.fixture
def own() -> Iterator[Path]:
    """A directory of the plain user's own; pytest's own can be entered by nobody else."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        os.chown(directory, UID, UID)
        yield Path(directory)


@pytest.mark.walls
@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 20)
@pytest.mark.skipif(os.geteuid() != 0, reason="not root: the other tests have just shown it")
def test_the_attacks_as_a_plain_user(own: Path, environment: Environment) -> None:
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    assert not missing, f"needs {', '.join(missing)}: install util-linux"
    seen = (*PREFIXES, environment.prefix, *environment.base_prefixes)
    paths = tuple(dict.fromkeys((*(path.resolve() for path in seen), ROOT)))
    script = f"""
{opened(paths, own)}
cd '{ROOT}'
exec setpriv --reuid {UID} --regid {UID} --clear-groups --inh-caps=-all --bounding-set=-all "$@"
"""
    attacks = ROOT / "tests" / "attacks"
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(own / "t")]
    line += [f"--ignore={attacks / name}" for name in WHOEVER_RUNS]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *line, str(attacks)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": f"{ROOT / 'src'}",
            "HOME": str(own),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
    reasons = re.findall(r"^SKIPPED \[\d+\] \S+ (.+)$", done.stdout, re.MULTILINE)
    assert [reason for reason in reasons if not reason.startswith(SKIPPED)] == []
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    tried = 3 * len(ATTACKS) + len(PROBES) + len(HOST_PROBES) + 2 * (len(BOMBS) + len(ESCAPES))
    assert int(passed[1]) > tried, done.stdout[-20_000:]
