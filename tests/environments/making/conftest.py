import sys
from pathlib import Path

import pytest

from cellhouse.environments.making import EnvironmentHome, Interpreter, find_interpreter
from tests.environments.making.wheels import make_index


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where both installers look, and nowhere else."""
    directory = make_index(tmp_path / "index")
    for name, value in (("NO_INDEX", "1"), ("FIND_LINKS", str(directory))):
        monkeypatch.setenv(f"PIP_{name}", value)
        monkeypatch.setenv(f"UV_{name}", value)
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    return directory


@pytest.fixture
def home(tmp_path: Path) -> EnvironmentHome:
    return EnvironmentHome(tmp_path / "home")


@pytest.fixture(scope="session")
def interpreter() -> Interpreter:
    return find_interpreter()


@pytest.fixture(params=["uv", pytest.param("pip", marks=pytest.mark.slow)])
def installer(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name
