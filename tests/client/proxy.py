"""A proxy of tests: passes bytes on, and cuts a connection where it is told to."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

PIECE = 65_536

Cut = Callable[[], int | None]
"""For each new connection: after how many bytes it is cut, in either direction; None: never."""


class Proxy:
    """Listens on a port of its own. `cuts` counts the connections that were cut, `connections` all of them."""

    def __init__(self, target: str, to_client: Cut, to_service: Cut) -> None:
        parts = urlsplit(target)
        assert parts.hostname is not None
        assert parts.port is not None
        self._target = parts.hostname, parts.port
        self._to_client, self._to_service = to_client, to_service
        self.cuts = self.connections = 0
        self.up = True
        self._server: asyncio.Server
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)

    async def close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.ensure_future(self._join(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.up:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        ways = [
            asyncio.ensure_future(self._pass(reader, back, self._to_service())),
            asyncio.ensure_future(self._pass(there, writer, self._to_client())),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.wait(ways)
            # What was passed on still arrives; then the connection ends, as a broken one does.
            for end in (writer, back):
                end.close()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int | None
    ) -> None:
        try:
            while data := await reader.read(PIECE):
                if left is not None:
                    data = data[:left]
                    left -= len(data)
                writer.write(data)
                await writer.drain()
                if left == 0:
                    self.cuts += 1
                    return
        except OSError:
            return


def never() -> int | None:
    return None


def cuts(rng: random.Random, most: int, chance: float = 1.0) -> Cut:
    """Cuts a share of the connections after 0 to `most` bytes."""
    return lambda: rng.randrange(most) if rng.random() < chance else None


@asynccontextmanager
async def proxied(target: str, *, to_client: Cut = never, to_service: Cut = never) -> AsyncIterator[Proxy]:
    made = Proxy(target, to_client, to_service)
    await made.start()
    try:
        yield made
    finally:
        await made.close()
