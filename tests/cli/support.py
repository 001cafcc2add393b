"""Runs the command line as a person would: in a process of its own, that is forked or started."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cellhouse.environments import Environment

TIMEOUT_SECONDS = 100


@dataclass(frozen=True)
class Cli:
    """The command line with state and environments of a test."""

    state: Path
    environment: Environment
    directory: Path
    quick: list[str]
    """What a forked one begins with."""

    def __call__(
        self, *args: str, stdin: bytes = b"", extra: Sequence[Environment] = ()
    ) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            [*self.quick, *args],
            input=stdin,
            capture_output=True,
            cwd=self.directory,
            env=self.variables(extra),
            timeout=TIMEOUT_SECONDS,
            check=False,
        )

    def command(self, *args: str) -> list[str]:
        """Of one that is started."""
        return [sys.executable, "-m", "cellhouse", *args]

    def variables(self, extra: Sequence[Environment] = ()) -> dict[str, str]:
        prefixes = [str(found.prefix) for found in (self.environment, *extra)]
        return {
            **os.environ,
            "CELLHOUSE_STATE_DIR": str(self.state),
            "CELLHOUSE_ENV_PATH": os.pathsep.join(prefixes),
        }
