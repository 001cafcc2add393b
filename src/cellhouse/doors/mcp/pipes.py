"""Standard input and output as the two streams of a session: a message a line, bounded, and no thread that waits for one.

The SDK's own reads in a thread, which a signal can't end while the input stays open, and takes lines of any length.
"""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import IO, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

LINE_BYTES: Final = 64 << 20
"""Of one message. A file of 4 MiB as base64 fits many times."""
READ_BYTES: Final = 256 << 10
FLUSH_SECONDS: Final = 2.0
_NOTHING: Final = types.JSONRPCError(
    jsonrpc="2.0",
    id=None,
    error=types.ErrorData(
        code=types.PARSE_ERROR, message="Parse error: the line is no JSON-RPC message; send one a line"
    ),
)
_TOO_LONG: Final = types.JSONRPCError(
    jsonrpc="2.0",
    id=None,
    error=types.ErrorData(
        code=types.INVALID_REQUEST, message=f"the line has more than {LINE_BYTES} bytes, which is the limit"
    ),
)

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


@asynccontextmanager
async def standard_streams() -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """The streams. Meanwhile descriptor 0 is empty and descriptor 1 is standard error, so that nothing else gets in between."""
    if stat.S_ISREG(os.fstat(0).st_mode) or stat.S_ISREG(os.fstat(1).st_mode):
        async with stdio_server() as (reading, writing):  # files, which a loop can't wait for, never block
            yield reading, writing
        return
    async with _diverted() as (source, sink), anyio.create_task_group() as group:
        to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, to_client = anyio.create_memory_object_stream[SessionMessage](0)
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        receiving, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
        sending, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), sink
        )
        writer = asyncio.StreamWriter(sending, protocol, None, loop)
        group.start_soon(_read, reader, to_server, writer)
        group.start_soon(_write, to_client, writer)
        try:
            yield incoming, outgoing
        finally:
            group.cancel_scope.cancel()
            receiving.close()
            await _flushed(writer)


async def _flushed(writer: asyncio.StreamWriter) -> None:
    """Close it when all is written, or nobody has taken it for too long."""
    writer.close()
    with anyio.move_on_after(FLUSH_SECONDS, shield=True) as waiting, suppress(ConnectionError):
        await writer.wait_closed()
    if waiting.cancelled_caught:
        writer.transport.abort()


@asynccontextmanager
async def _diverted() -> AsyncIterator[tuple[IO[bytes], IO[bytes]]]:
    """What the client is at, on descriptors apart from 0 and 1."""
    taken = [os.dup(number) for number in (0, 1)]
    blocking = [os.get_blocking(number) for number in taken]
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield (
            os.fdopen(taken[0], "rb", buffering=0, closefd=False),
            os.fdopen(taken[1], "wb", buffering=0, closefd=False),
        )
    finally:
        for number, mine, blocks in zip((0, 1), taken, blocking, strict=True):
            os.set_blocking(mine, blocks)
            os.dup2(mine, number)
            os.close(mine)


async def _read(
    reader: asyncio.StreamReader,
    to_server: MemoryObjectSendStream[SessionMessage | Exception],
    writer: asyncio.StreamWriter,
) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the server has ended
        async with to_server:
            async for line in _lines(reader):
                if line is None:
                    _send(writer, _TOO_LONG)
                elif line.strip():
                    try:
                        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except (ValidationError, ValueError):
                        _send(writer, _NOTHING)
                    else:
                        await to_server.send(SessionMessage(message))


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes | None]:
    """Each line; None for one that is too long, which is passed over."""
    held, size, too_long = list[bytes](), 0, False
    while piece := await reader.read(READ_BYTES):
        *ends, rest = piece.split(b"\n")
        for end in ends:
            yield None if too_long else b"".join([*held, end])
            held, size, too_long = [], 0, False
        size += len(rest)
        if size > LINE_BYTES:
            held, too_long = [], True
        elif rest:
            held.append(rest)
    if held:
        yield b"".join(held)


async def _write(to_client: MemoryObjectReceiveStream[SessionMessage], writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):  # nobody reads any more
        async for each in to_client:
            _send(writer, each.message)
            await writer.drain()


def _send(writer: asyncio.StreamWriter, message: types.JSONRPCMessage) -> None:
    writer.write(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
