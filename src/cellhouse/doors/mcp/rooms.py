"""Tools for runtimes and sessions: each one call of the house."""

from typing import Any

from mcp import types

from cellhouse.doors.mcp import arguments
from cellhouse.doors.mcp.answers import told
from cellhouse.doors.mcp.guest import Context, Guest
from cellhouse.model import RuntimeName, SessionName, Wire


class Empty(Wire):
    """It is done."""


class Interrupted(Wire):
    """Whether something ran."""

    interrupted: bool


async def list_runtime_specs(guest: Guest, context: Context, given: dict[str, Any]) -> types.CallToolResult:
    arguments.Nothing.read("list_runtime_specs", given)
    return told(await guest.place.runtime_specs())


async def list_runtimes(guest: Guest, context: Context, given: dict[str, Any]) -> types.CallToolResult:
    asked = arguments.Pages.read("list_runtimes", given)
    return told(await guest.place.page_runtimes(page_size=asked.page_size, page_token=asked.page_token))


async def create_runtime(guest: Guest, context: Context, given: dict[str, Any]) -> types.CallToolResult:
    asked = arguments.CreateRuntime.read("create_runtime", given)
    made = await guest.place.create_runtime(
        asked.runtime, runtime_id=asked.runtime_id, request_id=asked.request_id
    )
    return told(made)


async def delete_runtime(guest: Guest, context: Context, given: dict[str, Any]) -> types.CallToolResult:
    asked = arguments.OfRuntime.read("delete_runtime", given)
    name = RuntimeName.parse(asked.runtime)
    await guest.place.delete_runtime(str(name))
    return told(Empty(), f"{name} is deleted.")


async def list_sessions(guest: Guest, context: Context, given: dict[str, Any]) -> types.CallToolResult:
    asked = arguments.ListSessions.read("list_sessions", given)
    name = RuntimeName.parse(asked.runtime)
    return told(
        await guest.place.page_sessions(str(name), page_size=asked.page_size, page_token=asked.page_token)
    )


async def delete_session(guest: Guest, context: Context, given: dict[str, Any]) -> types.CallToolResult:
    asked = arguments.OfSession.read("delete_session", given)
    name = SessionName.parse(asked.session)
    await guest.place.delete_session(str(name))
    return told(Empty(), f"{name} is deleted; the files in /content stay.")


async def interrupt_session(guest: Guest, context: Context, given: dict[str, Any]) -> types.CallToolResult:
    asked = arguments.OfSession.read("interrupt_session", given)
    name = SessionName.parse(asked.session)
    did = await guest.place.interrupt(str(name))
    words = f"What ran in {name} is being interrupted." if did else f"Nothing runs in {name}."
    return told(Interrupted(interrupted=did), words)


async def restart_session(guest: Guest, context: Context, given: dict[str, Any]) -> types.CallToolResult:
    asked = arguments.OfSession.read("restart_session", given)
    name = SessionName.parse(asked.session)
    await guest.place.restart(str(name))
    words = f"{name} was restarted: its variables are gone, and what ran or waited there has ended. The files in /content stay."
    return told(Empty(), words)
