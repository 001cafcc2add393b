"""`cellhouse run --url`: as at home, in a service; what was made for it is gone afterwards."""

import asyncio
import json
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cellhouse.doors.limits import DoorLimits
from cellhouse.doors.server import ServeOptions, Service
from cellhouse.environments import Environment
from cellhouse.runtime import Settings
from tests.cli.remote import Commands
from tests.cli.support import Cli
from tests.client.proxy import cuts, proxied
from tests.doors.conftest import fakes
from tests.doors.support import Door, opened
from tests.runtime.support import FakeWorld, until, within

__all__ = ["fakes"]


@pytest.fixture
async def door(fakes: FakeWorld, tmp_path: Path) -> AsyncIterator[Door]:
    async with opened(fakes, tmp_path / "state") as made:
        yield made


@pytest.fixture
def run(door: Door, quick: list[str], tmp_path: Path) -> Commands:
    directory = tmp_path / "cwd"
    directory.mkdir()
    return Commands(door, directory, quick)


async def names(door: Door, what: str = "runtimes") -> list[str]:
    response = await within(door.client.get(f"/v1/{what}"))
    return [each["name"] for each in response.json()[what.rpartition("/")[2]]]


@pytest.mark.parametrize(
    ("code", "status", "out"),
    [
        ("print a\nvalue 2", 0, "a\n2\n"),
        ("print a\nraise ValueError no", 1, "a\nValueError: no\n"),
        ("exit 3", 3, ""),
    ],
)
async def test_it_runs_in_a_runtime_of_its_own_that_is_gone_afterwards(
    run: Commands, door: Door, code: str, status: int, out: str
) -> None:
    ended = await run("run", "-c", code)
    assert (ended.status, ended.out) == (status, out)
    assert door.service.url in ended.err
    assert await names(door) == []
    assert len(door.fakes.launchers) == 1


async def test_json_is_one_result_and_nothing_else(run: Commands, door: Door) -> None:
    ended = await run("run", "--json", "-", stdin="print a\nraise ValueError no")
    assert (ended.status, ended.err) == (1, "")
    assert (ended.json["outcome"], ended.json["stdout"]) == ("ERROR", "a\n")


async def test_a_runtime_that_is_there_stays_and_the_session_made_for_it_does_not(
    run: Commands, door: Door
) -> None:
    await door.make(runtimeId="here")
    assert (await run("run", "-c", "print a", "--runtime", "here")).out == "a\n"
    assert await names(door) == ["runtimes/here"]
    assert await names(door, "runtimes/here/sessions") == []


@pytest.mark.parametrize("how", [("--runtime", "here", "--session", "main"), ("--session", "here/main")])
async def test_a_session_keeps_its_variables(run: Commands, door: Door, how: tuple[str, ...]) -> None:
    await door.make(runtimeId="here")
    assert (await run("run", "-c", "set x 41", *how)).status == 0
    assert (await run("run", "-c", "get x", *how)).out == "41\n"
    assert await names(door, "runtimes/here/sessions") == ["runtimes/here/sessions/main"]


@pytest.mark.parametrize(
    ("args", "status", "text"),
    [
        (("--session", "main"), 2, "--runtime"),
        (("--runtime", "one", "--session", "two/main"), 2, "no session of"),
        (("--runtime", "none"), 2, "none"),
        (("--runtime", "a/b"), 2, "RUNTIME"),
        (("--url", "", "--runtime", "here"), 2, "--url"),
        (("--kernel", "none"), 2, "none"),
        (("--memory", "5M"), 2, "--memory"),
    ],
)
async def test_what_cannot_be_had_is_told_and_nothing_is_left(
    run: Commands, door: Door, args: tuple[str, ...], status: int, text: str
) -> None:
    ended = await run("run", "-c", "print a", *args)
    assert (ended.status, ended.out) == (status, ""), ended.err
    assert text in ended.err
    assert "Traceback" not in ended.err
    assert await names(door) == []


