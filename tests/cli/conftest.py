"""The command line for a test."""

from pathlib import Path

import pytest

from cellhouse.environments import Environment
from tests.cli.support import Cli


@pytest.fixture
def cli(environment: Environment, tmp_path: Path) -> Cli:
    directory = tmp_path / "here"
    directory.mkdir()
    return Cli(tmp_path / "state", environment, directory)
