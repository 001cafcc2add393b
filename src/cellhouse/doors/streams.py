"""Streams of events: server-sent events or lines of JSON, straight from the log to the reader."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from enum import Enum
from typing import Final

import pydantic_core
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from cellhouse.doors.limits import DoorLimits
from cellhouse.doors.problems import ClientGone, Refused, of_unexpected
from cellhouse.doors.sending import Sender, unless_gone
from cellhouse.doors.tenants import StreamSlot
from cellhouse.model import (
    CallReason,
    CellhouseError,
    DeadlineExceeded,
    Event,
    InvalidArgument,
    TailFrame,
)
from cellhouse.runtime.following import Follower

SSE_TYPE: Final = "text/event-stream"
NDJSON_TYPE: Final = "application/x-ndjson"
JSON_TYPE: Final = "application/json"


class Form(Enum):
    """What a caller takes."""

    JSON = JSON_TYPE
    SSE = SSE_TYPE
    NDJSON = NDJSON_TYPE


_BY_TYPE: Final = {
    **{form.value: form for form in Form},
    "application/*": Form.JSON,
    "text/*": Form.SSE,
    "application/ndjson": Form.NDJSON,
    "application/jsonl": Form.NDJSON,
}


def asked_form(accept: str | None, default: Form) -> Form:
    """The form that an Accept header prefers. NOT_ACCEPTABLE (HTTP 406) where it takes none of ours."""
    if not accept:
        return default
    best: tuple[float, int, Form] | None = None
    for place, member in enumerate(accept.split(",")):
        kind, *parameters = (part.strip().lower() for part in member.split(";"))
        form = default if kind == "*/*" else _BY_TYPE.get(kind)
        if form is None or (quality := _quality(parameters)) <= 0:
            continue
        if best is None or (quality, -place) > best[:2]:
            best = quality, -place, form
    if best is None:
        raise Refused(
            f"Accept: {accept[:200]!a} is none of {', '.join(form.value for form in Form)}; take one of them",
            reason=CallReason.NOT_ACCEPTABLE,
            http=406,
            metadata={"field": "Accept"},
        )
    return best[2]


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return float(parameter[2:])
            except ValueError:
                return 0.0
    return 1.0


def last_event_id(value: str | None) -> int | None:
    """The number in a Last-Event-ID header; None where there is none."""
    if value is None or not value.strip():
        return None
    if not (value.isascii() and value.isdigit() and len(value) < 16):
        raise InvalidArgument.of_field(
            "Last-Event-ID", f"{value[:80]!a} is no event number; it takes 0 or more"
        )
    return int(value)


def encode_sse(page: list[Event | TailFrame]) -> bytes:
    parts: list[bytes] = []
    for event in page:
        if not isinstance(event, TailFrame):
            parts.append(b"id: %d\n" % event.seq)
        parts += (
            b"event: ",
            event.type.encode(),
            b"\ndata: ",
            pydantic_core.to_json(event.to_wire()),
            b"\n\n",
        )
    return b"".join(parts)


def encode_ndjson(page: list[Event | TailFrame]) -> bytes:
    return b"".join(pydantic_core.to_json(event.to_wire()) + b"\n" for event in page)


def error_frame(form: Form, error: CellhouseError) -> bytes:
    """The last frame of a stream that ends for another reason than the code's end; it has no number."""
    body = pydantic_core.to_json(error.to_wire())
    return b"event: error\ndata: " + body + b"\n\n" if form is Form.SSE else body + b"\n"


def streamed_form(head: Message) -> Form | None:
    """The form of the stream that a response's head announces; None where it announces none."""
    kinds = [value for name, value in head.get("headers", ()) if name == b"content-type"]
    kind = kinds[0].partition(b";")[0] if kinds else b""
    return next((form for form in (Form.SSE, Form.NDJSON) if form.value.encode() == kind), None)


_ENCODE: Final = {Form.SSE: encode_sse, Form.NDJSON: encode_ndjson}
_ALIVE: Final = {Form.SSE: b": keep-alive\n\n", Form.NDJSON: b'{"type":"keepAlive"}\n'}


class Deadline:
    """When a caller no longer wants to wait, and what it is told then; None where the end came in the last moment."""

    def __init__(self, seconds: float, error: Callable[[], Awaitable[DeadlineExceeded | None]]) -> None:
        self._at = asyncio.get_running_loop().time() + seconds
        self.error = error

    def left(self) -> float:
        return self._at - asyncio.get_running_loop().time()


class EventStream(Response):
    """Writes what a follower takes, page by page, and nothing ahead of what the reader has room for.

    Ends with `finished`, or with a last frame that is an error and has no number; cut off before, it is incomplete. The
    reader's going away ends nothing but the stream.
    """

    def __init__(
        self,
        follower: Follower,
        form: Form,
        slot: StreamSlot,
        limits: DoorLimits,
        *,
        deadline: Deadline | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Takes over the slot."""
        self.status_code = 200
        self.media_type = form.value
        self.background = None
        self.body = b""
        self.raw_headers = [
            (b"content-type", form.value.encode() + (b"; charset=utf-8" if form is Form.SSE else b"")),
            (b"cache-control", b"no-store"),
            # For nginx, which would otherwise keep a stream until it is long enough.
            (b"x-accel-buffering", b"no"),
            (b"x-content-type-options", b"nosniff"),
            *(
                (name.lower().encode("latin-1"), value.encode("latin-1"))
                for name, value in (headers or {}).items()
            ),
        ]
        self._follower, self._form, self._slot, self._limits = follower, form, slot, limits
        self._deadline = deadline

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with suppress(ClientGone):
                await unless_gone(self._stream(Sender(send, self._limits.stall_seconds)), receive)
        finally:
            self._follower.close()
            self._slot.close()

    async def _stream(self, sender: Sender) -> None:
        encode = _ENCODE[self._form]
        follower = self._follower
        await sender.start(200, self.raw_headers)
        try:
            while (page := follower.take()) is not None:
                if page:
                    over = follower.over
                    await sender.body(encode(page), more=not over)
                    if over:
                        return
                    page = None  # nothing is held while a slow reader is waited for
                    await asyncio.sleep(0)
                elif not await self._wait():
                    await sender.body(_ALIVE[self._form], more=True)
        except CellhouseError as error:
            await sender.body(error_frame(self._form, error), more=False)
        except ClientGone:
            raise
        except Exception as error:
            told = of_unexpected("events", error)
            await sender.body(error_frame(self._form, told), more=False)
        else:
            await sender.body(b"", more=False)

    async def _wait(self) -> bool:
        """Until there may be more; False where it is time to say that we live. Raises the deadline's error."""
        seconds = self._limits.heartbeat_seconds
        if self._deadline is not None:
            if (left := self._deadline.left()) <= 0:
                if (error := await self._deadline.error()) is not None:
                    raise error
                self._deadline = None
                return True
            seconds = min(seconds, left)
        try:
            async with asyncio.timeout(seconds):
                await self._follower.wait()
        except TimeoutError:
            return self._deadline is not None and self._deadline.left() <= 0
        return True
