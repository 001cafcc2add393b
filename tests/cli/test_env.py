"""`cellhouse env` as it is typed. That installing works is tested where it is done."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cellhouse.cli.app import app
from tests.environments.fake_prefix import add_ipython, make_base, make_environment

USAGE, OTHER = 2, 3


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CELLHOUSE_ENV_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CELLHOUSE_ENV_PATH", raising=False)
    return tmp_path / "home"


def env(*args: str) -> Result:
    return CliRunner().invoke(app, ["env", *args])


def test_a_registered_prefix_is_listed_shown_and_forgotten(home: Path, tmp_path: Path) -> None:
    prefix = make_environment(tmp_path / "conda", make_base(tmp_path / "base"))
    add_ipython(prefix, "9.1.0")
    made = env("register", "mine", str(prefix))
    assert (made.exit_code, made.stdout) == (0, "mine: registered; kernels: native, python3\n")
    (listed,) = [
        each for each in json.loads(env("list", "--json").stdout)["environments"] if each["name"] == "mine"
    ]
    assert listed["prefix"] == str(home / "mine")
    assert listed["packages"] == [{"name": "ipython", "version": "9.1.0"}]
    assert listed["made"] is True
    shown = json.loads(env("show", "mine", "--json").stdout)
    assert int(shown["sizeBytes"]) > 0
    assert "lock" not in shown
    assert "mine" in env("list").stdout
    assert "ipython" in env("show", "mine").stdout
    again = env("register", "mine", str(tmp_path / "conda"))
    assert again.exit_code == 0  # it means that already
    removed = env("remove", "mine")
    assert removed.stdout == f"mine: forgotten; {prefix} is left as it is\n"
    assert prefix.is_dir()


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (("create", ".hidden", "--with", "x"), USAGE, "can't name an environment"),
        (("create", "a", "--with", "-e ."), USAGE, "is an option of pip"),
        (("create", "a", "--installer", "conda"), USAGE, "there are uv and pip"),
        (("create", "a", "--python", "python-of-nobody"), USAGE, "is no Python here"),
        (("create", "a", "-r", "/missing/requirements.txt"), USAGE, "can't be read"),
        (("show", "nothing"), USAGE, "cellhouse env create nothing"),
        (("remove", "nothing"), USAGE, "is not among those made here"),
        (("register", "a"), USAGE, "give either PREFIX or --kernelspec"),
        (("register", "a", "/missing"), USAGE, "is no directory"),
        (("register", "a", "/usr", "--show", "/opt"), USAGE, "go with --kernelspec"),
    ],
)
def test_what_can_not_be_is_told_and_nothing_is_made(
    home: Path, args: tuple[str, ...], status: int, said: str
) -> None:
    result = env(*args)
    assert result.exit_code == status, result.stderr
    assert said in result.stderr
    assert result.stderr.startswith(f"cellhouse env {args[0]}: ")
    assert not home.exists() or [each.name for each in home.iterdir() if not each.name.startswith(".")] == []
