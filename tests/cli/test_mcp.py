"""`cellhouse mcp` as a client of it sees it: over pipes, with kernels that are real."""

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tests.cli.support import Cli
from tests.doors.mcp.support import document, no, ok, words
from tests.doors.support import opened
from tests.runtime.conftest import fakes
from tests.runtime.support import FakeWorld

__all__ = ["fakes"]

MAIN = "runtimes/default/sessions/main"


def client_of(cli: Cli, *args: str) -> Client:
    first, *rest = cli.command("mcp", *args)
    return Client(StdioServerParameters(command=first, args=rest, env=cli.variables(), cwd=cli.directory))


@contextmanager
def running(cli: Cli) -> Iterator["subprocess.Popen[bytes]"]:
    """With its pipes, for what no client library would send."""
    with subprocess.Popen(
        cli.command("mcp"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cli.variables(),
        cwd=cli.directory,
    ) as process:
        yield process


def ask(process: "subprocess.Popen[bytes]", number: int, method: str, **params: Any) -> dict[str, Any]:
    """A request of the handshake's era and its response; whatever else is told before that is passed over."""
    assert process.stdin is not None
    assert process.stdout is not None
    request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.flush()
    while True:
        told: dict[str, Any] = json.loads(process.stdout.readline())
        if told.get("id") == number:
            return told


def initialize(process: "subprocess.Popen[bytes]") -> None:
    info = {"name": "test", "version": "1"}
    told = ask(process, 0, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
    assert told["result"]["protocolVersion"] == "2025-06-18"


async def test_alone_it_has_a_runtime_and_leaves_only_records(cli: Cli) -> None:
    async with client_of(cli) as client:
        assert document(await ok(client, "execute_code", code="x = 6 * 7", session=MAIN))["outcome"] == "OK"
        result = await ok(client, "execute_code", code="open('a.txt', 'w').write('x' * x)\nx", session=MAIN)
        assert "value:\n42\n" in words(result)
        assert "a.txt, 42 bytes" in words(result)
        plot = "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])\nplt.show()"
        execution = document(await ok(client, "execute_code", code=plot, session=f"{MAIN}-2"))["execution"]
        seen = await ok(client, "read_rich_output", execution=execution, index=0)
        assert [each.type for each in seen.content] == ["image", "text", "resource_link"]
        await ok(client, "create_runtime", runtimeId="other")
    (left,) = (cli.state / "embedded").iterdir()
    assert not list((left / "runtimes").iterdir())
    assert (left / "journal").is_dir()


def test_standard_output_carries_the_protocol_only(cli: Cli) -> None:
    with running(cli) as process:
        initialize(process)
        assert process.stdin is not None
        process.stdin.write(b"this is no JSON\n[]\n\xff\xfe\n")
        code = "import os; os.write(1, b'raw'); print('printed')"
        told = ask(process, 1, "tools/call", name="execute_code", arguments={"code": code, "session": MAIN})
        assert told["result"]["structuredContent"]["stdout"] == "rawprinted\n"
        process.stdin.close()
        assert process.wait(60) == 0
        assert process.stdout is not None
        assert process.stdout.read() == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_ends_it_while_code_runs(cli: Cli, number: signal.Signals) -> None:
    with running(cli) as process:
        initialize(process)
        arguments = {"code": "import time; time.sleep(600)", "session": MAIN, "waitTimeout": 0.5}
        told = ask(process, 1, "tools/call", name="execute_code", arguments=arguments)
        assert told["result"]["isError"]
        process.send_signal(number)
        assert process.wait(60) == 0
    (left,) = (cli.state / "embedded").iterdir()
    assert not list((left / "runtimes").iterdir())


async def test_walls_that_can_t_be_had_are_told_by_every_call(cli: Cli) -> None:
    async with client_of(cli, "--set", "walls.memory=999999999999999") as client:
        said = await no(client, "execute_code", code="1", session=MAIN)
        assert "FAILED_PRECONDITION" in said or "INVALID_ARGUMENT" in said


async def test_a_bridge_ends_and_what_it_began_goes_on(fakes: FakeWorld, cli: Cli, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path / "service") as door:
        async with client_of(cli, "--url", door.service.url) as client:
            await ok(client, "create_runtime", runtimeId="here")
            call = {
                "code": "print a\nhold\nvalue 2",
                "session": "runtimes/here/sessions/main",
                "executionId": "one",
            }
            cut = await client.call_tool("execute_code", {**call, "waitTimeout": 0.5})
            assert "DEADLINE_EXCEEDED" in words(cut)
            assert document(cut)["stdout"] == "a\n"
            await ok(client, "write_file", runtime="runtimes/here", path="a.txt", text="0123456789")
            page = document(
                await ok(client, "read_file", runtime="runtimes/here", path="a.txt", offset=3, limit=4)
            )
            assert (page["text"], page["nextOffset"], page["totalBytes"]) == ("3456", "7", "10")
            past = document(await ok(client, "read_file", runtime="runtimes/here", path="a.txt", offset=99))
            assert past["totalBytes"] == "10"
            await ok(client, "list_runtimes")
        async with client_of(cli, "--url", door.service.url) as client:
            going_on = asyncio.ensure_future(client.call_tool("execute_code", call))
            await ok(client, "list_runtimes")
            door.kernel.release.set()
            assert document(await going_on)["result"] == "2"


def test_a_service_that_is_not_there(cli: Cli) -> None:
    done = cli("mcp", "--url", "nonsense://x")
    assert done.returncode == 2
    assert b"nonsense" in done.stderr
    assert done.stdout == b""
