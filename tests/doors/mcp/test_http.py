"""`/mcp` of a service: the same tokens, scopes, tenants and bounds as REST has."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.shared.exceptions import MCPError

from tests.doors.mcp.support import ERAS, Era, document, no, ok, over_http
from tests.doors.support import Names, client_of, opened, until
from tests.runtime.support import FakeWorld, within

HERE = "runtimes/here"
MAIN = f"{HERE}/sessions/main"
VERSION = "2026-07-28"
HEADERS = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": VERSION,
    "mcp-method": "tools/call",
}


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """A request of revision 2026-07-28, whole in itself."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@pytest.mark.parametrize("era", ERAS)
async def test_a_story(fakes: FakeWorld, tmp_path: Path, era: Era) -> None:
    async with opened(fakes, tmp_path) as door, over_http(door.service, era) as client:
        await ok(client, "create_runtime", runtimeId="here")
        told: list[str] = []

        async def report(progress: float, total: float | None = None, message: str | None = None) -> None:
            told.append(message or "")
            fakes.launchers[-1].kernel.release.set()

        result = await within(
            client.call_tool(
                "execute_code",
                {"code": "print a\nhold\nvalue 2", "session": MAIN},
                progress_callback=report,
            )
        )
        assert (told, document(result)["result"]) == (["a\n"], "2")
        await ok(client, "delete_runtime", runtime=HERE)


async def test_a_response_that_is_closed_interrupts_nothing(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path) as door:
        await door.make(runtimeId="here")
        request = call("execute_code", code="print a\nhold", session=MAIN, executionId="held")
        headers = {**HEADERS, "mcp-name": "execute_code"}
        posting = asyncio.ensure_future(door.client.post("/mcp", json=request, headers=headers))
        await until(lambda: fakes.launchers and fakes.launchers[-1].made and door.kernel.codes)
        posting.cancel()
        tenant = door.service.tenants.open[0]
        await until(lambda: tenant.requests == 0)
        path = f"/v1/{MAIN}/executions/held"
        assert (await door.client.get(path)).json()["state"] == "RUNNING"
        door.kernel.release.set()
        assert (await door.events(path))[-1]["result"]["outcome"] == "OK"


async def test_a_cancelling_of_an_older_revision_interrupts(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path) as door, over_http(door.service, "legacy") as client:
        await door.make(runtimeId="here")
        request = {"code": "hold", "session": MAIN, "executionId": "held"}
        running = asyncio.ensure_future(client.call_tool("execute_code", request))
        await until(lambda: fakes.launchers and fakes.launchers[-1].made and door.kernel.codes)
        running.cancel()
        events = await door.events(f"/v1/{MAIN}/executions/held")
        assert events[-1]["result"]["outcome"] == "INTERRUPTED"


async def test_who_may_call(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path, authenticator=Names()) as door:
        without = await door.client.post("/mcp", json=call("list_runtimes"), headers=HEADERS)
        assert without.status_code == 401
        assert "www-authenticate" in without.headers
        async with (
            over_http(door.service, token="one") as one,
            over_http(door.service, token="two:read") as two,
        ):
            await ok(one, "create_runtime", runtimeId="here")
            result = document(await ok(one, "execute_code", code="print a", session=MAIN))
            assert (
                "runtimes" not in document(await ok(two, "list_runtimes"))
                or not document(await ok(two, "list_runtimes"))["runtimes"]
            )
            assert "NOT_FOUND" in await no(two, "get_execution", execution=result["execution"])
            with pytest.raises(MCPError, match="NOT_FOUND"):
                await two.read_resource(f"cellhouse://{result['execution']}/stdout")
            assert "PERMISSION_DENIED" in await no(two, "create_runtime")
            assert "scope 'execute'" in await no(two, "execute_code", code="print a", session=MAIN)
        async with over_http(door.service, token="one:execute") as writer:
            assert "PERMISSION_DENIED" in await no(writer, "get_execution", execution=result["execution"])
            with pytest.raises(MCPError, match="PERMISSION_DENIED"):
                await writer.list_resources()


async def test_a_session_of_one_tenant_is_none_of_another(fakes: FakeWorld, tmp_path: Path) -> None:
    begin = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }  # fmt: skip
    async with opened(fakes, tmp_path, authenticator=Names()) as door:
        accept = {"accept": HEADERS["accept"]}

        async def post(token: str, body: Any, **headers: str) -> httpx.Response:
            authorized = {**accept, "authorization": f"Bearer {token}", **headers}
            return await within(door.client.post("/mcp", json=body, headers=authorized))

        session = {"mcp-session-id": (await post("one", begin)).headers["mcp-session-id"]}
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        assert (await post("one", listing, **session)).status_code == 200
        assert (await post("two", listing, **session)).status_code == 404


async def test_what_rest_bounds_is_bounded_here(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path, body_bytes=10_000, max_requests=2) as door:
        await door.make(runtimeId="here")
        large = await door.client.post(
            "/mcp", content=json.dumps(call("execute_code", code="#" * 20_000, session=MAIN)), headers=HEADERS
        )
        assert large.status_code == 413
        elsewhere = await door.client.post(
            "/mcp", json=call("list_runtimes"), headers={**HEADERS, "host": "evil.example"}
        )
        assert elsewhere.status_code == 403
        assert (
            await door.client.post(
                "/mcp", content=b"{", headers={**HEADERS, "content-type": "application/json"}
            )
        ).status_code == 400
        assert (await door.client.get("/mcp", headers=HEADERS)).status_code == 405


async def test_values_without_number_are_not_read(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path) as door:
        refused = await door.client.post("/mcp", content=b"[" + b"[]," * 200_000 + b"[]]", headers=HEADERS)
        assert refused.status_code == 400
        assert "more than 100000 values" in refused.json()["error"]["message"]


async def test_a_service_that_stops_tells_what_it_can(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path) as door:
        await door.make(runtimeId="here")
        async with client_of(door.service) as waiting:
            request = call("execute_code", code="hold", session=MAIN, executionId="held")
            headers = {**HEADERS, "mcp-name": "execute_code"}
            posting = asyncio.ensure_future(waiting.post("/mcp", json=request, headers=headers))
            await until(lambda: fakes.launchers and fakes.launchers[-1].made and door.kernel.codes)
            await door.service.close()
            told = (await within(posting)).json()["result"]
            assert told["structuredContent"]["outcome"] == "INTERRUPTED"
