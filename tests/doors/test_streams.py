"""Streams that are cut anywhere, read slowly, or not at all: everybody ends with the same events."""

import asyncio
import json
import random
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from cellhouse.doors.limits import DoorLimits
from cellhouse.doors.streams import last_event_id
from cellhouse.model import InvalidArgument
from tests.doors.support import (
    NDJSON,
    SSE,
    Door,
    client_of,
    connect,
    frames,
    house_of,
    ok,
    opened,
    refused,
    until,
    within,
)
from tests.runtime.support import FakeWorld

BUFFER = 4_096


async def received(path: str, door: Door, after: int, cut: int | None, form: dict[str, str]) -> bytes:
    """What a client gets of a stream before it is cut off at this byte; None: all of it."""
    host, _, port = door.service.url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        head = f"GET {path}/events?after={after} HTTP/1.1\r\nHost: {host}\r\nAccept: {form['accept']}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode())
        return await within(reader.readexactly(cut) if cut is not None else reader.read())
    except asyncio.IncompleteReadError as error:
        return error.partial
    finally:
        writer.transport.abort()


def whole_events(data: bytes, form: dict[str, str]) -> list[dict[str, Any]]:
    """The events that came whole. Chunks of the transfer encoding are undone, the last one maybe a part."""
    head, _, rest = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        return []
    body = b""
    while rest:
        size, line_end, rest = rest.partition(b"\r\n")
        if not line_end or not size:
            break
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    if form is NDJSON:
        lines = body[: body.rfind(b"\n") + 1].splitlines()
        return [event for line in lines if "seq" in (event := json.loads(line))]
    whole = b"".join(part + b"\n\n" for part in body.split(b"\n\n")[:-1]).decode()
    return [event for number, _, event in frames(whole) if number]


async def test_cut_at_any_byte_and_resumed_it_is_the_same_log(door: Door) -> None:
    rng = random.Random(7)
    words = [f"print {'é' * rng.randrange(40)} {number}" for number in range(40)]
    path = await door.start("\n".join([*words[:20], "hold", *words[20:], "value 1"]))

    async def subscriber(number: int) -> list[dict[str, Any]]:
        form = NDJSON if number % 2 else SSE
        events: list[dict[str, Any]] = []
        mine = random.Random(number)
        while not events or events[-1]["type"] != "finished":
            after = events[-1]["seq"] if events else 0
            cut = None if len(events) > 35 and mine.random() < 0.3 else mine.randrange(1, 2_500)
            events += whole_events(await received(path, door, after, cut, form), form)
            if len(events) >= 20:
                door.kernel.release.set()
        return events

    readers = await within(asyncio.gather(*(subscriber(number) for number in range(12))))
    straight = await door.events(path)
    assert [event["seq"] for event in straight] == list(range(1, len(straight) + 1))
    for events in readers:
        assert events == straight


async def test_a_repeated_call_reads_on_from_the_last_event_id(door: Door) -> None:
    body = {"code": "print a\nprint b\nvalue 1", "executionId": "one"}
    first = await within(door.client.post(door.path(":executeCode"), json=body, headers=SSE))
    again = await within(
        door.client.post(door.path(":executeCode"), json=body, headers={**SSE, "last-event-id": "3"})
    )
    assert frames(again.text) == frames(first.text)[3:]
    # What has just begun is read from its beginning, whatever a client remembers of another one.
    body["executionId"] = "two"
    fresh = await within(
        door.client.post(door.path(":executeCode"), json=body, headers={**SSE, "last-event-id": "3"})
    )
    assert [kind for _, kind, _ in frames(fresh.text)][:2] == ["queued", "started"]


