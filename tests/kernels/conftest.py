"""The environment whose libraries the corpus is about."""

import sys
from pathlib import Path

import pytest

from cellhouse.environments import Environment, find_environment
from cellhouse.model import CellhouseError

SHARE = Path(sys.prefix, "share", "cellhouse")


@pytest.fixture(scope="session")
def library_environment() -> Environment:
    """The kernel environment `libraries-test`: the default one and more libraries that show things."""
    try:
        return find_environment("libraries-test", [Path(SHARE, "test-environments")])
    except CellhouseError as error:
        pytest.fail(f"{error}\nFor tests: make setup-dev", pytrace=False)
