"""Commands against a service: what lives there, what it says, files there and back, ending things."""

import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

from cellhouse.cli import logs
from cellhouse.cli.service import read_name
from cellhouse.messages import RawText
from cellhouse.model import (
    Event,
    ExecutionName,
    InvalidArgument,
    QueuedEvent,
    RuntimeName,
    SessionName,
    SystemClock,
)
from cellhouse.runtime.network import LOG_NAME
from cellhouse.runtime.session_log import SessionLog
from tests.cli.remote import Commands
from tests.doors.conftest import fakes
from tests.doors.support import Door, house_of, opened, until
from tests.runtime.support import FakeWorld

__all__ = ["fakes"]


@pytest.fixture
async def door(fakes: FakeWorld, tmp_path: Path) -> AsyncIterator[Door]:
    async with opened(fakes, tmp_path / "state") as made:
        await made.make(runtimeId="here")
        yield made


@pytest.fixture
def run(door: Door, quick: list[str], tmp_path: Path) -> Commands:
    directory = tmp_path / "cwd"
    directory.mkdir()
    return Commands(door, directory, quick)


@pytest.mark.parametrize(
    ("text", "kind"), [("a", RuntimeName), ("a/b", SessionName), ("a/b/C.1", ExecutionName)]
)
def test_a_name_may_be_given_in_short_or_in_full(text: str, kind: type) -> None:
    found = read_name(text, RuntimeName, SessionName, ExecutionName)
    assert isinstance(found, kind)
    assert read_name(str(found), RuntimeName, SessionName, ExecutionName) == found