async def test_last_event_id_goes_before_after_and_nothing_more_is_204(door: Door) -> None:
    result = await door.run("print a")
    path = f"/v1/{result['execution']}"
    events = await door.events(path)
    response = await within(
        door.client.get(f"{path}/events", params={"after": 0}, headers={"last-event-id": "2"})
    )
    assert [event for _, _, event in frames(response.text)] == events[2:]
    last = str(events[-1]["seq"])
    assert (await within(door.client.get(f"{path}/events", params={"after": last}))).status_code == 204
    await refused(
        door.client.get(f"{path}/events", headers={"last-event-id": "x"}),
        400,
        "INVALID_ARGUMENT",
        "INVALID_FIELD",
    )
    for params in ({"after": "-1"}, {"after": "x"}, {"follow": "later"}):
        await refused(
            door.client.get(f"{path}/events", params=params), 400, "INVALID_ARGUMENT", "INVALID_FIELD"
        )


@pytest.mark.parametrize("value", ["-1", "1.5", "²", "1" * 16, "one"])
def test_what_is_no_event_number_is_refused(value: str) -> None:
    with pytest.raises(InvalidArgument, match="Last-Event-ID"):
        last_event_id(value)


async def test_late_output_comes_to_who_asks_for_it(door: Door) -> None:
    result = await door.run("print a")
    uid = house_of(door.service)._log(_name(result)).uid
    async with door.client.stream(
        "GET", f"/v1/{result['execution']}/events", params={"follow": "late"}, headers=NDJSON
    ) as response:
        kinds: list[str] = []
        async for line in response.aiter_lines():
            kinds.append(json.loads(line)["type"])
            if kinds[-1] == "finished":
                door.kernel.print("late\n", parent=uid)
            if kinds[-1] == "late":
                break
    assert kinds[-2:] == ["finished", "late"]


def _name(result: dict[str, Any]) -> Any:
    from cellhouse.model import ExecutionName

    return ExecutionName.parse(result["execution"])


async def test_a_stream_says_that_it_lives(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path / "state", heartbeat_seconds=0.05) as door:
        await door.make()
        path = await door.start("hold")
        for form, sign in ((SSE, ": keep-alive"), (NDJSON, '{"type":"keepAlive"}')):
            async with door.client.stream("GET", f"{path}/events", headers=form) as response:
                async for line in response.aiter_lines():
                    if line == sign:
                        break
                else:
                    pytest.fail("it ended without a sign of life")


async def stalled(door: Door, path: str) -> socket.socket:
    """A subscriber that asks and never reads, with as little room for it as the system grants."""
    host, _, port = door.service.url.removeprefix("http://").rpartition(":")
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    made.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(made, (host, int(port)))
    request = f"GET {path}/events HTTP/1.1\r\nHost: {host}\r\nAccept: {NDJSON['accept']}\r\n\r\n"
    await loop.sock_sendall(made, request.encode())
    return made


async def test_readers_that_never_read_slow_nobody_and_hold_little(door: Door) -> None:
    page = DoorLimits().stream_page_bytes
    text = "x" * 60_000
    path = await door.start("hold")
    tenant = door.service.tenants.open[0]
    never = [await stalled(door, path) for _ in range(40)]
    try:
        await until(lambda: tenant.streams == 40)
        for _ in range(100):
            door.kernel.print(text)
        door.kernel.release.set()
        events = await door.events(path)
        assert events[-1]["result"]["outcome"] == "OK"
        size = sum(len(json.dumps(event)) for event in events)
        assert size > 6_000_000
        connections = list(door.service._server.server_state.connections)
        held = [connection.transport.get_write_buffer_size() for connection in connections]
        # About a page each, of the twenty times as much that there is to read.
        assert page + 2 * len(text) > max(held) > 0
        assert tenant.streams == 40
    finally:
        for each in never:
            each.close()
    await until(lambda: tenant.streams == 0)


