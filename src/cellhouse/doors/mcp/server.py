"""The MCP server: the SDK's, with our tools and resources. All that it has is registered when it is made."""

from collections.abc import Awaitable
from typing import Any, Final, TypeVar

from mcp import types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from cellhouse import __version__
from cellhouse.doors.mcp import resources
from cellhouse.doors.mcp.answers import ERROR, refused
from cellhouse.doors.mcp.guest import Context, Guest, Welcome
from cellhouse.doors.mcp.tools import BY_NAME, TOOLS
from cellhouse.doors.problems import of_unexpected
from cellhouse.model import CellhouseError, InvalidArgument, NotFound

T = TypeVar("T")

NAME: Final = "cellhouse"
TITLE: Final = "Cellhouse"
_HOUR: Final = 3_600_000

INSTRUCTIONS: Final = """\
Runs code in live kernels inside sandboxes and tells what happened, all of it. A runtime (runtimes/{runtime}) is a sandbox with \
files in /content; a session in it (runtimes/{runtime}/sessions/{session}) is one kernel, whose variables stay. Every call names \
the session it means: nothing is remembered between calls. Long output, images and files are described in a result and read \
with read_output, read_rich_output and read_file."""
EMBEDDED: Final = (
    INSTRUCTIONS
    + " There is a runtime `runtimes/default` already: run code with session "
    + "`runtimes/default/sessions/main`, or any other name for a separate set of variables."
)
OF_SERVICE: Final = (
    INSTRUCTIONS
    + " Begin with list_runtimes, or make a runtime with create_runtime, and delete it when you are done."
)


def make_server(welcome: Welcome, *, instructions: str) -> Server[Any]:
    """`welcome` tells whose call each request is."""
    listing = types.ListToolsResult(tools=[tool.told() for tool in TOOLS])
    templates = types.ListResourceTemplatesResult(resource_templates=list(resources.TEMPLATES))

    async def list_tools(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return listing

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return await _called(welcome(context), context, params)

    async def list_resources(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=await _told(resources.listed(welcome(context))))

    async def list_templates(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return templates

    async def read_resource(
        context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await _told(resources.read(welcome(context), str(params.uri)))

    async def cancelled(context: Context, params: types.CancelledNotificationParams) -> None:
        guest = welcome(context)
        if guest.calls is None or params.request_id is None:
            return
        try:
            guest.caller.require(BY_NAME["execute_code"].scope)
        except CellhouseError:
            return  # a notification has no answer; who may not run code interrupts none
        await guest.calls.cancel(str(params.request_id))

    server: Server[Any] = Server(
        NAME,
        version=__version__,
        title=TITLE,
        instructions=instructions,
        cache_hints={
            "tools/list": CacheHint(_HOUR, "public"),
            "resources/templates/list": CacheHint(_HOUR, "public"),
        },
        # No argument is mirrored in a header, so there is nothing to look up for each call.
        get_tool_input_schema=lambda name: None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )
    server.add_notification_handler("notifications/cancelled", types.CancelledNotificationParams, cancelled)
    return server


async def _called(
    guest: Guest, context: Context, params: types.CallToolRequestParams
) -> types.CallToolResult:
    """What the tool says. An error of the call is a result that says so, for the model to read."""
    tool = BY_NAME.get(params.name)
    if tool is None:
        raise MCPError(
            code=types.INVALID_PARAMS,
            message=f"Unknown tool: {params.name[:100]!a}; there are {', '.join(BY_NAME)}",
        )
    try:
        guest.caller.require(tool.scope)
        with guest.slot():
            await guest.ready()
            return await tool.handle(guest, context, params.arguments or {})
    except CellhouseError as error:
        return refused(error)
    except Exception as error:
        return refused(of_unexpected(f"tools/call {tool.name}", error))


async def _told(work: Awaitable[T]) -> T:
    """What it gives; an error of the call is one of the protocol, since a resource has no other way to say it."""
    try:
        return await work
    except CellhouseError as error:
        code = types.INVALID_PARAMS if isinstance(error, NotFound | InvalidArgument) else types.INTERNAL_ERROR
        raise MCPError(
            code=code,
            message=f"{error.status}: {error.message}",
            data={ERROR: error.to_wire()["error"]},
        ) from None
    except Exception as error:
        told = of_unexpected("resources", error)
        raise MCPError(code=types.INTERNAL_ERROR, message=f"{told.status}: {told.message}") from None
