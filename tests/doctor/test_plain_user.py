"""Run by root, doctor is run once more by a user that is nobody: what only root can have is told as absent or watched."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cellhouse.doctor import DoctorReport, LayerStatus
from cellhouse.environments import Environment
from cellhouse.model import Enforcement
from tests.doctor.support import layers_of, level_of, limits_of
from tests.sandbox.support import PREFIXES, ROOT
from tests.sandbox.test_unprivileged import UID, opened

SECONDS = 100


@pytest.fixture
def own() -> Iterator[Path]:
    """A directory of the plain user's own; pytest's own can be entered by nobody else."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        os.chown(directory, UID, UID)
        yield Path(directory)


@pytest.mark.skipif(os.geteuid() != 0, reason="not root: the other tests have just shown it")
@pytest.mark.skipif(
    not all(map(shutil.which, ("unshare", "mount", "setpriv"))), reason="needs unshare, mount and setpriv"
)
def test_a_plain_user_is_told_what_only_root_can_have(own: Path, environment: Environment) -> None:
    seen = (*PREFIXES, environment.prefix, *environment.base_prefixes)
    paths = tuple(dict.fromkeys((*(path.resolve() for path in seen), ROOT)))
    script = f"""
{opened(paths, own)}
exec setpriv --reuid {UID} --regid {UID} --clear-groups --inh-caps=-all --bounding-set=-all "$@"
"""
    done = subprocess.run(
        [
            *("unshare", "--mount", "sh", "-c", script, "sh"),
            *(sys.executable, "-m", "cellhouse", "doctor", "--json", "--seconds", "60"),
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd="/",
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": f"{ROOT / 'src'}",
            "HOME": str(own),
            "CELLHOUSE_ENV_PATH": str(environment.prefix),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = DoctorReport.from_json(done.stdout)
    assert report.ok
    assert (report.machine.uid, report.machine.root) == (UID, False)
    level = level_of(report, "bubblewrap")
    layers = layers_of(level)
    for name in ("mount", "pid", "network", "user", "ipc", "seccomp"):
        assert layers[name].status is LayerStatus.IN_FORCE, layers[name]
    assert layers["uid"].status is LayerStatus.ABSENT
    assert layers["uid"].remedy == "run the service as root"
    limits = limits_of(level)
    for name in ("content", "memory"):
        assert limits[name].enforcement is Enforcement.WATCHED, limits[name]
        assert limits[name].status is LayerStatus.IN_FORCE, limits[name]
        assert "as root" in (limits[name].remedy or "")
    assert limits["openFiles"].enforcement is Enforcement.EXACT
    assert report.state.directory == str(own / ".local" / "state" / "cellhouse")
    assert list((own / ".local" / "state" / "cellhouse").iterdir()) == []
