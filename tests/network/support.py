"""A proxy without a sandbox: the test is its bridge, its clients, its resolver and the servers outside."""

import array
import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from cellhouse.model import NetworkPolicy, NetworkSettings, SystemClock
from cellhouse.network import Decision, Gate, Proxy
from cellhouse.network.pipes import Pipes

LOOPBACK: Final = ("127.0.0.0/8", "::1")
SECONDS: Final = 20.0

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Names:
    """What the proxy's resolver answers, each name's answers in turn, the last one for ever."""

    def __init__(self, **answers: list[list[str]]) -> None:
        self.answers = {name.replace("_", "."): list(each) for name, each in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, name: str) -> Iterable[str]:
        self.asked.append(name)
        answers = self.answers.get(name)
        if not answers:
            raise OSError(f"no such name: {name}")
        return answers.pop(0) if len(answers) > 1 else answers[0]


@dataclass
class Rig:
    proxy: Proxy
    gate: Gate
    told: list[Decision]
    handed: socket.socket
    asking: int
    open: list[Pipes] = field(default_factory=list)

    async def connect(self) -> Pipes:
        """A new connection, from the client's side."""
        os.write(self.asking, b"c")
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self.handed.fileno(), lambda: None if ready.done() else ready.set_result(None))
        try:
            await asyncio.wait_for(ready, SECONDS)
        finally:
            loop.remove_reader(self.handed.fileno())
        _, ancillary, _, _ = self.handed.recvmsg(16, 64)
        descriptors = array.array("i")
        descriptors.frombytes(ancillary[0][2])
        up, down = descriptors
        for descriptor in (up, down):
            os.set_blocking(descriptor, False)
        made = Pipes(down, up)
        self.open.append(made)
        return made

    async def ask(self, request: bytes) -> bytes:
        """All that comes back on a connection of its own, to its end."""
        client = await self.connect()
        await send(client, request)
        return await rest(client)

    def reasons(self) -> list[str | None]:
        return [decision.reason for decision in self.told]


async def send(client: Pipes, data: bytes) -> None:
    """As much of it as is taken: who refuses does not read on."""
    try:
        async with asyncio.timeout(SECONDS):
            await client.write(data)
    except BrokenPipeError:
        return


async def rest(client: Pipes) -> bytes:
    found = b""
    async with asyncio.timeout(SECONDS):
        while data := await client.read():
            found += data
    return found


async def until_there(client: Pipes, end: bytes) -> bytes:
    found = b""
    async with asyncio.timeout(SECONDS):
        while end not in found:
            data = await client.read()
            assert data, f"the end came before {end!r}: {found!r}"
            found += data
    return found


@asynccontextmanager
async def rigged(*allow: str, names: Names | None = None, **settings: Any) -> AsyncIterator[Rig]:
    """A proxy that allows these patterns, and a bridge that listens; nothing of either is left."""
    told: list[Decision] = []
    settings.setdefault("private", LOOPBACK)
    proxy = Proxy(
        NetworkPolicy(allow=allow),
        NetworkSettings(**settings),
        clock=SystemClock(),
        tell=told.append,
        resolve=names or Names(),
    )
    gate = proxy.open_gate()
    asking, handed = (os.dup(each) for each in gate.descriptors)
    gate.handed()
    rig = Rig(proxy, gate, told, socket.socket(fileno=handed), asking)
    rig.handed.setblocking(False)
    try:
        os.write(asking, b"r")
        assert await asyncio.wait_for(gate.listening, SECONDS)
        yield rig
    finally:
        await proxy.close()
        gate.close()
        for client in rig.open:
            client.close()
        rig.handed.close()
        os.close(asking)
    assert proxy.report().connections == 0


@asynccontextmanager
async def serving(serve: Serve, host: str = "127.0.0.1", **options: Any) -> AsyncIterator[int]:
    """A server outside; its port."""

    under_way: set[asyncio.Task[None]] = set()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        under_way.add(task)
        try:
            await serve(reader, writer)
            writer.close()
            await writer.wait_closed()
        except (OSError, EOFError, asyncio.CancelledError):
            return
        finally:
            writer.transport.abort()
            under_way.discard(task)

    server = await asyncio.start_server(one, host, 0, **options)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in under_way:
            task.cancel()
        if under_way:
            await asyncio.wait(under_way)
        await asyncio.sleep(0)  # transports that were aborted are closed in the next turn


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()


class Web:
    """Keeps the head and body of each request that came, and answers each with the same."""

    def __init__(self, response: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi") -> None:
        self.response = response
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        lower = head.lower()
        body = b""
        if b"transfer-encoding: chunked" in lower:
            body = await reader.readuntil(b"0\r\n\r\n")
        elif b"content-length: " in lower:
            length = int(lower.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            body = await reader.readexactly(length)
        self.bodies.append(body)
        writer.write(self.response)
        await writer.drain()