async def test_a_reader_that_stalls_for_too_long_is_cut_off_and_reads_on(
    fakes: FakeWorld, tmp_path: Path
) -> None:
    async with opened(fakes, tmp_path / "state", stall_seconds=0.2) as door:
        await door.make()
        path = await door.start("hold")
        tenant = door.service.tenants.open[0]
        never = await stalled(door, path)
        await until(lambda: tenant.streams == 1)
        for _ in range(100):
            door.kernel.print("x" * 60_000)
        door.kernel.release.set()
        await until(lambda: tenant.streams == 0)
        never.close()
        assert (await door.events(path, after=50))[0]["seq"] == 51


async def test_too_many_streams_are_refused_by_name_and_a_place_comes_free(
    fakes: FakeWorld, tmp_path: Path
) -> None:
    async with opened(fakes, tmp_path / "state", max_streams=2) as door:
        await door.make()
        path = await door.start("hold")
        tenant = door.service.tenants.open[0]
        await until(lambda: tenant.streams == 0)
        held = [await stalled(door, path) for _ in range(2)]
        await until(lambda: tenant.streams == 2)
        for call in (
            door.client.get(f"{path}/events"),
            door.client.post(door.path(":executeCode", "other"), json={"code": "print a"}, headers=SSE),
        ):
            error = await refused(call, 429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED")
            assert error["details"][0]["metadata"] == {"limit": "max_streams", "retryable": "true"}
        # Refused before it was accepted: nothing runs that nobody sees.
        assert (await tenant.house.census()).unfinished == 1
        held.pop().close()
        await until(lambda: tenant.streams == 1)
        async with door.client.stream("GET", f"{path}/events") as response:
            assert response.status_code == 200
        for each in held:
            each.close()


async def test_a_thousand_idle_streams_cost_nobody_anything(door: Door) -> None:
    path = await door.start("hold")
    tenant = door.service.tenants.open[0]
    idle = [await connect(door.service) for _ in range(1_000)]
    try:
        request = f"GET {path}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        for _, writer in idle:
            writer.write(request)
        await until(lambda: tenant.streams == 1_000)
        result = await door.run("print a", "other")
        assert result["stdout"] == "a\n"
        door.kernel.release.set()
        door.fakes.launchers[-1].made[0].release.set()
        for reader, _ in idle:
            assert b'"type":"finished"' in await within(reader.readuntil(b"\r\n0\r\n\r\n"))
        await until(lambda: tenant.streams == 0)
    finally:
        for _, writer in idle:
            writer.transport.abort()


async def test_a_stream_of_what_never_was_is_an_error_and_no_stream(door: Door) -> None:
    await refused(
        door.client.get(door.path("/executions/none/events")), 404, "NOT_FOUND", "NO_SUCH_EXECUTION"
    )


async def test_the_end_is_written_at_once(door: Door) -> None:
    """TCP_NODELAY is set on what was accepted, and the last event comes with the end of the body."""
    reader, writer = await connect(door.service)
    await until(lambda: len(door.service._server.server_state.connections) >= 1)
    for connection in door.service._server.server_state.connections:
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    writer.close()
    await writer.wait_closed()
    assert await reader.read() == b""


async def test_several_clients_at_once_see_the_same_live(door: Door) -> None:
    path = await door.start("print a\nhold\nprint b")
    async with client_of(door.service) as other:
        calls: list[Any] = []
        for client in (door.client, other):
            calls += [asyncio.ensure_future(client.get(f"{path}/events", headers=NDJSON)) for _ in range(5)]
        await until(lambda: door.service.tenants.open[0].streams == 10)
        door.kernel.release.set()
        texts = {(await within(call)).text for call in calls}
    assert len(texts) == 1
    assert await ok(door.client.get(path)) == json.loads(texts.pop().splitlines()[-1])["result"]


async def test_a_head_that_never_ends_is_cut(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path / "state", head_seconds=0.1) as door:
        reader, writer = await connect(door.service)
        writer.write(b"GET /healthz HTTP/1.1\r\n")
        with pytest.raises((ConnectionError, httpx.ReadError, asyncio.IncompleteReadError)):
            await within(reader.readexactly(1))
        writer.transport.abort()
