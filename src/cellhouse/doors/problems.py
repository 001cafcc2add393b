"""Errors as responses: one shape for all of them, whoever found fault with the request."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, cast

import pydantic_core
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from cellhouse.model import (
    MIB,
    CallReason,
    CellhouseError,
    Internal,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)
from cellhouse.model.errors import VIOLATIONS
from cellhouse.runtime.logs import logger

_logger = logger()

JSON: Final = "application/json"
RETRY_SECONDS: Final = "1"
LINGER_BYTES: Final = 64 * MIB
LINGER_SECONDS: Final = 5.0
"""What is read of a body, at most, after it was refused."""


class ClientGone(Exception):
    """Who called is not there any more: nobody is to be told anything."""


class Refused(InvalidArgument):
    """INVALID_ARGUMENT where HTTP has a status of its own for what was wrong with the request."""

    def __init__(
        self, message: str, *, reason: str, http: int, metadata: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message, reason=reason, metadata=metadata)
        self.http = http
        self.headers: dict[str, str] = {}
        self.lingers = False


def problem(error: CellhouseError) -> Response:
    """The response that tells of an error of the call (contract, section 6)."""
    headers = dict(error.headers) if isinstance(error, Refused) else {}
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    elif isinstance(error, Unavailable) or (
        isinstance(error, ResourceExhausted) and error.metadata.get("retryable") == "true"
    ):
        headers["Retry-After"] = RETRY_SECONDS
    made = Lingering if isinstance(error, Refused) and error.lingers else Response
    return made(
        pydantic_core.to_json(error.to_wire()), status_code=error.http, headers=headers, media_type=JSON
    )


class Lingering(Response):
    """Told at once; then what is still coming is read for a moment and thrown away.

    Closed before, the connection would be reset, and who is still sending would never read why (RFC 9112, section 9.6).
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        left = LINGER_BYTES
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while left > 0:
                    message = await receive()
                    left -= len(message.get("body", b""))
                    if message["type"] == "http.disconnect" or not message.get("more_body", False):
                        break
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def of_unexpected(call: str, error: BaseException) -> Internal:
    """INTERNAL, with an id that the log has too."""
    told = Internal(f"{call}: the service failed ({type(error).__name__}); the id is in its log")
    _logger.error("a call failed at the door", call=call, error_id=told.error_id, exc_info=error)
    return told


def too_large(limit: int, name: str) -> Refused:
    """For a body with more bytes than are taken."""
    refused = Refused(
        f"body: more than {limit} bytes, which is the limit ({name}); put data into a file of /content",
        reason=CallReason.BODY_TOO_LARGE,
        http=413,
        metadata={"field": "body", "limit": name, "limitBytes": str(limit)},
    )
    refused.headers["Connection"] = "close"  # all of it is not read by anybody
    refused.lingers = True
    return refused


async def on_error(request: Request, error: Exception) -> Response:
    return problem(cast("CellhouseError", error))


async def on_http(request: Request, error: Exception) -> Response:
    """What the router itself finds: no such path, or no such method for it."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return problem(
            NotFound(
                f"{request.method} {request.url.path[:200]}: there is no such path; /docs lists those there are",
                reason=CallReason.NO_SUCH_PATH,
            )
        )
    allow = ", ".join(sorted(_methods_of(request))) if error.status_code == 405 else ""
    refused = Refused(
        f"{request.method} {request.url.path[:200]}: {error.detail}"
        + (f"; it takes {allow}" if allow else ""),
        reason=CallReason.METHOD_NOT_ALLOWED if error.status_code == 405 else CallReason.INVALID_FIELD,
        http=error.status_code,
    )
    if allow:
        refused.headers["Allow"] = allow
    return problem(refused)


def _methods_of(request: Request) -> set[str]:
    """All that the path takes: the router itself names only those of the first route that it found."""
    methods: set[str] = set()
    for route in request.app.state.table:
        if isinstance(route, Route) and route.path_regex.match(request.scope["path"]):
            methods |= route.methods or set()
    return methods


async def on_invalid(request: Request, error: Exception) -> Response:
    """Parameters that don't fit what was declared."""
    assert isinstance(error, RequestValidationError)
    found = [(_field(each), str(each.get("msg", "is not valid"))) for each in error.errors()[:VIOLATIONS]]
    field, text = found[0]
    told = InvalidArgument.of_field(field, text)
    return problem(told.of_violations(found))


def _field(error: Mapping[str, Any]) -> str:
    """The name of the parameter, without where it was found."""
    return ".".join(str(part) for part in error.get("loc", ())[1:]) or "request"


async def on_unexpected(request: Request, error: Exception) -> Response:
    return problem(of_unexpected(f"{request.method} {request.url.path[:200]}", error))


async def on_gone(request: Request, error: Exception) -> Response:
    """Who called went away before there was an answer."""
    return _Silence()


class _Silence(Response):
    """No response at all: there is nobody to read it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        return
