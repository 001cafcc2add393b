"""Who calls a tool: a place to call it on, and what the caller may."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from mcp.server.context import ServerRequestContext

from cellhouse.doors.callers import ALL_SCOPES, LOCAL_TENANT, Caller
from cellhouse.doors.mcp.calls import Calls
from cellhouse.doors.mcp.place import Place

Context = ServerRequestContext[Any, Any]


async def at_once() -> None:
    """There is nothing to wait for."""


@dataclass(frozen=True, slots=True)
class Guest:
    """One call's caller."""

    place: Place
    caller: Caller = field(default_factory=lambda: Caller(LOCAL_TENANT, "local", ALL_SCOPES))
    calls: Calls | None = None
    """Where what can be cancelled is known; None where the transport has no way to cancel but closing a response."""
    slot: Callable[[], AbstractContextManager[None]] = nullcontext
    """Taken while a call is being answered; refuses one too many."""
    ready: Callable[[], Awaitable[None]] = at_once
    """Awaited before a tool is called."""


Welcome = Callable[[Context], Guest]
"""Tells whose call a request is."""
