"""What is open when its token is revoked or expires: it ends soon, says why where it can, and what runs runs on."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from cellhouse.doors.bearer import BearerAuthenticator
from cellhouse.doors.callers import ALL_SCOPES
from cellhouse.model import MIB
from cellhouse.tokens import NewToken, Scope, TokenBook, TokenStore
from tests.doors.support import NDJSON, SSE, Door, connect, frames, ok, opened, until, within
from tests.runtime.support import Clock, FakeWorld


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> TokenStore:
    return TokenStore(tmp_path / "state", clock)


@pytest.fixture
async def door(fakes: FakeWorld, store: TokenStore, clock: Clock, tmp_path: Path) -> AsyncIterator[Door]:
    """With one runtime, and a token in its client that stays good."""
    authenticator = BearerAuthenticator(TokenBook(store.place, clock))
    async with opened(fakes, tmp_path / "state", authenticator=authenticator, recheck_seconds=0.02) as made:
        made.client.headers.update(bearer(store.create(ALL_SCOPES)))
        await made.make(runtimeId="here")
        yield made


def bearer(made: NewToken) -> dict[str, str]:
    return {"authorization": f"Bearer {made.text}"}


@pytest.mark.parametrize("form", [SSE, NDJSON], ids=["sse", "ndjson"])
async def test_a_stream_ends_with_its_reason_and_the_code_runs_on(
    door: Door, store: TokenStore, form: dict[str, str]
) -> None:
    made = store.create(ALL_SCOPES)
    async with door.client.stream(
        "POST", door.path(":executeCode"), json={"code": "hold\nvalue 2"}, headers={**form, **bearer(made)}
    ) as response:
        lines = response.aiter_lines()
        read = []
        async for line in lines:
            read.append(line)
            if "started" in line and "data" in (line if form is SSE else "data"):
                break
        store.revoke(made.token.id)
        read += [line async for line in lines]
    if form is SSE:
        number, kind, last = frames("\n".join(read) + "\n\n" if read[-1] else "\n".join(read) + "\n")[-1]
        assert (number, kind) == ("", "error")
    else:
        last = json.loads(read[-1])
    assert last["error"]["status"] == "UNAUTHENTICATED"
    path = f"/v1/{response.headers['cellhouse-execution']}"
    assert (await ok(door.client.get(path)))["state"] == "RUNNING"
    assert door.kernel.interrupts == 0
    door.kernel.release.set()
    assert (await door.events(path))[-1]["result"]["result"] == "2"


async def test_anothers_stream_goes_on(door: Door, store: TokenStore) -> None:
    path = await door.start("hold\nprint a")
    revoked, kept = store.create(ALL_SCOPES), store.create(ALL_SCOPES)

    async def read(made: NewToken) -> list[str]:
        response = await within(door.client.get(f"{path}/events", headers={**NDJSON, **bearer(made)}))
        return response.text.splitlines()

    readers = [asyncio.ensure_future(read(made)) for made in (revoked, kept)]
    (tenant,) = door.service.tenants.open
    await until(lambda: tenant.streams == 2)
    store.revoke(revoked.token.id)
    assert "UNAUTHENTICATED" in (await readers[0])[-1]
    assert tenant.streams == 1
    door.kernel.release.set()
    assert json.loads((await readers[1])[-1])["type"] == "finished"


async def test_a_stream_ends_when_its_token_expires(door: Door, store: TokenStore, clock: Clock) -> None:
    path = await door.start("hold")
    made = store.create({Scope.READ}, expires=clock.now() + timedelta(seconds=60))
    reading = asyncio.ensure_future(door.client.get(f"{path}/events", headers={**NDJSON, **bearer(made)}))
    (tenant,) = door.service.tenants.open
    await until(lambda: tenant.streams)
    clock.time = 59
    await ok(door.client.get("/v1/runtimes", headers=bearer(made)))
    assert tenant.streams == 1
    clock.time = 60
    assert "UNAUTHENTICATED" in (await within(reading)).text


async def test_a_stream_ends_when_tokens_can_no_longer_be_trusted(door: Door, store: TokenStore) -> None:
    path = await door.start("hold")
    reading = asyncio.ensure_future(door.client.get(f"{path}/events", headers=NDJSON))
    (tenant,) = door.service.tenants.open
    await until(lambda: tenant.streams)
    store.place.tokens.chmod(0o644)
    assert "TOKENS_UNSAFE" in (await within(reading)).text
    store.place.tokens.chmod(0o600)
    assert (await ok(door.client.get(path)))["state"] == "RUNNING"


async def test_a_call_that_waits_is_refused_and_the_code_runs_on(door: Door, store: TokenStore) -> None:
    made = store.create(ALL_SCOPES)
    call = {"code": "hold\nvalue 3", "executionId": "mine"}
    waiting = asyncio.ensure_future(
        door.client.post(door.path(":executeCode"), json=call, headers=bearer(made))
    )
    await until(lambda: door.fakes.launchers and door.fakes.launchers[-1].made and door.kernel.codes)
    store.revoke(made.token.id)
    response = await within(waiting)
    assert (response.status_code, response.json()["error"]["status"]) == (401, "UNAUTHENTICATED")
    assert response.headers["www-authenticate"] == "Bearer"
    door.kernel.release.set()
    again = await ok(door.client.post(door.path(":executeCode"), json=call))
    assert again["result"] == "3"
    assert len(door.kernel.codes) == 1


async def test_an_upload_puts_nothing_in_place(door: Door, store: TokenStore) -> None:
    made = store.create(ALL_SCOPES)
    reader, writer = await connect(door.service)
    try:
        head = f"PUT /v1/runtimes/here/files/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: {MIB}\r\n"
        writer.write(f"{head}Authorization: Bearer {made.text}\r\n\r\n".encode() + b"x" * 1_000)
        (tenant,) = door.service.tenants.open
        await until(lambda: tenant.requests)
        store.revoke(made.token.id)
        answer = await within(reader.readuntil(b"\r\n"))
        assert answer == b"HTTP/1.1 401 Unauthorized\r\n"
    finally:
        writer.close()
        await writer.wait_closed()
    assert await ok(door.client.get("/v1/runtimes/here/files")) == {"files": []}


async def test_a_download_is_cut_off(door: Door, store: TokenStore) -> None:
    size = 64 * MIB
    await ok(door.client.put("/v1/runtimes/here/files/big", content=bytes(size)))
    made = store.create({Scope.READ})
    reader, writer = await connect(door.service)
    try:
        head = "GET /v1/runtimes/here/files/big HTTP/1.1\r\nHost: localhost\r\n"
        writer.write(f"{head}Authorization: Bearer {made.text}\r\n\r\n".encode())
        assert f"content-length: {size}" in (await within(reader.readuntil(b"\r\n\r\n"))).decode().lower()
        store.revoke(made.token.id)
        (tenant,) = door.service.tenants.open
        await until(lambda: not tenant.requests)
        assert len(await within(reader.read())) < size
    finally:
        writer.close()
        await writer.wait_closed()


async def test_a_reader_who_takes_nothing_keeps_no_place(door: Door, store: TokenStore) -> None:
    """The last frame can't be written either; then the connection ends without it."""
    path = await door.start("hold")
    made = store.create({Scope.READ})
    (tenant,) = door.service.tenants.open
    with socket.socket() as never:
        never.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        host, _, port = door.service.url.removeprefix("http://").rpartition(":")
        never.connect((host, int(port)))
        head = f"GET {path}/events HTTP/1.1\r\nHost: {host}\r\nAccept: application/x-ndjson\r\n"
        never.sendall(f"{head}Authorization: Bearer {made.text}\r\n\r\n".encode())
        await until(lambda: tenant.streams)
        for _ in range(100):
            door.kernel.print("x" * 60_000)
        connections = door.service._server.server_state.connections
        await until(lambda: any(each.transport.get_write_buffer_size() for each in connections))
        store.revoke(made.token.id)
        await until(lambda: not tenant.streams and not tenant.requests)
    assert (await ok(door.client.get(path)))["state"] == "RUNNING"
