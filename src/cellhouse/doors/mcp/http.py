"""`/mcp` of the service: streamable HTTP of every revision, behind the gate that REST has."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from cellhouse.doors.bodies import check_values, chunks_of
from cellhouse.doors.callers import Caller
from cellhouse.doors.limits import DoorLimits
from cellhouse.doors.mcp.calls import Calls
from cellhouse.doors.mcp.guest import Context, Guest
from cellhouse.doors.mcp.house_place import HousePlace
from cellhouse.doors.mcp.server import OF_SERVICE, make_server
from cellhouse.doors.tenants import Tenant
from cellhouse.model import CallReason, ResourceExhausted, Unavailable

PATH: Final = "/mcp"
_SESSION: Final = "mcp-session-id"
_CONNECTIONS: Final = 4_096
"""Sessions of older revisions whose calls are remembered, of one tenant."""


class McpDoor:
    """The ASGI application of the path. `close` ends what is open; nothing that runs in a house ends by it."""

    def __init__(self, limits: DoorLimits) -> None:
        self._limits = limits
        self._server: Server[Any] = make_server(self._welcome, instructions=OF_SERVICE)
        self._tenants: dict[str, _OfTenant] = {}
        self._closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope["state"]
        caller: Caller = state["caller"]
        tenant: Tenant = state["tenant"]
        # What surrounds a value is none of it (RFC 9110, section 5.5); the parser leaves it at the end.
        scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        if scope["method"] == "POST":
            receive = _again(await self._body(Request(scope, receive), tenant), receive)
        await (await self._of(caller.tenant)).handle(scope, receive, send)

    async def close(self) -> None:
        """Every open stream ends. May be called twice."""
        self._closed = True
        open_, self._tenants = self._tenants, {}
        await asyncio.gather(*(each.close() for each in open_.values()))

    async def _of(self, tenant: str) -> "_OfTenant":
        if self._closed:
            raise Unavailable(
                "the service is about to stop; try again when it is back", reason=CallReason.SHUTTING_DOWN
            )
        found = self._tenants.get(tenant)
        if found is None:
            # Of each its own, so that a session of one is nothing that another could name.
            found = self._tenants[tenant] = _OfTenant(self._server, self._limits)
        await found.ready()
        return found

    async def _body(self, request: Request, tenant: Tenant) -> bytes:
        """Read here, within the bounds that REST has too."""
        limits = self._limits
        pieces: list[bytes] = []
        with tenant.body() as take:
            async for piece in chunks_of(
                request, limit=limits.body_bytes, name="body_bytes", seconds=limits.body_seconds
            ):
                take(len(piece))
                pieces.append(piece)
        body = b"".join(pieces)
        check_values(body)
        return body

    def _welcome(self, context: Context) -> Guest:
        request = context.request
        assert isinstance(request, Request)
        caller: Caller = request.scope["state"]["caller"]
        tenant: Tenant = request.scope["state"]["tenant"]
        place = HousePlace(
            tenant.house,
            execute=partial(tenant.execute, caller=caller),
            file_bytes=self._limits.file_bytes,
        )
        of_tenant = self._tenants.get(caller.tenant)
        if of_tenant is None:
            return Guest(place, caller)
        return Guest(place, caller, of_tenant.calls(context, request), of_tenant.slot)


class _OfTenant:
    """Sessions of older revisions, and the calls that are being answered, of one tenant."""

    def __init__(self, server: Server[Any], limits: DoorLimits) -> None:
        self._manager = StreamableHTTPSessionManager(
            server,
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the gate's
            max_request_body_size=limits.body_bytes,
            max_sessions=limits.max_streams,
        )
        self._most = limits.max_requests
        self._busy = 0
        self._calls: OrderedDict[str, Calls] = OrderedDict()
        self._ready, self._stop = asyncio.Event(), asyncio.Event()
        self._running = asyncio.get_running_loop().create_task(self._run(), name="mcp")

    async def _run(self) -> None:
        async with self._manager.run():
            self._ready.set()
            await self._stop.wait()

    async def ready(self) -> None:
        await self._ready.wait()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)

    async def close(self) -> None:
        self._stop.set()
        await self._running

    def calls(self, context: Context, request: Request) -> Calls | None:
        """Those of the session; None in revisions that have none, where a response is closed instead."""
        session = request.headers.get(_SESSION)
        if session is None or context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return None
        found = self._calls.setdefault(session, Calls())
        self._calls.move_to_end(session)
        while len(self._calls) > _CONNECTIONS:
            self._calls.popitem(last=False)
        return found

    @contextmanager
    def slot(self) -> Iterator[None]:
        """While a call is being answered, also one whose caller has gone. QUOTA_EXCEEDED."""
        if self._busy >= self._most:
            raise ResourceExhausted(
                f"{self._busy} calls are being answered, which is the limit (max_requests); wait for some to end",
                reason=CallReason.QUOTA_EXCEEDED,
                limit="max_requests",
            )
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1


def _again(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body that has been read, then what comes after it."""
    told = False

    async def received() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return received
