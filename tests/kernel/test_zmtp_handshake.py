"""The handshake of the ZMTP client with a peer that may refuse, lie, or leave."""

import asyncio

import pytest

from cellhouse.kernel.zmtp import HANDSHAKE_BYTES, ZmtpError
from tests.kernel.peer import COMMAND, GREETING, LONG, SECONDS, Ends, ends, frame, message, ready


async def refused(end: Ends) -> str:
    """How `ready` and the end of the connection tell of one and the same fault."""
    with pytest.raises(ZmtpError) as caught:
        async with asyncio.timeout(SECONDS):
            await end.connection.ready()
    assert await end.ended() in (None, caught.value)
    return str(caught.value)


async def test_it_greets_as_zmtp_3_with_its_type_and_identity() -> None:
    async with ends("DEALER", identity=b"abc") as end:
        assert await end.hear(64) == GREETING
        await end.say(GREETING)
        head = await end.hear(2)
        assert head[0] == COMMAND
        body = await end.hear(head[1])
        assert body == b"\x05READY\x0bSocket-Type\0\0\0\x06DEALER\x08Identity\0\0\0\x03abc"
        assert not end.closings


async def test_a_subscriber_subscribes_to_everything_once_ready() -> None:
    async with ends("SUB") as end:
        await end.shake_hands()
        assert await end.hear(3) == b"\x00\x01\x01"


@pytest.mark.parametrize(
    ("greeting", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n".ljust(64), "does not speak ZMTP 3"),
        (b"\xff" + bytes(8) + b"\x7e" + GREETING[10:], "does not speak ZMTP 3"),
        (GREETING[:10] + b"\x01" + GREETING[11:], "does not speak ZMTP 3"),
        (GREETING[:12] + b"PLAIN".ljust(20, b"\0") + GREETING[32:], "mechanism b'PLAIN'"),
        (GREETING[:12] + b"CURVE".ljust(20, b"\0") + GREETING[32:], "mechanism b'CURVE'"),
        (GREETING[:12] + b"\xff" * 20 + GREETING[32:], "mechanism"),
    ],
    ids=["http", "signature", "version 1", "plain", "curve", "noise"],
)
async def test_a_bad_greeting_is_refused(greeting: bytes, why: str) -> None:
    async with ends() as end:
        await end.say(greeting)
        assert why in await refused(end)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (frame(b"\x05ERROR\x03bad", COMMAND), "refused the handshake: b'\\x05ERROR\\x03bad'"),
        (frame(b"", COMMAND), "refused the handshake"),
        (frame(b"\x04PING\0\0", COMMAND), "refused the handshake"),
        (message(b"hello"), "refused the handshake"),
        (frame(b"\xffREADY", COMMAND), "refused the handshake"),
        (frame(b"", COMMAND | LONG, announced=HANDSHAKE_BYTES + 1), "a command of 4097 bytes"),
        (frame(b"", LONG, announced=1 << 40), f"a command of {1 << 40} bytes"),
    ],
    ids=["error", "empty", "ping", "message", "bad name", "oversized command", "oversized message"],
)
async def test_a_bad_handshake_is_refused(said: bytes, why: str) -> None:
    async with ends() as end:
        await end.say(GREETING + said)
        assert why in await refused(end)


@pytest.mark.parametrize("said", [b"", GREETING[:63], GREETING, GREETING + ready()[:-1]])
async def test_a_peer_that_leaves_before_it_is_ready_is_a_refusal(said: bytes) -> None:
    async with ends() as end:
        await end.say(said)
        end.peer.close()
        assert await refused(end) == "the peer closed the connection"


async def test_nobody_needs_to_await_a_handshake_that_failed() -> None:
    async with ends() as end:
        await end.say(b"x" * 64)
        assert await end.ended() is not None
