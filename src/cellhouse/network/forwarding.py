"""Plain `http://` through the proxy: one request and one response, both taken apart and put together anew.

So nothing of a client's framing goes on: what two readers could understand in two ways ends here. A connection carries
one request; what a client sends behind it is not looked at.
"""

import asyncio
import re
import socket
import ssl
from dataclasses import dataclass
from typing import Any, Final

import h11

from cellhouse.model import HeaderRule, NetworkSettings
from cellhouse.model.hosts import Host, read_authority, show_host
from cellhouse.network.client import Client
from cellhouse.network.decisions import Reason, Refused
from cellhouse.network.headers import passed_on, secret
from cellhouse.network.pipes import CHUNK

_ABSOLUTE: Final = re.compile(rb"http://([^/?#@]+)([/?][^#]*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Asked:
    """Where a request is to go."""

    host: Host
    port: int
    path: bytes = b""

    @property
    def target(self) -> str:
        return f"{show_host(self.host)}:{self.port}"


def bad_request(text: str, status: int = 400) -> Refused:
    return Refused(status, Reason.BAD_REQUEST, text)


def read_target(request: h11.Request, policy: str) -> Asked:
    """Where it is to go, by its first line alone: a Host header that says otherwise is not heeded. Raises Refused."""
    target = request.target
    if request.http_version not in (b"1.0", b"1.1"):
        raise bad_request("a request is HTTP/1.1 or HTTP/1.0")
    if any(name == b"content-length" for name, _ in request.headers) and any(
        name == b"transfer-encoding" for name, _ in request.headers
    ):
        raise bad_request("a request has a Content-Length or a Transfer-Encoding, and not both")
    if (
        request.method == b"TRACE"
    ):  # RFC 9110, section 9.3.8: its answer is the request, with what was added outside
        raise bad_request("TRACE is not passed on; ask by another method", 405)
    try:
        if request.method == b"CONNECT":
            if any(name in (b"content-length", b"transfer-encoding") for name, _ in request.headers):
                raise bad_request("CONNECT has no body")
            return Asked(*read_authority(target.decode("ascii")))
        found = _ABSOLUTE.fullmatch(target)
        if found is None:
            raise bad_request(
                "this is a proxy: it takes CONNECT HOST:PORT, and other methods with a whole http:// address. "
                + policy
            )
        path = found[2] or b"/"
        host, port = read_authority(found[1].decode("ascii"), 80)
    except ValueError as error:
        raise bad_request(f"{error}") from None
    return Asked(host, port, path if path.startswith(b"/") else b"/" + path)


class Forwarding:
    """One request that is under way."""

    def __init__(
        self,
        client: Client,
        inside: h11.Connection,
        request: h11.Request,
        asked: Asked,
        settings: NetworkSettings,
        rule: HeaderRule | None,
    ) -> None:
        """`asked` is where it goes, which with a `rule` is the rule's host and port."""
        self._client, self._inside, self._request, self._asked = client, inside, request, asked
        self._settings, self._rule = settings, rule
        self._outside = h11.Connection(h11.CLIENT, max_incomplete_event_size=settings.head_bytes)
        self._head = self._made_head()

    def _made_head(self) -> h11.Request:
        headers = list(self._request.headers)
        without = [b"host"]
        chunked = any(name == b"transfer-encoding" for name, _ in headers)
        authority = show_host(self._asked.host)
        added = []
        if self._rule is not None:
            name = self._rule.header.lower().encode()
            without.append(name)
            added = [(name, secret(self._rule))]
        if self._asked.port != (80 if self._rule is None else 443):
            authority = self._asked.target
        return h11.Request(
            method=self._request.method,
            target=self._asked.path,
            headers=[
                (b"host", authority.encode()),
                *passed_on(headers, *without),
                *added,
                *([(b"transfer-encoding", b"chunked")] if chunked else []),
                (b"connection", b"close"),
            ],
        )

    async def run(self, connection: socket.socket) -> None:
        """To the end of the response. Raises Refused, TimeoutError; takes the connection over."""
        async with self._client.idling():
            try:
                reader, writer = await self._open(connection)
            except OSError as error:
                raise self._bad_response("TLS could not be agreed on", f"{error}") from None
            sending = asyncio.ensure_future(self._send(writer))
            receiving = asyncio.ensure_future(self._receive(reader))
            ways = (sending, receiving)
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                if sending.done() and not isinstance(sending.exception(), OSError):
                    sending.result()
                await receiving  # also where the other side takes no more: it may have said why
            finally:
                writer.transport.abort()
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)  # what matters of them was raised already

    async def _open(self, connection: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._rule is None:
            return await asyncio.open_connection(sock=connection, limit=CHUNK)
        context = await asyncio.to_thread(ssl.create_default_context)
        name = self._asked.host if isinstance(self._asked.host, str) else f"{self._asked.host}"
        return await asyncio.open_connection(sock=connection, limit=CHUNK, ssl=context, server_hostname=name)

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        writer.write(self._outside.send(self._head))
        while True:
            event = await self._next_inside()
            if isinstance(event, h11.Data):
                writer.write(self._outside.send(h11.Data(data=bytes(event.data))))
            elif isinstance(event, h11.EndOfMessage):
                writer.write(self._outside.send(h11.EndOfMessage()))
            await writer.drain()
            self._client.touch()
            if not isinstance(event, h11.Data):
                return

    async def _next_inside(self) -> Any:
        while (event := self._inside.next_event()) is h11.NEED_DATA:
            if self._inside.they_are_waiting_for_100_continue:
                continues = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
                await self._client.write(self._inside.send(continues) or b"")
            self._inside.receive_data(await self._client.read())
        return event

    async def _receive(self, reader: asyncio.StreamReader) -> None:
        response = await self._next_outside(reader)
        while isinstance(response, h11.InformationalResponse):
            response = await self._next_outside(reader)
        if not isinstance(response, h11.Response):
            raise self._bad_response("it ended without a response")
        chunked = any(name == b"transfer-encoding" for name, _ in response.headers)
        headers = passed_on(list(response.headers), *([b"content-length"] if chunked else []))
        head = h11.Response(
            status_code=response.status_code,
            headers=[*headers, (b"connection", b"close")],
            reason=response.reason,
        )
        await self._client.write(self._inside.send(head) or b"")
        while isinstance(event := await self._next_outside(reader), h11.Data):
            await self._client.write(self._inside.send(h11.Data(data=bytes(event.data))) or b"")
        if not isinstance(event, h11.EndOfMessage):
            raise self._bad_response("its response broke off")
        await self._client.write(self._inside.send(h11.EndOfMessage()) or b"")
        self._client.end_writing()

    async def _next_outside(self, reader: asyncio.StreamReader) -> Any:
        try:
            while (event := self._outside.next_event()) is h11.NEED_DATA:
                data = await reader.read(CHUNK)
                self._client.touch()
                self._outside.receive_data(data)
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == 431:
                raise Refused(
                    502,
                    Reason.HEAD_TOO_LARGE,
                    f"the head of the response of {self._asked.target} is over {self._settings.head_bytes} bytes (head_bytes)",
                ) from None
            raise self._bad_response("its response is no HTTP", f"{error}") from None
        except OSError as error:
            raise self._bad_response("its response broke off", f"{error}") from None
        return event

    def _bad_response(self, what: str, detail: str = "") -> Refused:
        return Refused(502, Reason.BAD_RESPONSE, f"{self._asked.target}: {what}", detail=detail)
