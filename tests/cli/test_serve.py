"""`cellhouse serve` as a process of its own, over real kernels: it begins, is told to stop, is killed, begins again."""

import contextlib
import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.cli.support import Cli

SECONDS = 60.0


@contextlib.contextmanager
def serving(cli: Cli, *args: str) -> Iterator[tuple["subprocess.Popen[str]", httpx.Client]]:
    """A running service on a port that it chose, and a client of it."""
    process = subprocess.Popen(
        cli.command("serve", "--port", "0", *args),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cli.directory,
        env=cli.variables(),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    watchdog = threading.Timer(SECONDS, process.kill)
    watchdog.start()
    try:
        line = process.stdout.readline()
        assert line.startswith("cellhouse: listening on http://127.0.0.1:"), process.stderr.read()
        # Made for this account where there was none.
        headers = {"authorization": f"Bearer {(cli.state / 'tokens' / 'local').read_text().strip()}"}
        url = line.split()[-1]
        with httpx.Client(base_url=url, headers=headers, timeout=SECONDS, trust_env=False) as client:
            yield process, client
    finally:
        watchdog.cancel()
        process.terminate()
        process.wait(SECONDS)
        process.stdout.close()
        process.stderr.close()
        watchdog.join()


def executed(client: httpx.Client, code: str, **options: Any) -> dict[str, Any]:
    response = client.post("/v1/runtimes/here/sessions/main:executeCode", json={"code": code, **options})
    assert response.status_code == 200, response.text
    result: dict[str, Any] = response.json()
    return result


def started(client: httpx.Client, code: str, **options: Any) -> str:
    """Hand code in and go away once it runs; its path."""
    body = {"code": code, **options}
    path = "/v1/runtimes/here/sessions/main:executeCode"
    with client.stream("POST", path, json=body, headers={"accept": "application/x-ndjson"}) as response:
        for line in response.iter_lines():
            if json.loads(line)["type"] == "stream":
                return f"/v1/{response.headers['cellhouse-execution']}"
    raise AssertionError("it ended before it printed")


def test_it_runs_code_and_ends_with_what_runs_on_record(cli: Cli) -> None:
    with serving(cli, "--drain-seconds", "0.1") as (process, client):
        made = client.post("/v1/runtimes", json={"runtimeId": "here", "runtime": {"start": "fresh"}})
        assert made.status_code == 200, made.text
        result = executed(client, "import sys; print('é'); sys.stdout.flush(); 6 * 7", executionId="one")
        assert (result["outcome"], result["stdout"], result["result"]) == ("OK", "é\n", "42")
        shown = executed(client, "from IPython.display import HTML; HTML('<b>x</b>')")
        data = client.get(f"/v1/{shown['execution']}/richOutputs/0/data", params={"mimeType": "text/html"})
        assert data.text == "<b>x</b>"
        client.put("/v1/runtimes/here/files/in.txt", content=b"given").raise_for_status()
        assert executed(client, "open('/content/in.txt').read()")["result"] == "'given'"
        executed(client, "open('/content/out.txt', 'w').write('made')")
        assert client.get("/v1/runtimes/here/files/out.txt").text == "made"
        running = started(client, "print('so far', flush=True)\nimport time\ntime.sleep(1000)")
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
    with serving(cli) as (_, client):
        ended = client.get(running).json()
        assert (ended["outcome"], ended["stdout"]) == ("INTERRUPTED", "so far\n")
        again = executed(client, "import sys; print('é'); sys.stdout.flush(); 6 * 7", executionId="one")
        assert again == result


GATED = """
open('/content/runs', 'a').write('x')
print('so far', flush=True)
import os, time
while not os.path.exists('/content/go'):
    time.sleep(0.005)
print('to the end')
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGUSR2])
def test_killed_or_told_to_leave_its_runtimes_go_on_and_the_next_one_has_them(
    cli: Cli, end: signal.Signals
) -> None:
    body = {"runtimeId": "here", "requestId": "r", "runtime": {"start": "fresh"}}
    with serving(cli) as (process, client):
        assert client.post("/v1/runtimes", json=body).status_code == 200
        path = started(client, GATED, executionId="one")
        process.send_signal(end)
        assert process.wait(SECONDS) == (0 if end is signal.SIGUSR2 else -end)
    with serving(cli) as (_, client):
        assert client.get(path).json()["state"] == "RUNNING"
        assert client.post("/v1/runtimes", json=body).json()["name"] == "runtimes/here"
        client.put("/v1/runtimes/here/files/go", content=b"").raise_for_status()
        result = executed(client, GATED, executionId="one")
        assert (result["outcome"], result["stdout"]) == ("OK", "so far\nto the end\n")
        events = client.get(f"{path}/events", headers={"accept": "application/x-ndjson"}).text.splitlines()
        assert [json.loads(event)["seq"] for event in events] == list(range(1, len(events) + 1))
        assert client.get("/v1/runtimes/here/files/runs").text == "x"


def test_killed_with_its_runtimes_in_it_it_tells_of_the_loss_and_runs_nothing_twice(cli: Cli) -> None:
    code = "open('/content/runs', 'a').write('x')\nprint('so far', flush=True)\nimport time\ntime.sleep(1000)"
    with serving(cli, "--in-process") as (process, client):
        body = {"runtimeId": "here", "requestId": "r", "runtime": {"start": "fresh"}}
        assert client.post("/v1/runtimes", json=body).status_code == 200
        path = started(client, code, executionId="one")
        process.kill()
        process.wait(SECONDS)
    with serving(cli) as (_, client):
        result = executed(client, code, executionId="one")
        assert (result["outcome"], result["stdout"]) == ("RUNTIME_LOST", "so far\n")
        assert result["outcomeInfo"]["metadata"]["mayHaveRun"] == "true"
        assert client.get(path).json() == result
        assert client.get("/v1/runtimes/here/files/runs").text == "x"
        # The runtime that the request made is over, and no second one is made behind its caller's back.
        refused = client.post("/v1/runtimes", json=body)
        assert refused.json()["error"]["details"][0]["reason"] == "RUNTIME_DELETED"


@pytest.mark.parametrize(
    ("args", "says", "status"),
    [
        (["--host", "0.0.0.0"], "there is no token", 3),
        (["--tls-cert", "none.pem"], "none.pem", 2),
        (["--uds", "/nowhere/at/all"], "/nowhere/at/all", 2),
        (["--host", "127.evil.example"], "there is no token", 3),
    ],
)
def test_what_it_cannot_do_is_said(cli: Cli, args: list[str], says: str, status: int) -> None:
    done = cli("serve", "--port", "0", *args)
    assert done.returncode == status
    assert says in done.stderr.decode()
    assert b"Traceback" not in done.stderr
