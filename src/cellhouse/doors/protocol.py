"""HTTP/1.1 on a connection: uvicorn's, with a bound on whatever else but a body a client can send, and errors in our shape."""

import asyncio
from typing import Any, Final

import httptools
import pydantic_core
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from cellhouse.doors.limits import HEAD_BYTES
from cellhouse.model import CallReason, InvalidArgument

HEAD_SECONDS: Final = 30.0
STALL_SECONDS: Final = 300.0
PIPELINED: Final = 64
"""Requests that may wait behind the one that is being answered, on one connection."""


class BoundedHttp(HttpToolsProtocol):
    """Cuts off who doesn't send a head in time, or sends one without an end: a read of the socket is let in before.

    Trailers are read within the same bound and mean nothing: a field that was not in the head is none of the request
    (RFC 9110, section 6.5.1). Who asks for another protocol is served by this one (section 7.8), body and all.
    """

    head_seconds = HEAD_SECONDS
    stall_seconds = STALL_SECONDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._apart = 0  # bytes since a head was whole, or something of a body came: what a head, or trailers, are made of
        self._in_head = self._asked_otherwise = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._leave_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_here()
        if self._leave_timer is not None:
            self._leave_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._apart and self._apart + len(data) > HEAD_BYTES:
            self.send_400_response(
                f"the head of a request, and its trailers, take at most {HEAD_BYTES} bytes"
            )
            return
        self._apart += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self.send_400_response("this is no request of HTTP/1.1")
            return
        if self._head_timer is None and not self._answering():
            self._expect_head()  # what came was the rest of something else: nothing else would end the wait

    def _feed(self, data: bytes) -> None:
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                # The parser thinks that HTTP ends here. It is asked again, without what made it think so.
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
            else:
                return

    def _head_without_upgrade(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        for name, value in self.headers:
            if name == b"connection":
                kept = [token for token in value.split(b",") if token.strip().lower() != b"upgrade"]
                value = b",".join(kept)
            if name != b"upgrade":
                lines.append(name + b": " + value)
        return b"\r\n".join([*lines, b"", b""])

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._asked_otherwise = True, False
        if self._head_timer is None:
            self._expect_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._apart = False, 0
        self._asked_otherwise = self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"
        if self._asked_otherwise:
            return
        self._head_is_here()
        super().on_headers_complete()
        if len(self.pipeline) > PIPELINED:
            raise OverflowError("too many requests at once")  # to the parser, which stops

    def on_body(self, body: bytes) -> None:
        self._apart = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._asked_otherwise:
            self._apart = 0
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """In the one shape of all errors. Not where it would be read as an answer to another request, or a part of one."""
        if self.pipeline or (self._answering() and (self.cycle.response_started or not self.cycle.more_body)):
            self.transport.abort()
            return
        error = InvalidArgument(msg, reason=CallReason.INVALID_FIELD, metadata={"field": "request"})
        body = pydantic_core.to_json(error.to_wire())
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(body), body)
        )
        self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._see_off()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._see_off()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        async def answer(scope: Any, receive: Any, send: Any) -> None:
            await app(scope, receive, send)
            if not cycle.response_complete and not cycle.disconnected:
                if self.flow.write_paused:  # closed, it would wait for a reader who takes nothing
                    self.transport.abort()
                else:
                    self.transport.close()
                    self._see_off()
                cycle.disconnected = True

        super()._start_asgi_task(cycle, answer)

    def _see_off(self, before: int = -1) -> None:
        """A connection that closes holds what it still has to write, for as long as some of it is taken."""
        left = self.transport.get_write_buffer_size()
        if not self.transport.is_closing() or not left:
            return
        if left == before:
            self.transport.abort()
        else:
            self._leave_timer = self.loop.call_later(self.stall_seconds, self._see_off, left)

    def _answering(self) -> bool:
        latest: RequestResponseCycle | None = self.cycle
        return latest is not None and not latest.response_complete

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._too_slow)

    def _head_is_here(self) -> None:
        timer, self._head_timer = self._head_timer, None
        if timer is not None:
            timer.cancel()

    def _too_slow(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.abort()
