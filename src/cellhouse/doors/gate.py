"""The gate: what every request passes before anything else looks at it. Raw ASGI, for it is on the way of each event."""

import time
from contextlib import suppress
from typing import Final
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cellhouse.doors.callers import Authenticator
from cellhouse.doors.limits import DoorLimits
from cellhouse.doors.metrics import Metrics
from cellhouse.doors.origins import Origins, cors_headers, preflight_headers
from cellhouse.doors.problems import ClientGone, of_unexpected, problem
from cellhouse.doors.sending import Sender
from cellhouse.doors.streams import Form, error_frame, streamed_form
from cellhouse.doors.tenants import Tenants
from cellhouse.doors.watch import Watch
from cellhouse.model import CallReason, CellhouseError, InvalidArgument, ResourceExhausted

PUBLIC: Final = frozenset({"/healthz", "/readyz", "/openapi.json", "/docs"})
"""What anybody may read: it tells nothing of anyone's."""
_NO_ROUTE: Final = "none"


class Gate:
    """Hosts and origins, who calls, how often and how much at once; then the application, with `caller` and `tenant`."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        tenants: Tenants,
        authenticator: Authenticator,
        origins: Origins,
        limits: DoorLimits,
        metrics: Metrics,
    ) -> None:
        self._app, self._tenants = app, tenants
        self._authenticator, self._origins = authenticator, origins
        self._limits, self._metrics = limits, metrics
        self._requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"the gate takes HTTP, not {scope['type']}")
        answer = _Answer(scope, send, self._metrics)
        try:
            await self._pass(scope, receive, answer)
        except CellhouseError as error:
            await problem(error)(scope, receive, answer)
        except Exception as error:
            # Where the application has told of it, it is in the log already.
            if not answer.started:
                told = of_unexpected(f"{scope['method']} {scope['path'][:200]}", error)
                await problem(told)(scope, receive, answer)

    async def _pass(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        if self._requests >= self._limits.max_all_requests:
            raise ResourceExhausted(
                f"the service answers {self._requests} requests, which is the limit (max_all_requests); try again",
                reason=CallReason.QUOTA_EXCEEDED,
                limit="max_all_requests",
            )
        self._requests += 1
        try:
            headers = scope["headers"]
            origin = self._origins.check(headers, scope["scheme"])
            if origin:
                answer.extra = cors_headers(origin)
                if scope["method"] == "OPTIONS":
                    await _empty(answer, preflight_headers(origin))
                    return
            _check_encoding(scope)
            if scope["path"] in PUBLIC:
                await self._app(scope, receive, answer)
                return
            given = [value for name, value in headers if name == b"authorization"]
            authorization = given[0].decode("latin-1") if len(given) == 1 else None
            caller = self._authenticator.authenticate(authorization)
            tenant = await self._tenants.get(caller.tenant)
            tenant.check_rate()
            with tenant.request():
                state = scope.setdefault("state", {})
                state["caller"], state["tenant"] = caller, tenant
                watch = Watch(self._authenticator, authorization, receive, self._limits.recheck_seconds)
                await self._app(scope, watch.receive, answer)
                if watch.refusal is not None:
                    await answer.break_off(watch.refusal, receive, self._limits.recheck_seconds)
        finally:
            self._requests -= 1


def _check_encoding(scope: Scope) -> None:
    """What a path or a query says is UTF-8, or it would be read as something that was not said."""
    raw: bytes = scope.get("raw_path") or b""
    for part, field in ((raw, "path"), (scope["query_string"], "query")):
        if b"%" not in part:
            continue
        try:
            decoded = unquote_to_bytes(part).decode()
        except UnicodeDecodeError:
            raise InvalidArgument.of_field(
                field,
                "its percent-escapes are no UTF-8; write \\xNN, percent-escaped, for a byte of a file's name",
            ) from None
        if "\0" in decoded:
            raise InvalidArgument.of_field(field, "it has a NUL, which no name can hold")


async def _empty(send: Send, headers: list[tuple[bytes, bytes]]) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Answer:
    """A response on its way out: whether it has begun, and what is added to its head."""

    __slots__ = ("_begun", "_complete", "_form", "_metrics", "_scope", "_send", "extra", "started")

    def __init__(self, scope: Scope, send: Send, metrics: Metrics) -> None:
        self._scope, self._send, self._metrics = scope, send, metrics
        self._begun = time.perf_counter()
        self.started = self._complete = False
        self._form: Form | None = None
        self.extra: list[tuple[bytes, bytes]] = []

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self._form = streamed_form(message)
            if self.extra and message["status"] != 204:
                message["headers"] = [*message.get("headers", ()), *self.extra]
            route = getattr(self._scope.get("route"), "path_format", _NO_ROUTE)
            seconds = time.perf_counter() - self._begun
            self._metrics.answered(_method(self._scope["method"]), route, message["status"], seconds)
        elif not message.get("more_body"):
            self._complete = True
        await self._send(message)

    async def break_off(self, error: CellhouseError, receive: Receive, seconds: float) -> None:
        """Say why there is no more, where it can still be said: as the response, or as the last frame of a stream.

        Anything else that has begun is left incomplete, by which the server knows to cut the connection.
        """
        if not self.started:
            await problem(error)(self._scope, receive, self)
        elif self._form is not None and not self._complete:
            with suppress(ClientGone):
                await Sender(self, seconds).body(error_frame(self._form, error), more=False)


def _method(method: str) -> str:
    return method if method in ("GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD") else "other"
