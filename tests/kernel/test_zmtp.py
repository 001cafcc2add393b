"""The ZMTP client against a peer that keeps no rule."""

import asyncio
import contextlib
import os

import pytest
from hypothesis import given, settings, strategies as st

from cellhouse.kernel import zmtp
from cellhouse.kernel.zmtp import HANDSHAKE_BYTES, MAX_FRAMES, SCRATCH_BYTES, ZmtpConnection, ZmtpError
from tests.kernel.peer import COMMAND, GREETING, LONG, MORE, ends, frame, message, ready

# messages


@pytest.mark.parametrize(
    "frames",
    [
        [b""],
        [b"a"],
        [b"", b"", b""],
        [b"x" * 255, b"y" * 256],
        [b"z" * SCRATCH_BYTES],
        [b"z" * (SCRATCH_BYTES - 1), b"end"],
        [b"z" * (SCRATCH_BYTES - 9)],
        [b"m" * (1 << 20), b"\x00\xff" * 3000],
        [b"f"] * MAX_FRAMES,
    ],
    ids=[
        "empty",
        "short",
        "empty frames",
        "long heads",
        "a buffer full",
        "nearly",
        "with its head",
        "mapped",
        "most frames",
    ],
)
async def test_a_message_arrives_as_it_was_sent(frames: list[bytes]) -> None:
    async with ends(max_message=4 << 20) as end:
        await end.shake_hands()
        await end.say(message(*frames) + message(b"next"))
        assert await end.messages_are(2) == [frames, [b"next"]]
        assert end.sizes == [sum(map(len, frames)), 4]


async def test_a_message_arrives_byte_by_byte() -> None:
    data = GREETING + ready() + message(b"one", b"x" * 300, b"") + frame(b"y", LONG)
    async with ends() as end:
        for byte in data:
            await end.say(bytes([byte]))
            await asyncio.sleep(0)
        assert await end.messages_are(2) == [[b"one", b"x" * 300, b""], [b"y"]]


class _Deaf(asyncio.Transport):
    """Takes what is written and keeps nothing."""

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def abort(self) -> None: ...


@settings(max_examples=25, deadline=None)
@given(
    messages=st.lists(
        st.lists(
            st.one_of(
                st.binary(max_size=300),
                st.sampled_from([SCRATCH_BYTES + more for more in (-9, -1, 0, 4_464)]).map(
                    lambda n: b"b" * n
                ),
            ),
            min_size=1,
            max_size=4,
        ),
        max_size=6,
    ),
    sizes=st.lists(st.integers(1, SCRATCH_BYTES + 500), min_size=1, max_size=8),
)
def test_any_messages_in_any_pieces_arrive_whole(messages: list[list[bytes]], sizes: list[int]) -> None:
    data = memoryview(GREETING + ready() + b"".join(message(*frames) for frames in messages))
    got: list[list[bytes]] = []
    errors: list[ZmtpError | None] = []

    async def feed() -> None:
        connection = ZmtpConnection(
            "DEALER",
            max_message=1 << 22,
            on_message=lambda frames, size: got.append([bytes(frame) for frame in frames]),
            on_closed=errors.append,
        )
        connection.connection_made(_Deaf())
        at = number = 0
        while at < len(data):
            room = connection.get_buffer(-1)
            piece = data[at : at + min(len(room), [*sizes, 9_000][number % (len(sizes) + 1)])]
            room[: len(piece)] = piece
            connection.buffer_updated(len(piece))
            at, number = at + len(piece), number + 1
        assert not errors
        connection.connection_lost(None)

    asyncio.run(feed())
    assert got == messages
    assert errors == [None]


# limits


async def test_an_oversized_frame_is_refused_when_it_is_announced() -> None:
    async with ends(max_message=1000) as end:
        await end.shake_hands()
        await end.say(frame(b"", LONG, announced=1 << 62))
        error = await end.ended()
        assert error is not None
        assert error.oversized == 1 << 62
        assert str(error) == f"a message of at least {1 << 62} bytes, limit 1000"


async def test_frames_that_are_oversized_together_are_refused() -> None:
    async with ends(max_message=1000) as end:
        await end.shake_hands()
        await end.say(frame(b"x" * 600, MORE) + frame(b"", LONG, announced=401))
        error = await end.ended()
        assert error is not None
        assert error.oversized == 1001
        assert end.messages == []


async def test_a_message_of_exactly_the_limit_is_taken() -> None:
    async with ends(max_message=1000) as end:
        await end.shake_hands()
        await end.say(message(b"x" * 600, b"y" * 400) * 2)
        assert await end.messages_are(2) == [[b"x" * 600, b"y" * 400]] * 2


async def test_too_many_frames_are_refused() -> None:
    async with ends() as end:
        await end.shake_hands()
        await end.say(frame(b"", MORE) * (MAX_FRAMES + 1))
        error = await end.ended()
        assert error is not None
        assert "more than 1024 frames" in str(error)
        assert error.oversized == 0


@pytest.mark.parametrize("flags", [0x08, 0x10, 0x80, 0xFF, COMMAND | MORE])
async def test_flags_that_do_not_exist_are_refused(flags: int) -> None:
    async with ends() as end:
        await end.shake_hands()
        await end.say(bytes([flags, 0]))
        assert "do not exist" in str(await end.ended())


async def test_after_a_fault_nothing_more_is_taken() -> None:
    async with ends() as end:
        await end.shake_hands()
        await end.say(message(b"before") + b"\xff\x00" + message(b"after"))
        await end.ended()
        assert end.messages == [[b"before"]]
        with pytest.raises(ZmtpError, match="cannot send: the connection is closed"):
            end.connection.send([b"x"])


# commands


