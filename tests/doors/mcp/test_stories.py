"""The tools over a house, in the protocol's both eras."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, types
from mcp.shared.exceptions import MCPError

from cellhouse.doors.mcp.answers import ERROR
from tests.doors.mcp.support import ERAS, RUNTIME, SESSION, Era, document, in_process, no, ok, words
from tests.runtime.support import FakeWorld, within

NAME = f"{SESSION}/executions"


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> Era:
    era: Era = request.param
    return era


async def started(client: Client, execution: str) -> None:
    """Wait until it runs."""
    async with asyncio.timeout(20):
        state = None
        while state != "RUNNING":
            found = await client.call_tool("get_execution", {"execution": execution})
            state = (found.structured_content or {}).get("state")


async def test_code_runs_and_the_whole_result_comes_back(fakes: FakeWorld, tmp_path: Path, era: Era) -> None:
    async with in_process(tmp_path, era) as client:
        result = await ok(
            client, "execute_code", code="print a\nerr b\nvalue 2", session=SESSION, executionId="one"
        )
        told = document(result)
        assert (told["stdout"], told["stderr"], told["result"]) == ("a\n", "b\n", "2")
        assert (told["outcome"], told["executionId"]) == ("OK", "one")
        assert words(result) == f"stdout:\na\nstderr:\nb\nvalue:\n2\nexecution: {NAME}/one"
        again = await ok(
            client, "execute_code", code="print a\nerr b\nvalue 2", session=SESSION, executionId="one"
        )
        assert document(again) == told
        fresh = document(await ok(client, "execute_code", code="print a", runtime=RUNTIME))
        assert fresh["session"].startswith(f"{RUNTIME}/sessions/s-")


async def test_an_exception_is_a_result(fakes: FakeWorld, tmp_path: Path, era: Era) -> None:
    async with in_process(tmp_path, era) as client:
        result = await ok(client, "execute_code", code="raise ValueError no", session=SESSION)
        assert document(result)["executionError"]["name"] == "ValueError"
        assert "ValueError: no" in words(result)


async def test_cut_off_and_gone_on_with(fakes: FakeWorld, tmp_path: Path, era: Era) -> None:
    async with in_process(tmp_path, era) as client:
        call = {"code": "print begun\nhold\nprint end", "session": SESSION, "executionId": "slow"}
        cut = await client.call_tool("execute_code", {**call, "waitTimeout": 0.2})
        assert cut.is_error
        assert "DEADLINE_EXCEEDED" in words(cut)
        assert "Call again with the same arguments to go on" in words(cut)
        assert (document(cut)["state"], document(cut)["stdout"]) == ("RUNNING", "begun\n")
        assert cut.meta is not None
        assert cut.meta[ERROR]["status"] == "DEADLINE_EXCEEDED"
        assert "still runs" in words(await ok(client, "get_execution", execution=f"{NAME}/slow"))
        going_on = asyncio.ensure_future(client.call_tool("execute_code", call))
        waiting = asyncio.ensure_future(
            client.call_tool("get_execution", {"execution": f"{NAME}/slow", "waitTimeout": 20})
        )
        fakes.launchers[-1].kernel.release.set()
        for done in (await within(going_on), await within(waiting)):
            assert document(done)["stdout"] == "begun\nend\n"


async def test_without_an_id_the_way_on_is_another(fakes: FakeWorld, tmp_path: Path) -> None:
    async with in_process(tmp_path) as client:
        said = await no(client, "execute_code", code="hold", session=SESSION, waitTimeout=0.2)
        assert "To go on: get_execution" in said
        assert "would run the code a second time" in said
        await ok(client, "interrupt_session", session=SESSION)


async def test_output_comes_as_progress(fakes: FakeWorld, tmp_path: Path) -> None:
    async with in_process(tmp_path, "legacy") as client:
        told: list[str] = []
        some = asyncio.Event()

        async def report(progress: float, total: float | None = None, message: str | None = None) -> None:
            told.append(message or "")
            some.set()

        running = asyncio.ensure_future(
            client.call_tool(
                "execute_code", {"code": "print a\nhold", "session": SESSION}, progress_callback=report
            )
        )
        await within(some.wait())
        assert told == ["a\n"]
        fakes.launchers[-1].kernel.release.set()
        assert document(await within(running))["outcome"] == "OK"


async def test_an_interrupt_by_tool(fakes: FakeWorld, tmp_path: Path, era: Era) -> None:
    async with in_process(tmp_path, era) as client:
        assert document(await ok(client, "interrupt_session", session=await session_of(client))) == {
            "interrupted": False
        }
        call = {"code": "hold", "session": SESSION, "executionId": "held"}
        running = asyncio.ensure_future(client.call_tool("execute_code", call))
        await started(client, f"{NAME}/held")
        assert document(await ok(client, "interrupt_session", session=SESSION)) == {"interrupted": True}
        assert document(await within(running))["outcome"] == "INTERRUPTED"
        await ok(client, "restart_session", session=SESSION)
        assert "FRESH_KERNEL" in words(await ok(client, "execute_code", code="print a", session=SESSION))


async def session_of(client: Client) -> str:
    return str(document(await ok(client, "execute_code", code="", session=SESSION))["session"])


async def test_a_cancelled_call_interrupts_where_that_is_said(fakes: FakeWorld, tmp_path: Path) -> None:
    async with in_process(tmp_path, "legacy") as client:
        call = {"code": "hold", "session": SESSION, "executionId": "held"}
        running = asyncio.ensure_future(client.call_tool("execute_code", call))
        await started(client, f"{NAME}/held")
        running.cancel()  # by which the SDK's client sends notifications/cancelled
        done = await ok(client, "get_execution", execution=f"{NAME}/held", waitTimeout=20)
        assert document(done)["outcome"] == "INTERRUPTED"


async def test_who_only_attached_cancels_nothing(fakes: FakeWorld, tmp_path: Path) -> None:
    async with in_process(tmp_path, "legacy") as client:
        call = {"code": "hold", "session": SESSION, "executionId": "held"}
        first = asyncio.ensure_future(client.call_tool("execute_code", call))
        await started(client, f"{NAME}/held")
        second = asyncio.ensure_future(client.call_tool("execute_code", call))
        await ok(client, "list_runtimes")
        second.cancel()
        await ok(client, "list_runtimes")
        fakes.launchers[-1].kernel.release.set()
        assert document(await within(first))["outcome"] == "OK"


async def test_long_text_is_paged(fakes: FakeWorld, tmp_path: Path) -> None:
    async with in_process(tmp_path) as client:
        code = "\n".join(f"print {number} é" for number in range(2_000))
        result = await ok(client, "execute_code", code=code, session=SESSION)
        execution = document(result)["execution"]
        whole = "".join(f"{number} é\n" for number in range(2_000))
        found, offset = "", 0
        while offset < len(whole.encode()):
            page = document(
                await ok(
                    client, "read_output", execution=execution, stream="stdout", offset=offset, limit=3_000
                )
            )
            found, offset = found + page["text"], int(page["nextOffset"])
        assert found == whole
        last = document(await ok(client, "read_output", execution=execution, stream="stdout", tail=7))
        assert whole.endswith(last["text"])
        assert last["text"]


async def test_rich_outputs_are_read_as_text_with_a_link(fakes: FakeWorld, tmp_path: Path) -> None:
    async with in_process(tmp_path) as client:
        html = f"<img src='data:image/png;base64,{'QUJD' * 100}'><b>{'x' * 500}</b>"
        result = await ok(client, "execute_code", code=f"display {html}", session=SESSION)
        (link,) = [each for each in result.content if isinstance(each, types.ResourceLink)]
        assert link.mime_type == "text/html"
        execution = document(result)["execution"]
        read = await ok(client, "read_rich_output", execution=execution, index=0, maxBytes=300)
        assert "QUJD" not in words(read)
        assert "400 characters of base64 left out" in words(read)
        assert "cut after 300 bytes" in words(read)
        (content,) = (await client.read_resource(link.uri)).contents
        assert isinstance(content, types.TextResourceContents)
        assert content.text == html
        assert "has no 'image/png'" in await no(
            client, "read_rich_output", execution=execution, index=0, mimeType="image/png"
        )
        await no(client, "read_rich_output", execution=execution, index=1)


async def test_files_there_and_back(fakes: FakeWorld, tmp_path: Path) -> None:
    async with in_process(tmp_path) as client:
        written = document(await ok(client, "write_file", runtime=RUNTIME, path="d/é.txt", text="añb\n" * 3))
        assert written["bytes"] == "15"
        raw = base64.b64encode(b"\xff\x00" * 9).decode()
        await ok(client, "write_file", runtime=RUNTIME, path="x.png", data=raw)
        listed = document(await ok(client, "list_files", runtime=RUNTIME, recursive=True))
        assert {file["name"] for file in listed["files"]} == {"d", "d/é.txt", "x.png"}
        page = document(await ok(client, "read_file", runtime=RUNTIME, path="d/é.txt", limit=2))
        assert (page["text"], page["nextOffset"], page["eof"]) == ("a", "1", False)  # ñ is not cut in two
        rest = document(await ok(client, "read_file", runtime=RUNTIME, path="d/é.txt", offset=1))
        assert (rest["text"], rest["eof"]) == ("ñb\nañb\nañb\n", True)
        binary = await ok(client, "read_file", runtime=RUNTIME, path="x.png")
        assert document(binary)["binary"] is True
        assert "is binary" in words(binary)
        (link,) = [each for each in binary.content if isinstance(each, types.ResourceLink)]
        (content,) = (await client.read_resource(link.uri)).contents
        assert isinstance(content, types.BlobResourceContents)
        assert (content.blob, content.mime_type) == (raw, "image/png")
        resources = (await client.list_resources()).resources
        assert [(each.name, each.size) for each in resources] == [("x.png", 18)]


async def test_resources_are_read_within_a_bound(fakes: FakeWorld, tmp_path: Path) -> None:
    async with in_process(tmp_path) as client:
        await ok(client, "write_file", runtime=RUNTIME, path="large", text="x" * (1 << 20) + "y")
        with pytest.raises(MCPError, match="1,048,577 bytes, more than the 1,048,576"):
            await client.read_resource(f"cellhouse://{RUNTIME}/files/large")
        with pytest.raises(MCPError, match="NOT_FOUND"):
            await client.read_resource(f"cellhouse://{RUNTIME}/files/none")
        with pytest.raises(MCPError, match="names nothing here"):
            await client.read_resource("file:///etc/passwd")
        result = document(await ok(client, "execute_code", code="print a", session=SESSION))
        (content,) = (await client.read_resource(f"cellhouse://{result['execution']}")).contents
        assert isinstance(content, types.TextResourceContents)
        assert '"stdout":"a\\n"' in content.text


async def test_runtimes_and_sessions(fakes: FakeWorld, tmp_path: Path, era: Era) -> None:
    async with in_process(tmp_path, era) as client:
        made = document(await ok(client, "create_runtime", runtimeId="other", runtime={"idleSeconds": 60}))
        assert made["name"] == "runtimes/other"
        assert "ALREADY_EXISTS" in await no(client, "create_runtime", runtimeId="other")
        names = [each["name"] for each in document(await ok(client, "list_runtimes"))["runtimes"]]
        assert names == [RUNTIME, "runtimes/other"]
        first = document(await ok(client, "list_runtimes", pageSize=1))
        assert len(first["runtimes"]) == 1
        assert first["nextPageToken"]
        await session_of(client)
        listed = document(await ok(client, "list_sessions", runtime=RUNTIME))
        assert [each["name"] for each in listed["sessions"]] == [SESSION]
        await ok(client, "delete_session", session=SESSION)
        await ok(client, "delete_runtime", runtime="runtimes/other")
        assert "NOT_FOUND" in await no(client, "delete_runtime", runtime="runtimes/other")
        assert document(await ok(client, "list_runtime_specs"))["environments"]


HOSTILE: list[tuple[str, dict[str, Any]]] = [
    ("execute_code", {}),
    ("execute_code", {"code": "print a"}),
    ("execute_code", {"code": "print a", "session": SESSION, "runtime": RUNTIME}),
    ("execute_code", {"code": 7, "session": SESSION}),
    ("execute_code", {"code": ["print a"], "session": SESSION}),
    ("execute_code", {"code": "\ud800", "session": SESSION}),
    ("execute_code", {"code": "x" * (5 << 20), "session": SESSION}),
    ("execute_code", {"code": "print a", "session": "main"}),
    ("execute_code", {"code": "print a", "session": "runtimes/../../etc/sessions/x"}),
    ("execute_code", {"code": "print a", "session": "runtimes/none/sessions/main"}),
    ("execute_code", {"code": "print a", "session": SESSION, "executionId": "a/b"}),
    ("execute_code", {"code": "print a", "session": SESSION, "executionId": "x" * 129}),
    ("execute_code", {"code": "print a", "session": SESSION, "waitTimeout": -1}),
    ("execute_code", {"code": "print a", "session": SESSION, "waitTimeout": "soon"}),
    ("execute_code", {"code": "print a", "session": SESSION, "executionTimeout": 0}),
    ("execute_code", {"code": "print a", "session": SESSION, "sesion": 1}),
    ("get_execution", {"execution": "x"}),
    ("get_execution", {"execution": f"{NAME}/none"}),
    ("get_execution", {"execution": None}),
    ("read_output", {"execution": f"{NAME}/none", "stream": "stdout"}),
    ("read_output", {"execution": f"{NAME}/none", "stream": "stdin"}),
    ("read_output", {"execution": f"{NAME}/none", "stream": "stdout", "offset": -1}),
    ("read_output", {"execution": f"{NAME}/none", "stream": "stdout", "limit": 10**30}),
    ("read_output", {"execution": f"{NAME}/none", "stream": "stdout", "limit": True}),
    ("read_output", {"execution": f"{NAME}/none", "stream": "stdout", "offset": 0, "tail": 1}),
    ("read_rich_output", {"execution": f"{NAME}/none", "index": 0}),
    ("read_rich_output", {"execution": f"{NAME}/none", "index": -1}),
    ("read_rich_output", {"execution": f"{NAME}/none", "index": 1.5}),
    ("read_rich_output", {"execution": f"{NAME}/none", "index": 0, "maxBytes": 1}),
    ("interrupt_session", {"session": "runtimes/here"}),
    ("interrupt_session", {"session": f"{RUNTIME}/sessions/none"}),
    ("restart_session", {"session": "x" * 100_000}),
    ("delete_session", {"session": f"{SESSION}/executions/x"}),
    ("delete_session", {"session": f"{RUNTIME}/sessions/none"}),
    ("list_files", {"runtime": RUNTIME, "path": "../.."}),
    ("list_files", {"runtime": RUNTIME, "path": "/etc"}),
    ("list_files", {"runtime": RUNTIME, "recursive": "yes"}),
    ("list_files", {"runtime": "runtimes/none"}),
    ("read_file", {"runtime": RUNTIME, "path": "../../etc/passwd"}),
    ("read_file", {"runtime": RUNTIME, "path": "a\0b"}),
    ("read_file", {"runtime": RUNTIME, "path": ""}),
    ("read_file", {"runtime": RUNTIME, "path": "\udcff"}),
    ("read_file", {"runtime": RUNTIME, "path": "none", "offset": 2**60}),
    ("read_file", {"runtime": RUNTIME, "path": "a/" * 5_000}),
    ("write_file", {"runtime": RUNTIME, "path": "x"}),
    ("write_file", {"runtime": RUNTIME, "path": "x", "text": "a", "data": "YQ=="}),
    ("write_file", {"runtime": RUNTIME, "path": "x", "data": "not base64!"}),
    ("write_file", {"runtime": RUNTIME, "path": "x", "text": "\udfff"}),
    ("write_file", {"runtime": RUNTIME, "path": "x/../../y", "text": "a"}),
    ("write_file", {"runtime": RUNTIME, "path": "large", "text": "x" * (5 << 20)}),
    ("create_runtime", {"runtimeId": "Not An Id"}),
    ("create_runtime", {"runtime": "small"}),
    ("create_runtime", {"runtime": {"limits": {"memory": -5}}}),
    ("create_runtime", {"runtime": {"limits": {"memroy": 5}}}),
    ("create_runtime", {"requestId": "a b"}),
    ("delete_runtime", {"runtime": "here"}),
    ("delete_runtime", {"runtime": {"name": RUNTIME}}),
    ("list_runtimes", {"pageSize": -1}),
    ("list_runtimes", {"pageToken": "nonsense"}),
    ("list_sessions", {"runtime": "runtimes/none"}),
    ("list_sessions", {}),
    ("list_runtime_specs", {"verbose": True}),
]  # fmt: skip


async def test_hostile_arguments_get_clear_words(fakes: FakeWorld, tmp_path: Path) -> None:
    async with in_process(tmp_path) as client:
        await session_of(client)
        for tool, arguments in HOSTILE:
            said = await within(no(client, tool, **arguments))
            assert said.partition(":")[0].isupper(), (tool, arguments, said)
            assert "INTERNAL" not in said, (tool, arguments, said)
            assert 20 < len(said) < 2_000, (tool, said)
        assert {tool for tool, _ in HOSTILE} == {tool.name for tool in (await client.list_tools()).tools}
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("rm_rf", {})
        await ok(client, "execute_code", code="print a", session=SESSION)
