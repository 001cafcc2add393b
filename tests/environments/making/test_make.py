"""Environments are made by either installer, once, and nothing half made is left."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from cellhouse.environments import Use, find_environment, read_environment, survey
from cellhouse.environments.making import (
    BuildFailed,
    EnvironmentHome,
    Interpreter,
    Lock,
    Made,
    facts,
    find_installer,
    make_environment,
    read_requirements,
)
from cellhouse.environments.making.asked import Asked
from cellhouse.environments.prefix import UNFINISHED
from cellhouse.model import AlreadyExists, FailedPrecondition, NotFound
from tests.environments.making.wheels import make_wheel


class Fake:
    """An installer that does what a test says, and counts."""

    name = "fake"

    def __init__(self, *locks: Lock, fails: BaseException | None = None) -> None:
        self.locks, self.fails = list(locks), fails
        self.built = self.resolved = 0

    def resolve(self, asked: Asked) -> Lock:
        self.resolved += 1
        return self.locks[min(self.resolved, len(self.locks)) - 1]

    def build(self, prefix: Path, asked: Asked, lock: Lock) -> None:
        self.built += 1
        (prefix / "bin").mkdir()
        (prefix / "bin" / "python").symlink_to(asked.interpreter.path)
        (prefix / "pyvenv.cfg").write_text(f"home = {asked.interpreter.path.parent}\n")
        if self.fails is not None:
            raise self.fails


def lock_of(*pins: str) -> Lock:
    return Lock.of_requirements("".join(f"{pin} --hash=sha256:{'0' * 64}\n" for pin in pins))


def make(
    home: EnvironmentHome,
    name: str,
    interpreter: Interpreter,
    *packages: str,
    tool: str,
    upgrade: bool = False,
) -> Made:
    with find_installer(tool) as installer:
        asked = read_requirements(interpreter, packages, ())
        return make_environment(home, name, asked, installer, upgrade=upgrade, replace=upgrade)


def left(home: EnvironmentHome) -> Iterable[str]:
    return sorted(os.listdir(home.path / ".made"))


@pytest.mark.parametrize("tool", ["uv", "pip"])
def test_what_was_asked_for_is_installed_and_locked(
    home: EnvironmentHome, interpreter: Interpreter, tool: str, index: Path
) -> None:
    made = make(home, "mine", interpreter, "other", tool=tool)
    assert made.built
    found = find_environment("mine", [home.path])
    assert found.ipython == "9.1.0"
    told = facts(found, size=True)
    assert dict(told.packages) == {"ipython": "9.1.0", "other": "1.0", "pip": "99.0", "thing": "1.0"}
    assert told.lock == made.lock
    assert [each.name for each in made.lock.packages] == ["ipython", "other", "pip", "thing"]
    assert all(each.hashes for each in made.lock.packages)
    assert told.size_bytes is not None
    assert told.size_bytes > 0
    said = subprocess.run(
        [found.python, "-c", "import thing; print(thing.version)"], capture_output=True, text=True, check=True
    )
    assert said.stdout == "1.0\n"
    # Everyone can read it, and compiled files are there: inside nobody can write them.
    assert all(path.stat().st_mode & 0o005 for path in found.prefix.rglob("*.py"))
    assert list(found.prefix.glob("lib/python3*/site-packages/__pycache__/thing.*.pyc"))


def test_what_can_not_be_solved_says_why_and_leaves_nothing(
    home: EnvironmentHome, interpreter: Interpreter, installer: str, index: Path
) -> None:
    with pytest.raises(BuildFailed, match="thing") as caught:
        make(home, "mine", interpreter, "other", "thing>=2", tool=installer)
    assert caught.value.reason == "ENVIRONMENT_UNSOLVABLE"
    assert (left(home), home.entries()) == ([], [])


def test_a_package_that_changed_since_it_was_locked_is_not_installed(
    home: EnvironmentHome,
    interpreter: Interpreter,
    installer: str,
    index: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = read_requirements(interpreter, ["thing==2.0"], ())
    with find_installer(installer) as tool:
        lock = tool.resolve(asked)
        make_wheel(index, "thing", "2.0", ("ipython",))
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "another"))  # the first has what was locked
        with home.held():
            home.remember(asked.digest(), lock)
        with pytest.raises(BuildFailed) as caught:
            make_environment(home, "mine", asked, tool)
    assert caught.value.reason == "ENVIRONMENT_BUILD_FAILED"
    assert "hash" in caught.value.message.lower()
    assert (left(home), home.entries()) == ([], [])


def test_the_same_request_is_the_same_environment(home: EnvironmentHome, interpreter: Interpreter) -> None:
    tool = Fake(lock_of("a==1"), lock_of("a==2"))
    asked = read_requirements(interpreter, ["a", "b"], ())
    first = make_environment(home, "first", asked, tool)
    # Others words for it, another order, another name: still the same; and asked again, it is there.
    second = make_environment(home, "second", read_requirements(interpreter, ["b", "a", " a "], ()), tool)
    again = make_environment(home, "first", asked, tool)
    assert (tool.resolved, tool.built) == (1, 1)
    assert [each.built for each in (first, second, again)] == [True, False, False]
    assert first.environment.prefix == second.environment.prefix
    # Another request that comes to the same packages needs no second copy.
    third = make_environment(home, "third", read_requirements(interpreter, ["c"], ()), Fake(lock_of("a==1")))
    assert third.environment.prefix == first.environment.prefix


def test_upgrading_resolves_anew_and_moves_only_that_name(
    home: EnvironmentHome, interpreter: Interpreter
) -> None:
    tool = Fake(lock_of("a==1"), lock_of("a==2"))
    asked = read_requirements(interpreter, ["a"], ())
    old = make_environment(home, "one", asked, tool)
    make_environment(home, "two", asked, tool)
    new = make_environment(home, "one", asked, tool, upgrade=True, replace=True)
    assert new.lock != old.lock
    assert find_environment("one", [home.path]).prefix == new.environment.prefix
    assert find_environment("two", [home.path]).prefix == old.environment.prefix


def test_a_name_that_means_something_else_is_refused_before_any_work(
    home: EnvironmentHome, interpreter: Interpreter
) -> None:
    tool = Fake(lock_of("a==1"), lock_of("b==1"))
    make_environment(home, "mine", read_requirements(interpreter, ["a"], ()), tool)
    with pytest.raises(AlreadyExists, match=r"--replace"):
        make_environment(home, "mine", read_requirements(interpreter, ["b"], ()), tool)
    assert (tool.resolved, tool.built) == (1, 1)
    replaced = make_environment(home, "mine", read_requirements(interpreter, ["b"], ()), tool, replace=True)
    assert find_environment("mine", [home.path]).prefix == replaced.environment.prefix


@pytest.mark.parametrize("error", [BuildFailed("no", reason="ENVIRONMENT_BUILD_FAILED"), KeyboardInterrupt()])
def test_what_breaks_off_leaves_nothing(
    home: EnvironmentHome, interpreter: Interpreter, error: BaseException
) -> None:
    asked = read_requirements(interpreter, ["a"], ())
    with pytest.raises(type(error)):
        make_environment(home, "mine", asked, Fake(lock_of("a==1"), fails=error))
    assert (left(home), home.entries()) == ([], [])


def test_what_a_crash_left_is_swept_and_never_found(home: EnvironmentHome, interpreter: Interpreter) -> None:
    with home.held():
        half = home.made("f" * 64)
        half.mkdir()
        (half / UNFINISHED).touch()
        (half / "bin").mkdir()
        (half / "bin" / "python").symlink_to(interpreter.path)
        home.point("half", half, replace=False)
    assert "half" in survey([home.path]).broken
    make_environment(home, "mine", read_requirements(interpreter, ["a"], ()), Fake(lock_of("a==1")))
    assert not half.exists()
    with pytest.raises(NotFound):
        find_environment("half", [home.path])


def test_what_is_used_stays_until_it_is_not(home: EnvironmentHome, interpreter: Interpreter) -> None:
    made = make_environment(home, "mine", read_requirements(interpreter, ["a"], ()), Fake(lock_of("a==1")))
    prefix = made.environment.prefix
    with Use.of(made.environment), home.held():
        home.forget("mine")
        assert home.entries() == []
        assert (prefix / "bin" / "python").exists()
    with home.held():
        pass  # whatever is done next sweeps it
    assert not prefix.exists()
    with pytest.raises(NotFound, match="being removed"):
        Use.of(made.environment)


def test_a_prefix_that_is_being_removed_can_not_be_used(
    home: EnvironmentHome, interpreter: Interpreter
) -> None:
    made = make_environment(home, "mine", read_requirements(interpreter, ["a"], ()), Fake(lock_of("a==1")))
    (made.environment.prefix / UNFINISHED).touch()
    with pytest.raises(NotFound, match="being removed"):
        Use.of(made.environment)
    with pytest.raises(FailedPrecondition, match="still at work"):
        read_environment(made.environment.prefix)


def test_removing_says_what_it_leaves(home: EnvironmentHome, interpreter: Interpreter) -> None:
    asked = read_requirements(interpreter, ["a"], ())
    prefix = make_environment(home, "one", asked, Fake(lock_of("a==1"))).environment.prefix
    make_environment(home, "two", asked, Fake(lock_of("a==1")))
    with home.held():
        home.forget("one")
    assert prefix.is_dir()
    with home.held():
        home.forget("two")
    assert not prefix.exists()
    with pytest.raises(NotFound, match="'two'"), home.held():
        home.forget("two")


def test_a_home_of_another_account_is_refused(
    home: EnvironmentHome, interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with home.held():
        pass
    home.path.chmod(0o777)
    with pytest.raises(FailedPrecondition, match="others can write"), home.held():
        pass