async def test_a_ping_is_answered_with_its_context_at_any_place() -> None:
    ping = frame(b"\x04PING\x00\x0acontext", COMMAND)
    async with ends() as end:
        await end.shake_hands()
        await end.say(frame(b"one", MORE) + ping + frame(b"two"))
        assert await end.hear(14) == frame(b"\x04PONGcontext", COMMAND)
        assert await end.messages_are(1) == [[b"one", b"two"]]


async def test_a_context_longer_than_zmtp_allows_is_cut() -> None:
    async with ends() as end:
        await end.shake_hands()
        await end.say(frame(b"\x04PING\x00\x0a" + b"c" * 100, COMMAND))
        assert await end.hear(23) == frame(b"\x04PONG" + b"c" * 16, COMMAND)


async def test_unknown_commands_are_ignored() -> None:
    async with ends() as end:
        await end.shake_hands()
        await end.say(frame(b"", COMMAND) + frame(b"\x09SUBSCRIBEx", COMMAND) + message(b"on"))
        assert await end.messages_are(1) == [[b"on"]]


async def test_an_oversized_command_is_refused() -> None:
    async with ends(max_message=1 << 30) as end:
        await end.shake_hands()
        await end.say(frame(b"", COMMAND | LONG, announced=HANDSHAKE_BYTES + 1))
        error = await end.ended()
        assert "a command of" in str(error)
        assert error is not None
        assert not error.oversized


async def test_a_peer_that_only_pings_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zmtp, "MAX_UNTAKEN_BYTES", 4096)
    ping = frame(b"\x04PING\x00\x0a" + b"c" * 16, COMMAND)
    async with ends() as end:
        await end.shake_hands()
        with contextlib.suppress(ConnectionError):
            for _ in range(1000):
                await end.say(ping * 1000)
        assert str(await end.ended()) == "the peer sends pings and takes no answers"


# ends


async def test_an_orderly_end_is_no_error() -> None:
    async with ends() as end:
        await end.shake_hands()
        await end.say(message(b"last"))
        end.peer.close()
        assert await end.ended() is None
        assert end.messages == [[b"last"]]


@pytest.mark.parametrize(
    "torn",
    [
        frame(b"one", MORE),
        frame(b"x" * 99)[:50],
        frame(b"x" * 99_999)[:70_000],
        b"\x00",
        frame(b"", LONG, announced=5)[:4],
    ],
    ids=["more", "body", "long body", "head", "long head"],
)
async def test_an_end_inside_a_message_is_an_error(torn: bytes) -> None:
    async with ends() as end:
        await end.shake_hands()
        await end.say(torn)
        end.peer.close()
        assert "inside a message" in str(await end.ended())
        assert end.messages == []


async def test_the_end_is_told_once() -> None:
    async with ends() as end:
        await end.shake_hands()
        await end.say(b"\xff\x00")
        await end.ended()
        end.connection.abort()
        end.peer.close()
        await asyncio.sleep(0)
        assert len(end.closings) == 1


async def test_what_stood_in_the_socket_is_drained_without_the_loop() -> None:
    async with ends(max_message=1 << 20) as end:
        await end.shake_hands()
        end.connection.pause()
        sent = [[b"%d" % number, b"x" * 500] for number in range(200)]
        end.peer.send(b"".join(message(*frames) for frames in sent))
        end.peer.close()
        end.connection.drain()
        assert end.messages == sent
        assert not end.closings
        end.connection.resume()
        assert await end.ended() is None


async def test_draining_ends_at_a_fault_and_after_an_end() -> None:
    async with ends() as end:
        await end.shake_hands()
        end.peer.send(message(b"good") + b"\xff\x00" + message(b"never"))
        end.connection.drain()
        assert end.messages == [[b"good"]]
        assert "do not exist" in str(await end.ended())
        end.connection.drain()
        assert end.messages == [[b"good"]]


async def test_draining_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zmtp, "DRAIN_BYTES", 1000)
    async with ends() as end:
        await end.shake_hands()
        end.connection.pause()
        data = message(b"x" * 40_000) * 4
        end.peer.send(data)
        end.connection.drain()
        assert 0 < len(end.messages) < 4
        end.connection.resume()
        await end.messages_are(4)


# back-pressure and sending


async def test_a_paused_connection_holds_its_peer_back_and_loses_nothing() -> None:
    piece = message(b"x" * 1000)
    async with ends() as end:
        await end.shake_hands()
        end.connection.pause()
        sent = 0
        with contextlib.suppress(BlockingIOError):  # which says that the socket is full
            while end.peer.send(piece) == len(piece):
                sent += 1
        assert sent > 10
        assert end.messages == []
        end.connection.resume()
        await end.messages_are(sent)
        assert end.messages == [[b"x" * 1000]] * sent


async def test_messages_are_sent_with_short_and_long_heads() -> None:
    async with ends() as end:
        await end.shake_hands()
        end.connection.send([b"", b"a", b"x" * 255, b"y" * 256])
        expected = message(b"", b"a", b"x" * 255, b"y" * 256)
        assert await end.hear(len(expected)) == expected


async def test_nothing_is_sent_before_the_handshake() -> None:
    async with ends() as end:
        with pytest.raises(ZmtpError, match="cannot send: the connection is greeting"):
            end.connection.send([b"x"])


async def test_what_the_peer_has_not_taken_is_counted() -> None:
    async with ends() as end:
        await end.shake_hands()
        assert end.connection.unsent == 0
        data = os.urandom(1 << 20)
        end.connection.send([data])
        assert 0 < end.connection.unsent <= len(data) + 9
        assert await end.hear(len(data) + 9) == frame(data)
        assert end.connection.unsent == 0
