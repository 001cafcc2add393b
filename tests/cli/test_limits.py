"""Limits as people write them, and what they are told where it is none."""

import json

import pytest

from cellhouse.cli.limits import BadLimit, option_of, read_limits
from cellhouse.model import FailedPrecondition, InvalidArgument, RuntimeLimits
from tests.cli.support import Cli

MIB = 1 << 20


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("memory", "512M", "memory", 512 * MIB),
        ("memory", "512m", "memory", 512 * MIB),
        ("memory", "512MiB", "memory", 512 * MIB),
        ("memory", "512MB", "memory", 512 * MIB),
        ("memory", "512mb", "memory", 512 * MIB),
        ("memory", " 1.5G ", "memory", 1536 * MIB),
        ("memory", "9007199254740993", "memory", 2**53 + 1),
        ("memory", str(64 * MIB), "memory", 64 * MIB),
        ("content", "65536K", "content", 64 * MIB),
        ("content", "1T", "content", 1 << 40),
        ("fileSize", "1", "file_size", 1),
        ("cpus", "0.5", "cpus", 0.5),
        ("cpus", "1", "cpus", 1.0),
        ("processes", "64", "processes", 64),
        ("openFiles", "1024", "open_files", 1024),
    ],
)
def test_what_people_write_is_read(name: str, text: str, field: str, value: float) -> None:
    assert read_limits({name: text}) == RuntimeLimits(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("memory", "0", "--memory 0: takes a whole number of bytes, at least 64M"),
        ("memory", "-1", "--memory -1: takes a number of bytes, such as 512M"),
        ("memory", "nan", "--memory nan: takes a number of bytes"),
        ("memory", "inf", "--memory inf: takes a number of bytes"),
        ("memory", "512Q", "--memory 512Q: takes a number of bytes, such as 512M or 1.5G; K, M, G and T"),
        ("memory", "512BM", "--memory 512BM: takes a number of bytes"),
        ("memory", "", "--memory '': takes a number of bytes"),
        ("memory", "M", "--memory M: takes a number of bytes"),
        ("memory", "1K", "--memory 1K: takes a whole number of bytes, at least 64M"),
        ("memory", "99999999999999999999T", "--memory 99999999999999999999T: takes a whole number of bytes"),
        ("memory", "9" * 100, "--memory '9999999999999999999999999999999999999999': takes a number"),
        ("content", "1M", "--content 1M: takes a whole number of bytes, at least 16M"),
        ("fileSize", "0", "--file-size 0: takes a whole number of bytes, at least 1"),
        ("cpus", "0", "--cpus 0: takes a number of CPUs, at least 0.01"),
        ("cpus", "-2", "--cpus -2: takes a number of CPUs, at least 0.01"),
        ("cpus", "nan", "--cpus nan: takes a number of CPUs"),
        ("cpus", "inf", "--cpus inf: takes a number of CPUs"),
        ("cpus", "two", "--cpus two: takes a number of CPUs, such as 0.5"),
        ("processes", "1.5", "--processes 1.5: takes a whole number"),
        ("processes", "3", "--processes 3: takes a whole number of processes, at least 16"),
        ("processes", "99999999999", "--processes 99999999999: "),
        ("openFiles", "1\x1b[2J", "--open-files '1\\x1b[2J': takes a whole number"),
    ],
)
def test_what_is_no_limit_is_named_with_its_option_and_the_rule(name: str, text: str, said: str) -> None:
    with pytest.raises(BadLimit) as caught:
        read_limits({name: text, "memory" if name != "memory" else "cpus": None})
    assert str(caught.value).startswith(said)


def test_none_is_none() -> None:
    assert read_limits({"memory": None, "cpus": None}) is None


def test_an_error_of_the_call_is_told_with_its_option() -> None:
    assert option_of(InvalidArgument.of_field("limits.memory", "too much")) == "--memory"
    refused = FailedPrecondition("no", reason="LIMIT_UNAVAILABLE", metadata={"limit": "openFiles"})
    assert option_of(refused) == "--open-files"
    assert option_of(InvalidArgument.of_field("code", "no")) == ""


def test_they_are_in_force(cli: Cli) -> None:
    code = "import resource, shutil\nprint(resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_FSIZE))"
    done = cli(
        *("run", "--json", "--memory", "512M", "--processes", "64", "--content", "1G"),
        *("--open-files", "256", "--file-size", "8M", "-c", code),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["stdout"] == f"(256, 256) ({8 * MIB}, {8 * MIB})\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--memory", "512Q"], "--memory 512Q: takes"),
        (["--memory", "100T"], "--memory: limits.memory: 109951162777600 is more than this machine has"),
        (["--cpus", "9999"], "--cpus: limits.cpus: 9999 is more than this machine has"),
    ],
)
def test_what_can_not_be_had_is_a_usage_error_that_names_the_option(
    cli: Cli, args: list[str], said: str
) -> None:
    done = cli("run", *args, "-c", "1")
    assert done.returncode == 2
    assert done.stdout == b""
    assert said in done.stderr.decode()
