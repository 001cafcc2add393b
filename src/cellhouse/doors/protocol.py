"""HTTP/1.1 on a connection: uvicorn's, with a bound on the head of a request and errors in our shape."""

import asyncio
from typing import Any, Final

import pydantic_core
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cellhouse.doors.limits import HEAD_BYTES
from cellhouse.model import CallReason, InvalidArgument

HEAD_SECONDS: Final = 30.0


class BoundedHttp(HttpToolsProtocol):
    """Cuts off who doesn't send a head in time, or sends one without an end: a read of the socket is let in before."""

    head_seconds = HEAD_SECONDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._in_head = False
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_here()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head and (self._head_bytes + len(data)) > HEAD_BYTES:
            self.send_400_response(f"the head of a request takes at most {HEAD_BYTES} bytes")
            return
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        if self._head_timer is None:
            self._expect_head()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_is_here()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """In the one shape of all errors."""
        error = InvalidArgument(msg, reason=CallReason.INVALID_FIELD, metadata={"field": "request"})
        body = pydantic_core.to_json(error.to_wire())
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(body), body)
        )
        self.transport.close()

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
