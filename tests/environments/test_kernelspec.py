"""Kernelspecs are read with bounds, and every refusal names the file and the rule."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cellhouse.environments import kernelspec
from cellhouse.environments.kernelspec import BadKernelSpec, KernelSpec, read_kernels, read_kernelspec

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str = "k", *, raw: bytes | None = None, **spec: Any) -> Path:
        directory = tmp_path / "share" / "jupyter" / "kernels" / name
        directory.mkdir(parents=True)
        data = json.dumps({"argv": ["prog", "{connection_file}"], **spec}).encode() if raw is None else raw
        (directory / "kernel.json").write_bytes(data)
        return directory

    return write


def read(directory: Path) -> KernelSpec:
    prefix = directory.parents[3]
    return read_kernelspec(directory, prefix=prefix, python=prefix / "bin" / "python")


def test_a_whole_kernelspec_is_read(write: Write) -> None:
    directory = write(
        "bash",
        argv=["/opt/k", "-f", "{connection_file}", "{resource_dir}"],
        display_name="Bash",
        language="bash",
        interrupt_mode="Message",
        env={"PS1": "$", "PATH": "/x:${PATH}"},
        metadata={"debugger": True},
        kernel_protocol_version="5.5",
    )
    spec = read(directory)
    assert spec.name == "bash"
    assert spec.argv == ("/opt/k", "-f", "{connection_file}", "{resource_dir}")
    assert spec.resource_dir == directory
    assert (spec.display_name, spec.language, spec.interrupt_mode) == ("Bash", "bash", "message")
    assert dict(spec.env) == {"PS1": "$", "PATH": "/x:${PATH}"}
    assert dict(spec.metadata) == {"debugger": True}
    assert spec.kernel_protocol_version == "5.5"


def test_what_is_not_said_has_defaults(write: Write) -> None:
    spec = read(write("k"))
    assert (spec.display_name, spec.language, spec.interrupt_mode) == ("k", "", "signal")
    assert not spec.env
    assert not spec.metadata


@pytest.mark.parametrize("bare", ["python", "python3", "python3.11", "python3.9"])
def test_a_bare_python_is_the_interpreter_of_the_environment(write: Write, tmp_path: Path, bare: str) -> None:
    spec = read(write(argv=[bare, "-m", "x", "python"]))
    assert spec.argv == (str(tmp_path / "bin" / "python"), "-m", "x", "python")


@pytest.mark.parametrize("program", ["python2", "pythonw", "/usr/bin/python3", "bash", "./python3"])
def test_any_other_program_stays_as_it_is(write: Write, program: str) -> None:
    assert read(write(argv=[program])).argv == (program,)


def test_prefix_in_an_argument_is_the_prefix_of_the_environment(write: Write, tmp_path: Path) -> None:
    assert read(write(argv=["{prefix}/bin/k", "--lib={prefix}"])).argv == (
        f"{tmp_path}/bin/k",
        f"--lib={tmp_path}",
    )


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ({"argv": "python -m k"}, "argv must be a list of strings"),
        ({"argv": []}, "argv must be a list of strings"),
        ({"argv": ["x", 1]}, "argv must be a list of strings"),
        ({"argv": [""]}, "empty program"),
        ({"argv": ["x", "a\0b"]}, "NUL"),
        ({"argv": ["x"] * 1025}, "more than 1024 items"),
        ({"interrupt_mode": "shout"}, "interrupt_mode must be signal or message"),
        ({"interrupt_mode": 3}, "interrupt_mode must be a string"),
        ({"env": ["A=1"]}, "env must be an object"),
        ({"env": {"A": 1}}, "the value of 'A' must be a string"),
        ({"env": {"A=B": "1"}}, "can't name a variable"),
        ({"env": {str(number): "" for number in range(1025)}}, "more than 1024 variables"),
        ({"display_name": None}, "display_name must be a string"),
        ({"language": ["python"]}, "language must be a string"),
        ({"metadata": []}, "metadata must be an object"),
        ({"kernel_protocol_version": 5.5}, "kernel_protocol_version must be a string"),
    ],
)
def test_a_wrong_field_is_refused_by_name(write: Write, spec: dict[str, Any], rule: str) -> None:
    with pytest.raises(BadKernelSpec, match=rule) as caught:
        read(write(**spec))
    assert "kernel.json" in str(caught.value)


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[1]", "must hold a JSON object"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b" " * (kernelspec.KERNEL_JSON_BYTES + 1), "larger than"),
    ],
)
def test_a_file_that_is_no_kernelspec_is_refused(write: Write, raw: bytes, rule: str) -> None:
    with pytest.raises(BadKernelSpec, match=rule):
        read(write(raw=raw))


def test_a_name_that_is_none_is_refused(write: Write) -> None:
    with pytest.raises(BadKernelSpec, match="can't name a kernel"):
        read(write("two words"))


def test_one_broken_kernel_costs_only_itself(write: Write, tmp_path: Path) -> None:
    write("good")
    write("bad", argv=[])
    (tmp_path / "share/jupyter/kernels/empty").mkdir()
    (tmp_path / "share/jupyter/kernels/file").touch()
    kernels, broken = read_kernels(tmp_path, tmp_path / "bin" / "python")
    assert list(kernels) == ["good"]
    assert list(broken) == ["bad"]
    assert "argv" in broken["bad"]


def test_no_more_than_so_many_kernels_are_read(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernelspec, "KERNELS_PER_ENVIRONMENT", 2)
    for name in ("a", "b", "c"):
        write(name)
    kernels, broken = read_kernels(tmp_path, tmp_path / "bin" / "python")
    assert list(kernels) == ["a", "b"]
    assert "more than 2 kernels" in broken["c"]


def test_a_prefix_without_kernels_has_none(tmp_path: Path) -> None:
    assert read_kernels(tmp_path, tmp_path / "bin" / "python") == ({}, {})
