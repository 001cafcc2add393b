"""Houses and runners for the tests of runners."""

from pathlib import Path

from cellhouse.environments import Environment
from cellhouse.runtime import Settings


def settings_of(directory: Path, environment: Environment) -> Settings:
    """A house with real kernels."""
    return Settings(state_dir=directory / "state", environments=(environment.prefix.parent,))
