"""The command line for a test."""

import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from cellhouse.environments import Environment
from tests.cli.support import Cli

LAUNCHER = Path(__file__).with_name("launcher.py")


@pytest.fixture(scope="session")
def quick(world: object) -> Iterator[list[str]]:
    """What to start a command with so that it need not be loaded anew; see `template.py`."""
    name = f"cellhouse-test-{uuid.uuid4().hex}"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0{name}")
        listening.listen()
        template = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.template", str(listening.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[listening.fileno()],
        )
    with template:
        yield [sys.executable, "-IS", str(LAUNCHER), name]


@pytest.fixture
def cli(environment: Environment, quick: list[str], tmp_path: Path) -> Cli:
    directory = tmp_path / "here"
    directory.mkdir()
    return Cli(tmp_path / "state", environment, directory, quick)
