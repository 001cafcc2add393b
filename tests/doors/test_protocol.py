"""What a connection carries besides requests as they should be."""

import asyncio
import re
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from cellhouse.doors.limits import HEAD_BYTES
from cellhouse.doors.protocol import PIPELINED
from tests.doors.support import Door, connect, ok, opened, raw, until, within
from tests.runtime.support import FakeWorld

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
H2C = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
"""What some clients ask for with each request, unasked (RFC 7540, section 3.2)."""

ENDLESS = 100 << 20
PAST_BUFFERS = 3 << 20
"""More than a socket takes of what nobody reads, less than may wait in front of it."""


def statuses(answers: bytes) -> list[str]:
    return re.findall(r"HTTP/1\.1 (\d+)", answers.decode())


@pytest.mark.parametrize("pieces", [1, 2])
async def test_a_body_counts_where_another_protocol_was_asked_for(door: Door, pieces: int) -> None:
    body = b"hello" * 1_000
    head = f"PUT /v1/{door.runtime}/files/a HTTP/1.1\r\nHost: localhost\r\n{H2C}Content-Length: {len(body)}\r\n\r\n"
    reader, writer = await connect(door.service)
    for piece in [head.encode() + body] if pieces == 1 else [head.encode(), body]:
        writer.write(piece)
        await until(lambda: not writer.transport.get_write_buffer_size())
        await asyncio.sleep(0)
    assert b" 200 " in await within(reader.readuntil(b"\r\n"))
    writer.transport.abort()
    assert (await door.client.get(f"/v1/{door.runtime}/files/a")).content == body


async def test_chunks_count_where_another_protocol_was_asked_for_and_so_does_the_next_request(
    door: Door,
) -> None:
    head = f"PUT /v1/{door.runtime}/files/a HTTP/1.1\r\nHost: localhost\r\n{H2C}Transfer-Encoding: chunked\r\n\r\n"
    request = head.encode() + b"5\r\nhello\r\n0\r\n\r\n"
    last = HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert statuses(await raw(door.service, request + last)) == ["200", "200"]
    assert (await door.client.get(f"/v1/{door.runtime}/files/a")).content == b"hello"


async def test_a_trailer_is_no_field_of_the_head(door: Door) -> None:
    request = b"PUT /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\nHost: localhost\r\n\r\n"
    assert statuses(await raw(door.service, request)) == ["403"]  # it names no host


@pytest.mark.parametrize(
    "endless",
    [
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ",
        b"PUT /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
        b"PUT /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;x=",
    ],
    ids=["head", "trailer", "chunk extension"],
)
async def test_what_is_no_body_has_an_end(door: Door, endless: bytes) -> None:
    reader, writer = await connect(door.service)
    writer.write(endless)
    try:
        for _ in range(ENDLESS // HEAD_BYTES):
            writer.write(b"x" * HEAD_BYTES)
            await within(writer.drain())
            if reader.at_eof():
                return
    except ConnectionError:
        return
    finally:
        writer.transport.abort()
    pytest.fail("all of it was taken")


async def test_more_requests_than_may_wait_behind_one_end_the_connection(door: Door) -> None:
    last = HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert len(statuses(await raw(door.service, HEALTH * PIPELINED + last))) == PIPELINED + 1
    reader, writer = await connect(door.service)
    writer.write(HEALTH * 10_000 + last)
    try:
        answers = await within(reader.read())
    except ConnectionError:
        answers = b""
    assert len(statuses(answers)) <= PIPELINED + 1
    writer.transport.abort()


async def test_what_is_no_request_is_not_answered_in_the_middle_of_a_stream(door: Door) -> None:
    await door.run("print a", executionId="e")
    reader, writer = await connect(door.service)
    path = door.path("/executions/e/events?follow=late")
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    got = await within(reader.readuntil(b"finished"))
    writer.write(b"no request\r\n\r\n")
    with suppress(ConnectionError):
        got += await within(reader.read())
    assert statuses(got) == ["200"]
    writer.transport.abort()


@pytest.mark.parametrize(
    ("request_", "rest"),
    [(HEALTH, b"\r\n"), (HEALTH.replace(b"\r\n\r\n", b"\r\nContent-Length: 9\r\n\r\n"), b"x")],
)
async def test_bytes_behind_an_answer_keep_no_connection_open(
    fakes: FakeWorld, tmp_path: Path, request_: bytes, rest: bytes
) -> None:
    async with opened(fakes, tmp_path / "state", head_seconds=0.2) as door:
        reader, writer = await connect(door.service)
        writer.write(request_)
        await within(reader.readuntil(b'"ok"}'))
        writer.write(rest)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await within(reader.readexactly(1))
        writer.transport.abort()
        assert await ok(door.client.get("/healthz"))


@pytest.mark.parametrize("ending", ["stalled", "closed"])
async def test_who_reads_nothing_is_cut_off_with_what_is_written_for_him(
    fakes: FakeWorld, tmp_path: Path, ending: str
) -> None:
    async with opened(fakes, tmp_path / "state", stall_seconds=0.3) as door:
        await door.make()
        size = (16 << 20) if ending == "stalled" else PAST_BUFFERS
        await ok(door.client.put(f"/v1/{door.runtime}/files/a", content=bytes(size)))
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            reader.setblocking(False)
            host, _, port = door.service.url.removeprefix("http://").rpartition(":")
            loop = asyncio.get_running_loop()
            await loop.sock_connect(reader, (host, int(port)))
            head = f"GET /v1/{door.runtime}/files/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            await loop.sock_sendall(reader, head.encode())
            connections = door.service._server.server_state.connections
            of_mine = reader.getsockname()

            def there() -> bool:
                return any(getattr(each, "client", None) == of_mine for each in connections)

            await until(there)
            await until(lambda: not there())
