"""A server over a house with fake kernels, and the SDK's client of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx2
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from cellhouse.doors.mcp.calls import Calls
from cellhouse.doors.mcp.guest import Guest
from cellhouse.doors.mcp.house_place import HousePlace
from cellhouse.doors.mcp.server import make_server
from cellhouse.doors.server import Service
from cellhouse.house import House
from cellhouse.keepers import DirectHouse
from cellhouse.model import MIB
from tests.runtime.support import settings

Era = Literal["legacy", "auto"]
ERAS: tuple[Era, ...] = ("legacy", "auto")
"""The handshake of the revisions before 2026-07-28, and that revision itself."""

RUNTIME = "runtimes/here"
SESSION = f"{RUNTIME}/sessions/main"
FILE_BYTES = 4 * MIB


@asynccontextmanager
async def in_process(directory: Path, era: Era = "auto") -> AsyncIterator[Client]:
    """A client of a server in the same process, over a house with the runtime `here`."""
    async with House(settings=settings(directory)) as house:
        await house.create_runtime(runtime_id="here")
        guest = Guest(HousePlace(DirectHouse(house), file_bytes=FILE_BYTES), calls=Calls())
        async with Client(make_server(lambda context: guest, instructions="x"), mode=era) as client:
            yield client


@asynccontextmanager
async def over_http(service: Service, era: Era = "auto", token: str = "") -> AsyncIterator[Client]:
    """A client of a service."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(headers=headers, timeout=20, trust_env=False) as http:
        transport = streamable_http_client(f"{service.url}/mcp", http_client=http)
        async with Client(transport, mode=era) as client:
            yield client


async def ok(client: Client, tool: str, **arguments: Any) -> types.CallToolResult:
    """The result of a call that worked."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, words(result)
    return result


async def no(client: Client, tool: str, **arguments: Any) -> str:
    """The words of an error."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, words(result)
    return words(result)


def words(result: types.CallToolResult) -> str:
    """The text of a result."""
    return "\n".join(each.text for each in result.content if isinstance(each, types.TextContent))


def document(result: types.CallToolResult) -> dict[str, Any]:
    assert isinstance(result.structured_content, dict)
    return result.structured_content
