"""The client that does as little as one can: one answer after the other, whole, on one connection."""

import asyncio

import pytest

from bench.lean import lean_client


async def _answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Says what was asked for in pieces; 404 to who asks for nothing."""
    while head := await reader.readuntil(b"\r\n\r\n"):
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        status = b"404 Not Found" if body == b"{}" else b"200 OK"
        for piece in (b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n" % (status, len(body)), body[:3], body[3:]):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)


async def test_answers_come_one_after_the_other_and_errors_are_raised() -> None:
    asked: set[asyncio.Task[None]] = set()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        asked.add(task)
        try:
            await _answers(reader, writer)
        except asyncio.IncompleteReadError:
            writer.close()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with lean_client(f"http://127.0.0.1:{port}/v1/", "Bearer x") as client:
            assert await client.post("a", {"code": "1"}) == {"code": "1"}
            assert await client.post("a", {"code": "2" * 100}) == {"code": "2" * 100}
            with pytest.raises(RuntimeError, match="POST a"):
                await client.post("a", {})
        await asyncio.wait(asked)
