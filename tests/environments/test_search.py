"""Where environments are found: the variable first, then beside the service, never by HOME."""

import sys
from pathlib import Path

import pytest

from cellhouse.environments import (
    Environment,
    default_search,
    find_environment,
    list_environments,
    search as search_module,
    survey,
)
from cellhouse.model import FailedPrecondition, InvalidArgument, NotFound
from tests.environments.fake_prefix import make_base, make_environment


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return make_base(tmp_path / "base")


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the service is made to believe it is installed; gives the directory of its environments."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "service"))
    monkeypatch.delenv("CELLHOUSE_ENV_PATH", raising=False)
    return tmp_path / "service" / "share" / "cellhouse" / "environments"


def test_default_is_found_beside_the_service_whatever_the_surroundings_say(
    service: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = make_environment(service / "default", base)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("CELLHOUSE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    assert find_environment().prefix == prefix


def test_the_variable_comes_first_and_takes_environments_and_directories_of_them(
    service: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_environment(service / "default", base)
    make_environment(service / "plain", base)
    one = make_environment(tmp_path / "one", base)
    many = make_environment(tmp_path / "many" / "default", base)
    monkeypatch.setenv("CELLHOUSE_ENV_PATH", f"{one}::{tmp_path}/many:{tmp_path}/missing")
    monkeypatch.setenv("CELLHOUSE_ENV_HOME", str(tmp_path / "home"))
    assert default_search() == [one, tmp_path / "many", tmp_path / "missing", tmp_path / "home", service]
    assert find_environment("one").prefix == one
    assert find_environment("default").prefix == many
    assert [(e.name, e.prefix) for e in list_environments()] == [
        ("one", one),
        ("default", many),
        ("plain", service / "plain"),
    ]


def test_the_home_comes_before_what_is_beside_the_service(
    service: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_environment(service / "default", base)
    home = tmp_path / "data" / "cellhouse" / "environments"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert find_environment("default").prefix == service / "default"
    made = make_environment(home / ".made" / "abc", base)
    (home / "default").symlink_to(Path(".made", "abc"))
    assert find_environment("default").prefix == made
    home.chmod(0o777)
    with pytest.raises(FailedPrecondition, match="others can write to it"):
        find_environment("default")


def test_a_relative_path_in_the_variable_is_refused(service: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELLHOUSE_ENV_PATH", "/opt/envs:envs")
    with pytest.raises(FailedPrecondition, match=r"CELLHOUSE_ENV_PATH: 'envs' is a relative path"):
        find_environment()


def test_what_is_not_found_is_told_with_where_and_the_remedy(
    service: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_environment(tmp_path / "envs" / "stats", base)
    monkeypatch.setenv("CELLHOUSE_ENV_PATH", str(tmp_path / "envs"))
    monkeypatch.setenv("CELLHOUSE_ENV_HOME", str(tmp_path / "home"))
    with pytest.raises(NotFound) as caught:
        find_environment()
    message = caught.value.message
    assert f"looked in {tmp_path}/envs, {tmp_path}/home (missing), {service} (missing)" in message
    assert "there: stats" in message
    assert "make setup" in message
    with pytest.raises(
        NotFound, match=r"make it \(cellhouse env create other\), or name its directory in CELLHOUSE_ENV_PATH"
    ):
        find_environment("other")


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "-x", "a\n", "ä", "x" * 64])
def test_a_name_can_not_lead_elsewhere(service: Path, name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        find_environment(name)
    assert caught.value.metadata == {"field": "environment"}


def test_a_broken_environment_hides_no_later_one_silently(base: Path, tmp_path: Path) -> None:
    first = make_environment(tmp_path / "first" / "default", base)
    make_environment(tmp_path / "second" / "default", base)
    (first / "bin" / "python").unlink()
    with pytest.raises(FailedPrecondition, match="no working bin/python"):
        find_environment(search=[tmp_path / "first", tmp_path / "second"])


def test_a_survey_tells_the_broken_ones_apart(base: Path, tmp_path: Path) -> None:
    good = make_environment(tmp_path / "envs" / "good", base)
    bad = make_environment(tmp_path / "envs" / "bad", base)
    (bad / "bin" / "python").unlink()
    (tmp_path / "envs" / "half").mkdir()
    (tmp_path / "envs" / "half" / ".cellhouse-unfinished").touch()
    (tmp_path / "envs" / "notes").mkdir()
    (tmp_path / "envs" / "notes.txt").touch()
    make_environment(tmp_path / "envs" / ".old", base)
    result = survey([tmp_path / "envs", tmp_path / "base" / "bin" / "python3.12"])
    assert [environment.prefix for environment in result.environments] == [good]
    assert sorted(result.broken) == ["bad", "half"]
    assert "broken off" in result.broken["half"]


def test_a_search_is_bounded(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "ENVIRONMENTS_PER_DIRECTORY", 2)
    for name in ("a", "b", "c"):
        make_environment(tmp_path / "envs" / name, base)
    assert [environment.name for environment in list_environments([tmp_path / "envs"])] == ["a", "b"]
    monkeypatch.setenv("CELLHOUSE_ENV_PATH", ":".join(["/x"] * 256))
    with pytest.raises(FailedPrecondition, match="names 256 directories"):
        default_search()


def test_the_default_environment_of_this_installation_is_whole(environment: Environment) -> None:
    assert environment.name == "default"
    assert environment.kernel().language == "python"
    assert environment.kernel().argv[0] == str(environment.python)
    assert environment.python.is_relative_to(environment.prefix)
    assert environment.prefix != Path(sys.prefix)
    assert environment.python.resolve().is_relative_to(environment.base_prefixes[-1])


def test_the_test_environment_brings_another_language(bash_environment: Environment) -> None:
    assert bash_environment.kernel("bash").language == "bash"
