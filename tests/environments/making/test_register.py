"""What others made, under a name of ours."""

import json
from pathlib import Path

import pytest

from cellhouse.environments import find_environment
from cellhouse.environments.making import EnvironmentHome, Interpreter, register_kernelspec, register_prefix
from cellhouse.model import AlreadyExists, FailedPrecondition, InvalidArgument
from tests.environments.fake_prefix import make_base, make_environment


def test_a_prefix_is_left_as_it_is(home: EnvironmentHome, tmp_path: Path) -> None:
    prefix = make_environment(tmp_path / "conda", make_base(tmp_path / "base"), kernels=("python3", "xr"))
    register_prefix(home, "conda", prefix)
    found = find_environment("conda", [home.path])
    assert set(found.kernels) == {"python3", "xr"}
    assert prefix in found.base_prefixes
    with home.held():
        assert not home.forget("conda").own
    assert prefix.is_dir()


def test_a_prefix_without_a_kernel_is_refused(home: EnvironmentHome, tmp_path: Path) -> None:
    prefix = make_environment(tmp_path / "empty", make_base(tmp_path / "base"), kernels=())
    with pytest.raises(FailedPrecondition, match="has no kernel"):
        register_prefix(home, "empty", prefix)
    with pytest.raises(InvalidArgument, match="is no directory"):
        register_prefix(home, "none", tmp_path / "none")


def kernelspec(directory: Path, **changes: object) -> Path:
    directory.mkdir(parents=True)
    spec = {"argv": ["/opt/lang/bin/lang", "{connection_file}"], "display_name": "Lang", "language": "lang"}
    (directory / "kernel.json").write_text(json.dumps(spec | changes))
    (directory / "logo.svg").write_text("<svg/>")
    return directory


def test_a_kernel_of_another_language(
    home: EnvironmentHome, interpreter: Interpreter, tmp_path: Path
) -> None:
    opt = tmp_path / "opt"
    opt.mkdir()
    register_kernelspec(home, "lang", kernelspec(tmp_path / "specs" / "lang"), interpreter, shown=[opt])
    found = find_environment("lang", [home.path])
    assert found.kernel("lang").argv == ("/opt/lang/bin/lang", "{connection_file}")
    assert opt in found.base_prefixes
    assert found.python.exists()
    with pytest.raises(AlreadyExists):
        register_kernelspec(home, "lang", tmp_path / "specs" / "lang", interpreter)
    register_kernelspec(home, "lang", tmp_path / "specs" / "lang", interpreter, replace=True)
    assert opt not in find_environment("lang", [home.path]).base_prefixes
    with home.held():
        home.forget("lang")
    assert list((home.path / ".registered").iterdir()) == []


def test_kernelspecs_that_are_none(home: EnvironmentHome, interpreter: Interpreter, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="argv must be"):
        register_kernelspec(home, "lang", kernelspec(tmp_path / "bad", argv=3), interpreter)
    with pytest.raises(InvalidArgument, match="can't be read"):
        register_kernelspec(home, "lang", tmp_path / "missing", interpreter)
    good = kernelspec(tmp_path / "good")
    with pytest.raises(InvalidArgument, match="whole path of a directory"):
        register_kernelspec(home, "lang", good, interpreter, shown=[Path("/")])
    for number in range(300):
        (good / f"{number}.txt").touch()
    with pytest.raises(InvalidArgument, match="more than"):
        register_kernelspec(home, "lang", good, interpreter)
    assert not home.path.exists() or home.entries() == []