@pytest.mark.parametrize(
    "text", ["", "A", "a/b/c/d", "runtimes/a/x/b", "sessions/a/runtimes/b", "a//c", "../a"]
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        read_name(text, RuntimeName, SessionName, ExecutionName)


def test_a_name_of_another_kind_is_refused_with_the_kinds_that_are_taken() -> None:
    with pytest.raises(InvalidArgument, match="RUNTIME or RUNTIME/SESSION"):
        read_name("a/b/c", RuntimeName, SessionName)


async def test_ps_lists_what_lives_and_what_runs(run: Commands, door: Door) -> None:
    await door.start("hold", executionId="one")
    await door.make(runtimeId="empty")
    ended = await run("ps")
    assert (ended.status, ended.err) == (0, "")
    head, empty, here = ended.out.splitlines()
    assert head.split() == ["RUNTIME", "SESSION", "STATUS", "KERNEL", "RUNS", "QUEUED", "EXPIRES"]
    assert empty.split()[0] == "empty"
    assert here.split()[:3] == ["here", "main", "BUSY"]
    assert "one" in here.split()
    found = (await run("ps", "--json")).json["runtimes"]
    assert [each["name"] for each in found] == ["runtimes/empty", "runtimes/here"]
    assert found[1]["sessions"][0]["execution"] == "runtimes/here/sessions/main/executions/one"


async def test_interrupt_ends_what_runs_in_a_session_and_one_execution(run: Commands, door: Door) -> None:
    path = await door.start("hold", executionId="one")
    assert (await run("interrupt", "here/main")).status == 0
    assert (await door.events(path))[-1]["result"]["outcome"] == "INTERRUPTED"
    ended = await run("interrupt", "here/main")
    assert (ended.status, ended.out) == (3, "")
    assert "nothing runs" in ended.err
    path = await door.start("hold", executionId="two")
    ended = await run("interrupt", "here/main/two", "--json")
    assert ended.json == {"name": "runtimes/here/sessions/main/executions/two", "interrupted": True}
    assert (await door.events(path))[-1]["result"]["outcome"] == "INTERRUPTED"
    ended = await run("interrupt", "here/main/none")
    assert ended.status == 2


async def test_rm_deletes_sessions_and_runtimes(run: Commands, door: Door) -> None:
    await door.run("print a")
    await door.make(runtimeId="other")
    ended = await run("rm", "here/main", "other")
    assert (ended.status, ended.out) == (0, "runtimes/here/sessions/main\nruntimes/other\n")
    assert (await run("rm", "other")).status == 2
    assert (await run("rm", "--force", "other", "here", "--json")).json == {"deleted": "runtimes/here"}
    assert (await run("ps", "--json")).json == {"runtimes": []}


async def test_logs_print_what_was_printed_each_to_its_own(run: Commands, door: Door) -> None:
    result = await door.run("print a\nerr b\ndisplay <b>\nvalue 2")
    name = result["execution"].removeprefix("runtimes/").replace("sessions/", "").replace("executions/", "")
    ended = await run("logs", name)
    assert ended.status == 0
    assert ended.out == "a\n[output 0: text/html, 61 B]\n2\n" or ended.out.startswith(
        "a\n[output 0: text/html"
    )
    assert ended.err.startswith("b\n")
    assert "OK" in ended.err
    lines = (await run("logs", "--json", name)).out.splitlines()
    assert [json.loads(line) for line in lines] == await door.events(f"/v1/{result['execution']}")
    ended = await run("logs", "here/main")
    assert ended.out.startswith("a\n")
    assert result["execution"] in ended.err


async def test_logs_of_what_runs_are_the_text_so_far_and_go_on_where_asked(run: Commands, door: Door) -> None:
    await door.start("print a\nhold\nprint b", executionId="one")
    ended = await run("logs", "here/main/one")
    assert (ended.status, ended.out) == (0, "a\n")
    assert "RUNNING" in ended.err
    process = await run.start("logs", "-f", "here/main/one")
    assert process.stdout is not None
    assert await process.stdout.readline() == b"a\n"
    door.kernel.release.set()
    ended = await run.end(process)
    assert (ended.status, ended.out) == (0, "b\n")


async def test_logs_follow_a_session_from_one_execution_to_the_next_until_it_is_deleted(
    run: Commands, door: Door
) -> None:
    await door.run("print a")
    process = await run.start("logs", "-f", "here/main")
    assert process.stdout is not None
    assert await process.stdout.readline() == b"a\n"
    await door.run("print b")
    assert await process.stdout.readline() == b"b\n"
    assert (await run("rm", "here/main")).status == 0
    assert (await run.end(process)).status == 0


async def test_what_belongs_to_no_execution_is_printed_where_it_is_asked_for(
    run: Commands, door: Door, tmp_path: Path
) -> None:
    await door.run("print a")
    door.kernel.put(RawText("stderr", b"of \x1b[31mnobody", parent_id="nobody", printed=True))
    session = f"{door.runtime}/sessions/main"
    await until(lambda: house_of(door.service).session_log(session))
    ended = await run("logs", "--session-log", "here/main")
    assert (ended.status, ended.out) == (0, "of \x1b[31mnobody\n")
    assert ended.err.startswith("stderr (")
    (entry,) = (
        json.loads(line)
        for line in (await run("logs", "--session-log", "--json", "here/main")).out.splitlines()
    )
    assert (entry["kind"], entry["text"]) == ("stderr", "of \x1b[31mnobody")
    for wrong in (("-f", "here/main"), ("--text", "stdout", "here/main"), ("here/main/one",), ("here/none",)):
        assert (await run("logs", "--session-log", *wrong)).status == 2
    log = SessionLog(house_of(door.service).state_dir / "sessions" / "here" / LOG_NAME, SystemClock())
    log.write("network", "refused NOT_NAMED a.example:443: no")
    ended = await run("logs", "--network-log", "here")
    assert (ended.status, ended.out) == (0, "refused NOT_NAMED a.example:443: no\n")
    for wrong in (("-f", "here"), ("here/main",), ("--session-log", "here"), ("none",)):
        assert (await run("logs", "--network-log", *wrong)).status == 2
    await door.service.close()
    local = ("logs", "--url", "", "--state-dir", str(tmp_path / "state"))
    ended = await run(*local, "--session-log", "here/main")
    assert (ended.status, ended.out) == (0, "of \x1b[31mnobody\n")
    assert (await run(*local, "--session-log", "here/none")).status == 2
    assert (await run(*local, "--network-log", "here")).out == "refused NOT_NAMED a.example:443: no\n"


async def test_who_stops_reading_lets_go_of_what_is_read_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its flow is dropped in the middle, and Python says so on stderr."""
    left = []

    class Source:
        async def events(self, name: str, *, tails: bool) -> AsyncGenerator[Event, None]:
            try:
                yield QueuedEvent(seq=1, time="2026-01-01T00:00:00Z")
            finally:
                left.append(name)

    def broken(document: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(logs, "print_json", broken)
    with pytest.raises(BrokenPipeError):
        await logs._Shower(json=True).follow(Source(), "here/main/one")  # type: ignore[arg-type]
    assert left == ["here/main/one"]


async def test_show_tells_of_an_execution(run: Commands, door: Door) -> None:
    result = await door.run("print a\nraise ValueError no", executionId="one")
    ended = await run("show", "here/main/one")
    assert ended.status == 0
    for text in ("ERROR", "CODE_RAISED", "PRESERVED", "stdout:\na\n", "ValueError"):
        assert text in ended.out
    assert (await run("show", "--json", "here/main/one")).json == result
    assert (await run("show", "here/main/none")).status == 2


async def test_cp_copies_both_ways_whole(run: Commands, door: Door) -> None:
    data = bytes(range(256)) * 1_000
    (run.directory / "a b").write_bytes(data)
    ended = await run("cp", "a b", "here:")
    assert ended.status == 0
    assert hashlib.sha256(data).hexdigest() in ended.out
    ended = await run("cp", "--json", "./a b", "runtimes/here:/content/d/x")
    assert ended.json == {"name": "d/x", "bytes": str(len(data)), "sha256": hashlib.sha256(data).hexdigest()}
    assert (await run("cp", "here:d/x", ".")).status == 0
    assert (await run("cp", "here:a b", "back")).status == 0
    assert (run.directory / "x").read_bytes() == data == (run.directory / "back").read_bytes()


@pytest.mark.parametrize(
    ("args", "status"),
    [
        (("cp", "one", "two"), 2),
        (("cp", "here:a", "here:b"), 2),
        (("cp", "none", "here:x"), 3),
        (("cp", "here:none", "x"), 2),
        (("cp", "gone:x", "x"), 2),
        (("rm",), 2),
        (("logs", "here"), 2),
        (("interrupt", "here"), 2),
    ],
)
async def test_what_cannot_be_done_is_told_on_stderr_alone(
    run: Commands, args: tuple[str, ...], status: int
) -> None:
    ended = await run(*args)
    assert (ended.status, ended.out) == (status, "")
    assert ended.err
    assert "Traceback" not in ended.err
    assert list(run.directory.iterdir()) == []


async def test_without_a_service_the_remedy_is_named(run: Commands) -> None:
    ended = await run("ps", "--url", "")
    assert (ended.status, ended.out) == (2, "")
    assert "CELLHOUSE_URL" in ended.err
    ended = await run("ps", "--url", "ftp://x")
    assert ended.status == 2


async def test_a_service_that_is_not_there_is_told_soon(run: Commands) -> None:
    await run.door.service.close()
    ended = await run("ps")
    assert (ended.status, ended.out) == (3, "")
    assert "no connection" in ended.err


async def test_show_and_logs_read_a_state_directory_where_no_service_is_named(
    run: Commands, door: Door, tmp_path: Path
) -> None:
    await door.run("print a", executionId="one")
    held = await run("show", "--url", "", "--state-dir", str(tmp_path / "state"), "here/main/one")
    assert held.status == 3  # its house runs
    await door.service.close()
    ended = await run("show", "--url", "", "--json", "--state-dir", str(tmp_path / "state"), "here/main/one")
    assert ended.json["stdout"] == "a\n"
    for name in ("here/main", "here/main/one"):
        ended = await run("logs", "--url", "", "--state-dir", str(tmp_path / "state"), name)
        assert (ended.status, ended.out) == (0, "a\n")
    ended = await run("show", "--url", "", "--state-dir", str(tmp_path / "state"), "here/main/none")
    assert (ended.status, ended.out) == (2, "")
    for said in ("here/sessions/main/executions/none", str(tmp_path / "state"), "--state-dir", "--url"):
        assert said in ended.err
    ended = await run("show", "--url", "", "--state-dir", str(tmp_path / "none"), "here/main/one")
    assert (ended.status, ended.out) == (2, "")
    assert not (tmp_path / "none").exists()
