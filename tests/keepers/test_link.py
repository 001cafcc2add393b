"""A connection: answers and errors as they were, streams held back by who reads them, and its end."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from cellhouse.keepers.frames import Kind, encode
from cellhouse.keepers.link import Asked, Link
from cellhouse.keepers.pieces import WINDOW, LinkLost
from cellhouse.model import CallReason, InvalidArgument, NotFound, ResourceExhausted
from tests.keepers.support import within

PIECE = b"x" * 1_000


@asynccontextmanager
async def linked(answer: Callable[[Asked], Awaitable[Any]]) -> AsyncIterator[tuple[Link, Link]]:
    """A calling and an answering end."""
    ours, theirs = socket.socketpair()
    loop = asyncio.get_running_loop()
    _, caller = await loop.create_unix_connection(Link, sock=ours)
    _, answerer = await loop.create_unix_connection(lambda: Link(answer=answer), sock=theirs)
    caller.greeted = answerer.greeted = True
    try:
        yield caller, answerer
    finally:
        for link in (caller, answerer):
            link.abort()
            await within(asyncio.wait([link.lost]))


async def test_an_answer_is_its_calls() -> None:
    async def answer(asked: Asked) -> Any:
        if asked.arguments["n"] == 1:
            await second.wait()
        else:
            second.set()
        return {"method": asked.method, **asked.arguments}

    second = asyncio.Event()
    async with linked(answer) as (caller, _):
        found = await within(asyncio.gather(caller.call("a", {"n": 1}), caller.call("b", {"n": 2})))
    assert list(found) == [{"method": "a", "n": 1}, {"method": "b", "n": 2}]


@pytest.mark.parametrize(
    "error",
    [
        NotFound("there is none", reason=CallReason.NO_SUCH_RUNTIME, metadata={"a": "b"}),
        InvalidArgument.of_field("path", "no"),
        ResourceExhausted("full", reason=CallReason.SERVER_DISK_FULL, limit="disk", server=True),
    ],
)
async def test_an_error_arrives_as_it_was_raised(error: Exception) -> None:
    async def answer(asked: Asked) -> Any:
        raise error

    async with linked(answer) as (caller, _):
        with pytest.raises(type(error)) as raised:
            await within(caller.call("a", {}))
    assert raised.value.to_wire() == error.to_wire()  # type: ignore[attr-defined]


async def test_a_reader_that_takes_nothing_holds_the_sender_at_the_window() -> None:
    sent = 0
    held = asyncio.Event()

    async def answer(asked: Asked) -> Any:
        nonlocal sent
        for _ in range(2 * WINDOW // len(PIECE)):
            if sent + len(PIECE) > WINDOW:
                held.set()
            await asked.outgoing.send(PIECE)
            sent += len(PIECE)
        return {}

    async with linked(answer) as (caller, answerer):
        _, incoming = caller.stream("events", {})
        await within(held.wait())
        assert sent <= WINDOW + len(PIECE)
        got = 0
        async with asyncio.timeout(60):
            async for piece in incoming:
                got += len(piece)
        assert got == sent == 2 * WINDOW // len(PIECE) * len(PIECE)
        assert incoming.over
        assert answerer.asked == []


async def test_a_stream_that_is_let_go_of_ends_the_work_behind_it() -> None:
    ended = asyncio.Event()

    async def answer(asked: Asked) -> Any:
        try:
            while True:
                await asked.outgoing.send(PIECE)
        finally:
            ended.set()

    async with linked(answer) as (caller, _):
        number, incoming = caller.stream("events", {})
        await within(incoming.wait())
        caller.cancel(number)
        await within(ended.wait())


async def test_what_changes_something_is_seen_through_when_its_caller_goes() -> None:
    go, done = asyncio.Event(), asyncio.Event()

    async def answer(asked: Asked) -> Any:
        asked.breakable = False
        began.set()
        await go.wait()
        done.set()
        return {}

    began = asyncio.Event()
    async with linked(answer) as (caller, _):
        calling = asyncio.ensure_future(caller.call("execute", {}))
        await within(began.wait())
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        go.set()
        await within(done.wait())


async def test_an_upload_arrives_whole_and_no_faster_than_it_is_taken() -> None:
    async def answer(asked: Asked) -> Any:
        taken = b""
        async for piece in asked.incoming:
            taken += piece
        return {"bytes": len(taken)}

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b"y" * 300_000

    async with linked(answer) as (caller, _):
        assert await within(caller.upload("receiveFile", {}, chunks())) == {"bytes": 1_500_000}


async def test_an_upload_that_is_refused_stops_at_once() -> None:
    async def answer(asked: Asked) -> Any:
        raise InvalidArgument.of_field("path", "no")

    async def chunks() -> AsyncIterator[bytes]:
        while True:
            yield b"y" * 300_000

    async with linked(answer) as (caller, _):
        with pytest.raises(InvalidArgument):
            await within(caller.upload("receiveFile", {}, chunks()))


async def test_an_upload_whose_source_fails_is_broken_off() -> None:
    broken = asyncio.Event()

    async def answer(asked: Asked) -> Any:
        try:
            async for _ in asked.incoming:
                pass
        except (asyncio.CancelledError, OSError):
            broken.set()
            raise

    async def chunks() -> AsyncIterator[bytes]:
        yield b"y"
        raise ValueError("the source fails")

    async with linked(answer) as (caller, _):
        with pytest.raises(ValueError, match="the source fails"):
            await within(caller.upload("receiveFile", {}, chunks()))
        await within(broken.wait())


async def test_when_the_other_end_goes_every_call_and_stream_is_told() -> None:
    async def answer(asked: Asked) -> Any:
        await asyncio.Event().wait()

    async with linked(answer) as (caller, answerer):
        calling = asyncio.ensure_future(caller.call("a", {}))
        _, incoming = caller.stream("events", {})
        await within(_until_asked(answerer, 2))
        answerer.abort()
        with pytest.raises(LinkLost):
            await within(calling)
        await within(incoming.wait())
        with pytest.raises(LinkLost):
            incoming.take()
        with pytest.raises(LinkLost):
            await caller.call("a", {})


async def _until_asked(link: Link, count: int) -> None:
    while len(link.asked) < count:  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    "frame",
    [
        encode(Kind.CALL, 1, b"[]"),
        encode(Kind.CALL, 1, b"{}"),
        encode(Kind.CALL, 1, b"no"),
        encode(Kind.HELLO, 0, b"[]"),
        b"\xff" * 9,
    ],
)
async def test_who_speaks_something_else_is_cut_off(frame: bytes) -> None:
    async def answer(asked: Asked) -> Any:
        return {}

    async with linked(answer) as (caller, answerer):
        assert caller._transport is not None
        caller._transport.write(frame)
        await within(asyncio.wait([answerer.lost]))


async def test_who_has_not_greeted_is_answered_nothing() -> None:
    async def answer(asked: Asked) -> Any:
        raise AssertionError("it was asked all the same")

    async with linked(answer) as (caller, answerer):
        answerer.greeted = False
        with pytest.raises(LinkLost):
            await within(caller.call("a", {}))


async def test_what_is_told_later_comes_behind_its_answer_or_is_lost_with_the_connection() -> None:
    go, never = asyncio.Event(), asyncio.Event()

    async def answer(asked: Asked) -> Any:
        asked.later = partial(later, asked.arguments["n"])
        return {"accepted": asked.arguments["n"]}

    async def later(n: int) -> Any:
        await (go if n == 1 else never).wait()
        return {"result": n}

    async with linked(answer) as (caller, answerer):
        accepted, first = await within(caller.call_with_later("execute", {"n": 1}))
        _, second = await within(caller.call_with_later("execute", {"n": 2}))
        assert accepted == {"accepted": 1}
        assert not first.done()
        go.set()
        assert await within(first) == {"result": 1}
        answerer.abort()
        with pytest.raises(LinkLost):
            await within(second)
