"""MCP over standard input and output: one client, for as long as it keeps the input open."""

from collections.abc import Awaitable, Callable

from cellhouse.doors.mcp.calls import Calls
from cellhouse.doors.mcp.guest import Guest, at_once
from cellhouse.doors.mcp.pipes import standard_streams
from cellhouse.doors.mcp.place import Place
from cellhouse.doors.mcp.server import make_server


async def serve_stdio(
    place: Place, *, instructions: str, ready: Callable[[], Awaitable[None]] = at_once
) -> None:
    """Until the input ends; tools are called once it is `ready`. Whatever else is written to standard output meanwhile goes to standard error."""
    guest = Guest(place, calls=Calls(), ready=ready)
    server = make_server(lambda context: guest, instructions=instructions)
    async with standard_streams() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
