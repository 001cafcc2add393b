"""The log and the figures of `cellhouse serve` over keepers and real kernels."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.support import Cli
from tests.cli.test_serve import SECONDS, executed, serving

SECRET = "hunter2"


def _figure(client: httpx.Client, name: str) -> float:
    text = client.get("/metrics").text
    (value,) = (line.split()[-1] for line in text.splitlines() if line.startswith(f"{name} "))
    return float(value)


def _counted(client: httpx.Client, name: str, count: int) -> None:
    """It comes to that, which is a moment after who called heard of the end."""
    until = time.monotonic() + SECONDS
    while (found := _figure(client, name)) != count:
        assert time.monotonic() < until, found


def _logged(cli: Cli, *options: str) -> tuple[str, list[dict[str, Any]]]:
    """What a service writes to stderr while code runs there: as it is, and the lines of its log."""
    with serving(cli, *options) as (process, client):
        client.post(
            "/v1/runtimes", json={"runtimeId": "here", "runtime": {"start": "fresh"}}
        ).raise_for_status()
        result = executed(client, f"print('{SECRET}', 'x' * 300_000); '{SECRET}'")
        assert result["outcome"] == "OK"
        assert executed(client, f"raise ValueError('{SECRET}')")["outcome"] == "ERROR"
        _counted(client, 'cellhouse_executions_total{outcome="OK"}', 1)
        _counted(client, 'cellhouse_executions_total{outcome="ERROR"}', 1)
        assert _figure(client, 'cellhouse_text_bytes_total{fate="kept",text="stdout"}') > 200_000
        assert _figure(client, "cellhouse_runtimes") == 1
        assert _figure(client, "cellhouse_kernels") == 1
        assert _figure(client, "cellhouse_runtime_memory_bytes") > 50 * 2**20
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
        assert process.stderr is not None
        written = process.stderr.read()
    people = ("cellhouse: ", "  cellhouse_", "cellhouse on this account ")
    return written, [json.loads(line) for line in written.splitlines() if not line.startswith(people)]


def test_each_execution_is_in_the_log_by_name_and_nothing_of_what_it_said(cli: Cli) -> None:
    written, lines = _logged(cli, "--drain-seconds", "0")
    assert SECRET not in written
    finished = [line for line in lines if line["event"] == "execution finished"]
    assert [line["outcome"] for line in finished] == ["OK", "ERROR"]
    for event in ("execution accepted", "execution started"):
        assert [line["execution"] for line in lines if line["event"] == event] == [
            line["execution"] for line in finished
        ]
    assert all(
        0 <= line["queue_seconds"] < SECONDS and 0 <= line["run_seconds"] < SECONDS for line in finished
    )
    token = Path(cli.state / "tokens" / "local").read_text().strip()
    assert token not in json.dumps(lines)


def test_code_is_in_the_log_where_that_was_asked_for_and_output_is_not(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELLHOUSE_LOG_CONTENT", "1")
    _, lines = _logged(cli, "--drain-seconds", "0")
    codes = [line["code"] for line in lines if line["event"] == "execution accepted"]
    assert codes[1] == f"raise ValueError('{SECRET}')"
    assert "xxxx" not in json.dumps(lines)


def test_the_log_of_a_service_at_warning_has_nothing_of_what_goes_well(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELLHOUSE_LOG", "warning")
    _, lines = _logged(cli, "--drain-seconds", "0")
    assert lines == []
