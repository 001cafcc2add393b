"""A tunnel that CONNECT has opened: bytes both ways, until both sides have ended."""

import asyncio
import contextlib
import socket

from cellhouse.network.client import Client
from cellhouse.network.pipes import CHUNK


async def run_tunnel(client: Client, outside: socket.socket, early: bytes) -> None:
    """Either side may end before the other. `early` is what the client sent behind its request.

    Raises TimeoutError and Refused for a limit; an end by either side's fault is an end like any other.
    """
    async with client.idling():
        ways = [
            asyncio.ensure_future(_up(client, outside, early)),
            asyncio.ensure_future(_down(client, outside)),
        ]
        try:
            with contextlib.suppress(OSError):
                await asyncio.gather(*ways)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.wait(ways)


async def _up(client: Client, outside: socket.socket, early: bytes) -> None:
    loop = asyncio.get_running_loop()
    data = early or await client.read()
    while data:
        await loop.sock_sendall(outside, data)
        data = await client.read()
    with contextlib.suppress(OSError):  # it has gone already
        outside.shutdown(socket.SHUT_WR)


async def _down(client: Client, outside: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(outside, CHUNK):
        await client.write(data)
    client.end_writing()
