"""A client of the service that does as little as one can: one connection that stays open, one request after the other.

What raw ipykernel has in pyzmq's bare sockets, the service has in this: bytes by an asyncio transport, heads by httptools,
the result as JSON.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self
from urllib.parse import urlsplit

import httptools


class LeanClient(asyncio.Protocol):
    """Posts JSON below one URL."""

    def __init__(self, url: str, authorization: str) -> None:
        parts = urlsplit(url)
        self._path = parts.path
        self._head = (
            f"Host: {parts.netloc}\r\nAuthorization: {authorization}\r\nContent-Type: application/json\r\n"
        )
        self._transport: asyncio.Transport
        self._parser: Any = None
        self._answer: asyncio.Future[bytes] | None = None
        self._body = b""

    @classmethod
    async def connect(cls, url: str, authorization: str) -> Self:
        parts = urlsplit(url)
        made = cls(url, authorization)
        assert parts.hostname is not None
        assert parts.port is not None
        await asyncio.get_running_loop().create_connection(lambda: made, parts.hostname, parts.port)
        return made

    def close(self) -> None:
        self._transport.close()

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The document that is answered. RuntimeError where the answer is another status than 200."""
        data = json.dumps(body).encode()
        head = f"POST {self._path}{path} HTTP/1.1\r\n{self._head}Content-Length: {len(data)}\r\n\r\n"
        self._parser, self._body = httptools.HttpResponseParser(self), b""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(head.encode() + data)
        answer = await self._answer
        if self._parser.get_status_code() != 200:
            raise RuntimeError(f"POST {path}: {answer[:500]!r}")
        found: dict[str, Any] = json.loads(answer)
        return found

    # asyncio's side

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("the service closed the connection"))

    # the parser's

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(self._body)


@asynccontextmanager
async def lean_client(url: str, authorization: str) -> AsyncIterator[LeanClient]:
    client = await LeanClient.connect(url, authorization)
    try:
        yield client
    finally:
        client.close()