async def test_files_go_in_and_what_was_made_comes_out(run: Commands, door: Door) -> None:
    (run.directory / "in.txt").write_text("hello")
    code = "display <b>\nwrite made.txt made"
    ended = await run("run", "-c", code, "--input", "in.txt", "--save", "out")
    assert ended.status == 0, ended.err
    content = door.fakes.sandboxes[0].content
    assert not content.exists()
    assert (run.directory / "out" / "out-000.html").read_text() == "<b>"
    assert "saved: out/out-000.html" in ended.err


async def test_ctrl_c_interrupts_the_execution_there_and_its_end_is_reported(
    run: Commands, door: Door
) -> None:
    process = await run.start("run", "-c", "print a\nhold\nprint b")
    assert process.stdout is not None
    assert await within(process.stdout.readline()) == b"a\n"
    process.send_signal(signal.SIGINT)
    ended = await run.end(process)
    assert ended.status == 3
    assert "INTERRUPTED" in ended.err
    assert "Traceback" not in ended.err
    assert door.kernel.interrupts == 1
    assert await names(door) == []


async def test_a_second_ctrl_c_leaves_and_the_runtime_is_deleted(run: Commands, door: Door) -> None:
    process = await run.start("run", "-c", "print a\nstubborn")
    assert process.stdout is not None
    assert await within(process.stdout.readline()) == b"a\n"
    process.send_signal(signal.SIGINT)
    await until(lambda: door.kernel.interrupts)
    process.send_signal(signal.SIGINT)
    ended = await run.end(process)
    assert ended.status == 3
    assert "Traceback" not in ended.err
    assert await names(door) == []


async def test_sigterm_interrupts_and_is_the_exit_status(run: Commands, door: Door) -> None:
    process = await run.start("run", "--json", "-c", "hold")
    await until(lambda: door.fakes.launchers and door.fakes.launchers[-1].made and door.kernel.codes)
    process.send_signal(signal.SIGTERM)
    ended = await run.end(process)
    assert (ended.status, ended.json["outcome"]) == (128 + signal.SIGTERM, "INTERRUPTED")
    assert await names(door) == []


async def test_connections_that_break_are_not_noticed(run: Commands, door: Door) -> None:
    rng = random.Random(4)
    code = "\n".join([*(f"print {'x' * 200} {number}" for number in range(40)), "value 1"])
    expected = await run("run", "-c", code)
    async with proxied(door.service.url, to_client=cuts(rng, 4_000, 0.8)) as proxy:
        ended = await run("run", "-c", code, "--url", proxy.url)
        assert (ended.status, ended.out) == (0, expected.out)
        assert proxy.cuts > 1
    assert await names(door) == []


CODE = "import sys\nprint('out', sys.argv[1])\nprint('err', file=sys.stderr)\n{expression}"


@pytest.mark.parametrize(
    ("expression", "status"), [("6 * 7", 0), ("1 / 0", 1), ("import os; os._exit(5)", 3)]
)
async def test_output_and_exit_status_are_those_of_a_local_run(
    cli: Cli, environment: Environment, tmp_path: Path, expression: str, status: int
) -> None:
    """With real kernels on both sides."""
    code = CODE.format(expression=expression)
    settings = Settings(state_dir=tmp_path / "service", environments=(environment.prefix.parent,))
    async with Service(settings, ServeOptions(limits=DoorLimits(drain_seconds=0.0))) as service:
        for flags in ((), ("--json",)):
            local, remote = [
                await asyncio.to_thread(cli, "run", *flags, *more, "-c", code, "--", "arg")
                for more in ((), ("--url", service.url))
            ]
            assert (local.returncode, remote.returncode) == (status, status), remote.stderr
            if flags:
                assert same(local.stdout) == same(remote.stdout)
            else:
                assert local.stdout == remote.stdout
                assert local.stderr.splitlines()[:-1] == remote.stderr.splitlines()[:-1]


def same(text: bytes) -> dict[str, Any]:
    """A result without what differs from one run to the next."""
    result: dict[str, Any] = json.loads(text)
    for field in ("execution", "executionId", "session", "usage", "startTime", "endTime"):
        result.pop(field, None)
    return result
