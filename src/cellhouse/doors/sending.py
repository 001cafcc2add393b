"""Sending for as long as somebody reads: bytes by pieces, a result that is waited for."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cellhouse.doors.problems import ClientGone

T = TypeVar("T")


async def unless_gone(work: Coroutine[Any, Any, T], receive: Receive) -> T:
    """What the work gives; it is broken off, with ClientGone, where the caller goes away meanwhile."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait([working, gone], return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientGone
    finally:
        gone.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait([working])


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Sender:
    """One response's body on its way to a reader who may take nothing for a while, but not for ever."""

    def __init__(self, send: Send, stall_seconds: float) -> None:
        self._send, self._stall = send, stall_seconds

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def body(self, data: bytes, *, more: bool) -> None:
        """Returns when there is room for the next one. ClientGone where the reader has stalled for too long."""
        try:
            async with asyncio.timeout(self._stall):
                await self._send({"type": "http.response.body", "body": data, "more_body": more})
        except (TimeoutError, OSError):
            raise ClientGone from None


class ByteStream(Response):
    """A body of known length, piece by piece. Where a piece is missing the connection is cut, never the length made up."""

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        *,
        length: int,
        status: int,
        headers: Mapping[str, str],
        media_type: str,
        stall_seconds: float,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_end` is called when nothing is read from the pieces any more, also where nothing ever was."""
        self.status_code = status
        self.media_type = media_type
        self.background = None
        self.body = b""
        self.init_headers({**headers, "Content-Type": media_type, "Content-Length": str(length)})
        self._pieces, self._length, self._stall = pieces, length, stall_seconds
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with aclosing(self._pieces):
                with suppress(ClientGone):
                    await unless_gone(self._pump(Sender(send, self._stall)), receive)
        finally:
            self._on_end()

    async def _pump(self, sender: Sender) -> None:
        await sender.start(self.status_code, self.raw_headers)
        left = self._length
        if not left:
            await sender.body(b"", more=False)
            return
        async for piece in self._pieces:
            sent = piece[:left]
            left -= len(sent)
            await sender.body(sent, more=left > 0)
            if not left:
                return
        raise ClientGone  # what was promised is not there any more
