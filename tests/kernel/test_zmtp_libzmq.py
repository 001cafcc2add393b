"""The ZMTP client against libzmq's own sockets: what every kernel but ours speaks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import zmq
import zmq.asyncio

from cellhouse.kernel.zmtp import SocketType, ZmtpConnection
from tests.kernel.peer import SECONDS, Taken


class Sockets:
    """Makes bound sockets, and holds them: one that is collected open is a warning."""

    def __init__(self) -> None:
        self.context = zmq.asyncio.Context()
        self.made: list[zmq.asyncio.Socket] = []

    def __call__(self, kind: int, path: Path, **options: int) -> zmq.asyncio.Socket:
        socket = self.context.socket(kind)
        self.made.append(socket)
        for name, value in options.items():
            socket.setsockopt(getattr(zmq, name), value)
        socket.bind(f"ipc://{path}")
        return socket

    def close(self) -> None:
        for socket in self.made:
            socket.close(linger=0)
        self.context.term()


@pytest.fixture
async def bound() -> AsyncIterator[Sockets]:
    made = Sockets()
    yield made
    made.close()


async def push(socket: zmq.asyncio.Socket, *frames: bytes, full: asyncio.Event | None = None) -> None:
    """Send through a socket that drops nothing: where it is full, it says so."""
    while True:
        try:
            await socket.send_multipart(list(frames))
        except zmq.Again:
            if full is not None:
                full.set()
            await asyncio.sleep(0)
        else:
            return


@asynccontextmanager
async def connected(
    path: Path, socket_type: SocketType, *, identity: bytes = b"", max_message: int = 64 << 20
) -> AsyncIterator[Taken]:
    end = Taken()
    _, end.connection = await asyncio.get_running_loop().create_unix_connection(
        lambda: ZmtpConnection(
            socket_type,
            identity=identity,
            max_message=max_message,
            on_message=end.took,
            on_closed=end.was_closed,
        ),
        str(path),
    )
    try:
        async with asyncio.timeout(SECONDS):
            await end.connection.ready()
        yield end
    finally:
        end.connection.abort()
        await end.ended()


async def test_everything_of_an_xpub_arrives_once_subscribed(bound: Sockets, tmp_path: Path) -> None:
    socket = bound(zmq.XPUB, tmp_path / "s", XPUB_NODROP=1, SNDHWM=10)
    async with connected(tmp_path / "s", "SUB") as end:
        assert await socket.recv() == b"\x01"  # the subscription to everything
        sent = [[b"topic", b"%d" % number, b"x" * (number * 97 % 3000)] for number in range(2000)]
        for frames in sent:
            await push(socket, *frames)
        assert await end.messages_are(len(sent)) == sent


async def test_everything_of_a_plain_pub_arrives(bound: Sockets, tmp_path: Path) -> None:
    socket = bound(zmq.PUB, tmp_path / "s", SNDHWM=0)
    async with connected(tmp_path / "s", "SUB") as end:
        while not end.messages:  # what is published before the subscription has come is nobody's
            await socket.send(b"hello")
            await asyncio.sleep(0)
        await socket.send_multipart([b"", b"last"])
        while end.messages[-1] != [b"", b"last"]:
            await end.messages_are(len(end.messages) + 1)
        assert all(frames == [b"hello"] for frames in end.messages[:-1])


async def test_a_large_message_arrives_whole(bound: Sockets, tmp_path: Path) -> None:
    socket = bound(zmq.XPUB, tmp_path / "s", XPUB_NODROP=1)
    body = bytes(range(256)) * (12 << 12)
    async with connected(tmp_path / "s", "SUB") as end:
        await socket.recv()
        await socket.send_multipart([b"big", body, b"end"])
        (frames,) = await end.messages_are(1)
        assert frames[1] == body
        assert [frames[0], frames[2]] == [b"big", b"end"]


async def test_a_message_above_the_limit_ends_the_connection_with_its_size(
    bound: Sockets, tmp_path: Path
) -> None:
    socket = bound(zmq.XPUB, tmp_path / "s", XPUB_NODROP=1)
    async with connected(tmp_path / "s", "SUB", max_message=1 << 20) as end:
        await socket.recv()
        await socket.send_multipart([b"before"])
        await socket.send_multipart([b"big", bytes(1 << 20)])
        error = await end.ended()
        assert error is not None
        assert error.oversized == (1 << 20) + 3
        assert end.messages == [[b"before"]]


async def test_a_held_back_xpub_drops_nothing(bound: Sockets, tmp_path: Path) -> None:
    socket = bound(zmq.XPUB, tmp_path / "s", XPUB_NODROP=1, SNDHWM=5)
    async with connected(tmp_path / "s", "SUB") as end:
        await socket.recv()
        end.connection.pause()
        full = asyncio.Event()

        async def publish() -> None:
            for number in range(200):
                await push(socket, b"%d" % number, bytes(10_000), full=full)

        publishing = asyncio.create_task(publish())
        async with asyncio.timeout(SECONDS):
            await full.wait()
        assert end.messages == []
        end.connection.resume()
        got = await end.messages_are(200)
        assert [int(frames[0]) for frames in got] == list(range(200))
        await publishing


async def test_a_router_hears_the_identity_and_answers_it(bound: Sockets, tmp_path: Path) -> None:
    socket = bound(zmq.ROUTER, tmp_path / "s")
    async with connected(tmp_path / "s", "DEALER", identity=b"me") as end:
        end.connection.send([b"<IDS|MSG>", b"", b"question"])
        assert await socket.recv_multipart() == [b"me", b"<IDS|MSG>", b"", b"question"]
        await socket.send_multipart([b"me", b"<IDS|MSG>", b"answer"])
        assert await end.messages_are(1) == [[b"<IDS|MSG>", b"answer"]]


async def test_the_identity_of_shell_routes_what_is_asked_on_stdin(bound: Sockets, tmp_path: Path) -> None:
    """Jupyter messaging 5.4, "Messages on the stdin (ROUTER/DEALER) channel": both sockets have one identity."""
    shell = bound(zmq.ROUTER, tmp_path / "shell")
    stdin = bound(zmq.ROUTER, tmp_path / "stdin", ROUTER_MANDATORY=1)
    async with (
        connected(tmp_path / "shell", "DEALER", identity=b"one") as asking,
        connected(tmp_path / "stdin", "DEALER", identity=b"one") as asked,
        connected(tmp_path / "stdin", "DEALER", identity=b"other") as other,
    ):
        asking.connection.send([b"run"])
        identity, _ = await shell.recv_multipart()
        await stdin.send_multipart([identity, b"prompt"])
        assert await asked.messages_are(1) == [[b"prompt"]]
        asked.connection.send([b"answer"])
        assert await stdin.recv_multipart() == [b"one", b"answer"]
        assert other.messages == []


async def test_a_socket_that_pings_gets_its_pongs(bound: Sockets, tmp_path: Path) -> None:
    socket = bound(zmq.ROUTER, tmp_path / "s", HEARTBEAT_IVL=5, HEARTBEAT_TIMEOUT=5000)
    async with connected(tmp_path / "s", "DEALER", identity=b"me") as end:
        for number in range(20):
            await socket.poll(5)
            end.connection.send([b"%d" % number])
            assert await socket.recv_multipart() == [b"me", b"%d" % number]
        assert not end.closings


async def test_a_closed_socket_is_an_orderly_end(bound: Sockets, tmp_path: Path) -> None:
    socket = bound(zmq.ROUTER, tmp_path / "s")
    async with connected(tmp_path / "s", "DEALER", identity=b"me") as end:
        socket.close(linger=0)
        assert await end.ended() is None


async def test_a_socket_of_another_kind_refuses_or_is_refused(bound: Sockets, tmp_path: Path) -> None:
    bound(zmq.PUSH, tmp_path / "s")
    end = Taken()
    _, connection = await asyncio.get_running_loop().create_unix_connection(
        lambda: ZmtpConnection(
            "DEALER", identity=b"", max_message=1, on_message=end.took, on_closed=end.was_closed
        ),
        str(tmp_path / "s"),
    )
    await end.ended()  # libzmq says ERROR, or just hangs up
    assert end.closings[0] is None or "refused" in str(end.closings[0])
    connection.abort()
