"""The HTTP proxy of one runtime: outside its walls, reached through its bridge, deciding by its policy."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace

import h11

from cellhouse.model import Clock, HeaderRule, NetworkPolicy, NetworkReport, NetworkSettings
from cellhouse.model.network import in_words
from cellhouse.network.client import Client, spent
from cellhouse.network.decisions import Book, Decision, Reason, Refused
from cellhouse.network.dialling import Dialler, Resolve, Resolver
from cellhouse.network.forwarding import Asked, Forwarding, bad_request, read_target
from cellhouse.network.gate import Gate
from cellhouse.network.headers import secret
from cellhouse.network.pipes import Pipes
from cellhouse.network.tunnel import run_tunnel

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Proxy:
    """Belongs to one event loop. Every client is one task, and none waits for another."""

    def __init__(
        self,
        policy: NetworkPolicy,
        settings: NetworkSettings,
        *,
        clock: Clock,
        tell: Callable[[Decision], None],
        resolve: Resolve | None = None,
    ) -> None:
        """`tell` gets every decision, for the runtime's log."""
        self._policy, self._settings = policy, settings
        self._rules = settings.header_rules
        self._book = Book(clock, tell)
        self._dialler = Dialler(policy, settings, resolve or Resolver())
        self._clients: set[asyncio.Task[None]] = set()

    def open_gate(self) -> Gate:
        """What a new bridge is handed the ends of; the caller's to close."""
        return Gate(self._connected, self._refusal)

    def report(self) -> NetworkReport:
        return self._book.report(self._policy, self._settings, len(self._clients))

    def check_headers(self) -> None:
        """Refused where a header can't be had that is to be added for a host of this policy. Blocks for a small file each."""
        for rule in self._rules:
            if self._policy.allows(rule.host, rule.port):
                secret(rule)

    async def close(self) -> None:
        """End every connection."""
        while self._clients:
            for task in self._clients:
                task.cancel()
            await asyncio.wait(self._clients)

    # connections

    def _refusal(self) -> bytes | None:
        """What a new connection is told, where it is one too many."""
        if len(self._clients) < self._settings.connections:
            return None
        refused = Refused(
            503,
            Reason.TOO_MANY_CONNECTIONS,
            f"this runtime has {self._settings.connections} connections open, and may have no more (connections); "
            "close some, or try again when one has ended",
        )
        self._book.refuse("", refused)
        return refused.response()

    def _connected(self, pipes: Pipes) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(pipes), name="network client")
        self._clients.add(task)
        task.add_done_callback(self._clients.discard)

    async def _serve(self, pipes: Pipes) -> None:
        client = Client(pipes, self._book, self._settings)
        target = ""
        try:
            try:
                inside = h11.Connection(h11.SERVER, max_incomplete_event_size=self._settings.head_bytes)
                request = await self._read_head(client, inside)
                if request is None:
                    return
                target = _shown(request)
                asked = read_target(request, in_words(self._policy))
                target = asked.target
                if request.method == b"CONNECT":
                    await self._tunnel(client, inside, asked)
                else:
                    await self._forward(client, inside, request, asked)
            except TimeoutError:
                raise Refused(
                    504,
                    Reason.IDLE,
                    f"nothing was sent for {self._settings.idle_seconds:g} s (idle_seconds)",
                ) from None
            except h11.RemoteProtocolError as error:
                raise _garbage(error, self._settings) from None
        except Refused as refused:
            self._book.refuse(target, refused)
            if not client.answered:
                with contextlib.suppress(OSError):
                    pipes.write_at_once(refused.response())
        except OSError:
            return  # the client has gone
        finally:
            pipes.close()

    async def _read_head(self, client: Client, inside: h11.Connection) -> h11.Request | None:
        """The head of a request; None where none came before the end."""
        try:
            async with asyncio.timeout(self._settings.request_seconds):
                while (event := inside.next_event()) is h11.NEED_DATA:
                    inside.receive_data(await client.read())
        except TimeoutError:
            raise Refused(
                408,
                Reason.REQUEST_TIMEOUT,
                f"no whole request was there after {self._settings.request_seconds:g} s (request_seconds)",
            ) from None
        return event if isinstance(event, h11.Request) else None

    async def _tunnel(self, client: Client, inside: h11.Connection, asked: Asked) -> None:
        self._check_room()
        outside, address = await self._dialler.dial(asked.host, asked.port)
        try:
            self._book.allow(asked.target, f"CONNECT, to {address}")
            inside.next_event()  # the end of the request: what stands behind it is the tunnel's
            early = inside.trailing_data[0]
            await client.write(ESTABLISHED)
            await run_tunnel(client, outside, early)
        finally:
            outside.close()

    async def _forward(
        self, client: Client, inside: h11.Connection, request: h11.Request, asked: Asked
    ) -> None:
        self._check_room()
        rule = self._rule_for(asked)
        if rule is not None:
            asked = replace(asked, port=rule.port)
        self._dialler.check_named(asked.host, asked.port)
        forwarding = Forwarding(client, inside, request, asked, self._settings, rule)
        outside, address = await self._dialler.dial(asked.host, asked.port)
        try:
            how = "HTTP" if rule is None else f"HTTPS with the header {rule.header} added"
            self._book.allow(asked.target, f"{how}, to {address}")
            await forwarding.run(outside)
        finally:
            outside.close()

    def _rule_for(self, asked: Asked) -> HeaderRule | None:
        """The rule for exactly this host, asked for at the port of plain HTTP or the rule's own."""
        return next(
            (rule for rule in self._rules if rule.host == asked.host and asked.port in (80, rule.port)), None
        )

    def _check_room(self) -> None:
        if self._book.sent + self._book.received >= self._settings.total_bytes:
            raise spent(self._settings)


def _shown(request: h11.Request) -> str:
    """What was asked for, where it can't be read as a host: without a path and a user, which may hold a secret."""
    text = request.target.decode("ascii", "replace").rpartition("://")[2]
    return text.partition("/")[0].rpartition("@")[2][:80]


def _garbage(error: h11.RemoteProtocolError, settings: NetworkSettings) -> Refused:
    if error.error_status_hint == 431:
        return Refused(
            431,
            Reason.HEAD_TOO_LARGE,
            f"the head of a request takes at most {settings.head_bytes} bytes (head_bytes)",
        )
    return bad_request(f"this is no HTTP request: {error}", error.error_status_hint)
