"""What a service logs of executions: by name, with outcome and times, and never what was executed or printed."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from cellhouse.doors import executions
from cellhouse.runtime.json_log import JsonLines
from tests.doors.support import Door, Names, opened, until, within
from tests.runtime.support import FakeWorld

SECRET = "hunter2"


class Lines:
    """The lines of JSON that would have been written so far."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        caplog.set_level(logging.INFO, "cellhouse")

    def all(self, *, content: bool = False) -> list[dict[str, Any]]:
        written = [JsonLines(content=content).format(record) for record in self._caplog.records]
        return [json.loads(line) for line in written if '"cellhouse' not in line or "logger" not in line]

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.all() if line["event"] == event]

    async def until(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        await until(lambda: len(self.of(event)) >= count)
        return self.of(event)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    return Lines(caplog)


async def test_an_execution_has_a_line_when_it_is_accepted_started_and_finished(
    door: Door, lines: Lines
) -> None:
    result = await door.run("print a\nvalue 2")
    (finished,) = await lines.until("execution finished")
    (accepted,) = lines.of("execution accepted")
    (started,) = lines.of("execution started")
    assert accepted["execution"] == started["execution"] == finished["execution"] == result["execution"]
    assert (accepted["tenant"], accepted["principal"]) == ("local", "local")
    assert started["start_time"] == result["startTime"]
    assert (finished["outcome"], finished["session_state"]) == ("OK", "PRESERVED")
    assert finished["reason"] is None
    assert finished["queue_seconds"] == started["queue_seconds"] >= 0
    assert finished["run_seconds"] == pytest.approx(result["usage"]["wallSeconds"], abs=1e-5)
    assert finished["text_bytes"] == len("a\n2")
    assert {line["level"] for line in (accepted, started, finished)} == {"info"}


async def test_one_that_runs_on_has_its_start_told_while_it_runs(
    door: Door, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executions, "STARTED_SECONDS", 0.01)
    path = await door.start("hold")
    (started,) = await lines.until("execution started")
    assert lines.of("execution finished") == []
    assert path.endswith(started["execution"])
    door.kernel.release.set()
    (finished,) = await lines.until("execution finished")
    assert (
        0 <= finished["queue_seconds"] <= started["queue_seconds"]
    )  # it is sent, and then the kernel says so
    assert len(lines.of("execution started")) == 1


async def test_one_that_never_started_has_its_reason_and_no_start(
    door: Door, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executions, "STARTED_SECONDS", 0.01)
    await door.start("hold")
    waiting = asyncio.ensure_future(door.run("print a", executionId="queued"))
    (name,) = [line["execution"] for line in await lines.until("execution accepted", 2)][1:]
    await within(door.client.post(f"/v1/{name}:cancel"))
    await within(waiting)
    (finished,) = await lines.until("execution finished")
    assert finished["execution"] == name
    assert (finished["outcome"], finished["reason"]) == ("NEVER_STARTED", "CANCELLED")
    assert finished["queue_seconds"] is finished["run_seconds"] is None
    assert [line["execution"] for line in lines.of("execution started")] != [name]
    door.kernel.release.set()
    await lines.until("execution finished", 2)


async def test_a_repeat_that_attaches_has_no_lines_of_its_own(door: Door, lines: Lines) -> None:
    for _ in range(2):
        await door.run("print a", executionId="one")
    await lines.until("execution finished")
    assert len(lines.of("execution accepted")) == 1


async def test_code_output_tokens_and_contents_of_files_are_in_no_line(
    fakes: FakeWorld, tmp_path: Path, lines: Lines
) -> None:
    async with opened(fakes, tmp_path / "state", authenticator=Names()) as door:
        door.client.headers["authorization"] = "Bearer acme"
        await door.make(runtimeId="here")
        await door.run(f"print {SECRET}\nerr {SECRET}\nvalue {SECRET}\nset {SECRET} {SECRET}")
        await door.run(f"raise {SECRET} {SECRET}", environment={"NAME": SECRET})
        await door.run(f"display <b>{SECRET}</b>")
        await within(door.client.put("/v1/runtimes/here/files/a.txt", content=SECRET.encode()))
        await within(door.client.get("/v1/runtimes", headers={"authorization": f"Basic {SECRET}"}))
        await lines.until("execution finished", 3)
        written = json.dumps(lines.all())
        assert SECRET not in written
        assert all(line["withheld"] == ["code"] for line in lines.of("execution accepted"))
        told = [line for line in lines.all(content=True) if line["event"] == "execution accepted"]
        assert SECRET in told[0]["code"]
        assert "withheld" not in told[0]


async def test_in_the_text_of_whoever_embeds_it_there_is_no_code_either(
    door: Door, lines: Lines, caplog: pytest.LogCaptureFixture
) -> None:
    await door.run(f"print {SECRET}")
    await lines.until("execution finished")
    assert "execution accepted" in caplog.text
    assert SECRET not in caplog.text


async def test_a_call_that_fails_in_the_service_is_told_under_the_id_that_the_caller_has(
    door: Door, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*args: Any, **options: Any) -> None:
        raise RuntimeError(f"it was {SECRET}")

    monkeypatch.setattr(door.service.tenants.open[0], "execute", fail)
    response = await within(door.client.post(door.path(":executeCode"), json={"code": SECRET}))
    assert response.status_code == 500
    (line,) = lines.of("a call failed at the door")
    assert line["error_id"] in response.text
    assert line["exception"][0]["type"] == "RuntimeError"
    assert SECRET not in json.dumps(line)


async def test_what_runs_when_a_service_stops_has_its_end_in_the_log(
    fakes: FakeWorld, tmp_path: Path, lines: Lines
) -> None:
    async with opened(fakes, tmp_path / "state", drain_seconds=0.0) as door:
        await door.make(runtimeId="here")
        await door.start("hold")
    (finished,) = lines.of("execution finished")
    assert finished["outcome"] == "INTERRUPTED"
