"""The pipes of a kernel's process: read as it writes, held back, drained, given back."""

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from cellhouse.kernel.pipes import DRAIN_BYTES, READ_BYTES, PipeReader
from cellhouse.messages import RawText
from tests.kernel.peer import SECONDS


class Pipe:
    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self.pieces: list[RawText] = []
        self.came = asyncio.Event()

    def reader(self) -> PipeReader:
        return PipeReader(self.read_end, "stderr", self.took)

    def took(self, text: RawText) -> None:
        self.pieces.append(text)
        self.came.set()

    @property
    def data(self) -> bytes:
        return b"".join(piece.data for piece in self.pieces)

    async def data_is(self, data: bytes) -> None:
        async with asyncio.timeout(SECONDS):
            while len(self.data) < len(data):
                self.came.clear()
                await self.came.wait()
        assert self.data == data

    def end(self) -> None:
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1


@pytest.fixture
async def pipe() -> AsyncIterator[Pipe]:
    made = Pipe()
    yield made
    made.end()


async def test_what_is_written_arrives_with_the_name_of_its_stream(pipe: Pipe) -> None:
    reader = pipe.reader()
    os.write(pipe.write_end, b"caf\xc3")
    await pipe.data_is(b"caf\xc3")
    os.write(pipe.write_end, b"\xa9\n")
    await pipe.data_is(b"caf\xc3\xa9\n")
    assert {piece.name for piece in pipe.pieces} == {"stderr"}
    reader.close()


async def test_the_end_is_told_and_the_descriptor_given_back(pipe: Pipe) -> None:
    reader = pipe.reader()
    os.write(pipe.write_end, b"last")
    pipe.end()
    async with asyncio.timeout(SECONDS):
        await reader.ended.wait()
    assert pipe.data == b"last"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pipe.read_end)
    reader.drain()
    reader.resume()
    reader.close()


async def test_a_paused_reader_holds_its_writer_back(pipe: Pipe) -> None:
    reader = pipe.reader()
    reader.pause()
    reader.pause()
    os.set_blocking(pipe.write_end, False)
    written = 0
    while True:
        try:
            written += os.write(pipe.write_end, b"x" * 4096)
        except BlockingIOError:
            break
    assert pipe.pieces == []
    reader.resume()
    await pipe.data_is(b"x" * written)
    reader.close()


async def test_draining_takes_what_stands_there_also_while_paused(pipe: Pipe) -> None:
    reader = pipe.reader()
    reader.pause()
    reader.drain()
    assert pipe.pieces == []
    os.write(pipe.write_end, b"before the request")
    reader.drain()
    assert pipe.data == b"before the request"
    reader.close()


async def test_draining_a_pipe_that_ended_closes_it(pipe: Pipe) -> None:
    reader = pipe.reader()
    os.write(pipe.write_end, b"end")
    pipe.end()
    reader.drain()
    assert pipe.data == b"end"
    assert reader.ended.is_set()


async def test_draining_is_bounded_where_somebody_writes_for_ever(pipe: Pipe) -> None:
    """Each piece taken is answered with another one, as by a child that never stops."""
    reader = pipe.reader()
    os.write(pipe.write_end, b"x" * READ_BYTES)
    taken = pipe.took

    def more(text: RawText) -> None:
        taken(text)
        os.write(pipe.write_end, b"x" * READ_BYTES)

    reader._put = more
    reader.drain()
    assert len(pipe.data) == DRAIN_BYTES
    reader.close()


async def test_a_piece_is_bounded(pipe: Pipe) -> None:
    reader = pipe.reader()
    os.write(pipe.write_end, b"x" * READ_BYTES)
    await pipe.data_is(b"x" * READ_BYTES)
    assert max(len(piece.data) for piece in pipe.pieces) <= READ_BYTES
    reader.close()
