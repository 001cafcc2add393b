"""examples/agents run as they stand there."""

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import GIVEN_ENVIRONMENTS

EXAMPLES = Path(__file__).parents[2] / "examples" / "agents"


def test_the_scripted_agent_is_told_of_each_mistake_and_answers(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "CELLHOUSE_STATE_DIR": str(tmp_path / "state"),
        "CELLHOUSE_ENV_PATH": os.pathsep.join(map(str, GIVEN_ENVIRONMENTS)),
    }
    done = subprocess.run(
        [sys.executable, EXAMPLES / "scripted_smolagent.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout
    for words in (
        "stdout was cut: only its beginning and its end are shown; it had ",
        '- "head.csv", ',
        "499999500000",
        "about to end the process",
        "exit status: 1",
        "session: reset; variables and imports are gone",
        "notice FRESH_KERNEL",
        "--- the answer:\n{'total': 'about 500 thousand million'}",
    ):
        assert words in told, told
