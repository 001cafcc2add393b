"""What is found in the memory of a kernel that has ended."""

import os
from collections.abc import Iterator

import pytest

from cellhouse.kernel.printed import HEADER, REGION_BYTES, TEXT_AT, PrintedMemory


@pytest.fixture
def memory() -> Iterator[PrintedMemory]:
    made = PrintedMemory()
    yield made
    made.close()


def put(
    memory: PrintedMemory, text: bytes, header: tuple[int, int, int] = (0, 0, 0), stream: int = 0
) -> None:
    os.pwrite(memory.fd, HEADER.pack(*header), stream * REGION_BYTES)
    os.pwrite(memory.fd, text, stream * REGION_BYTES + TEXT_AT)


def test_nothing_was_printed(memory: PrintedMemory) -> None:
    assert memory.left(0, 0, 0) == memory.left(1, 7, 9) == b""


@pytest.mark.parametrize("stream", [0, 1])
def test_what_was_never_sent(memory: PrintedMemory, stream: int) -> None:
    put(memory, b"all of it", stream=stream)
    assert memory.left(stream, 0, 0) == b"all of it"
    assert memory.left(1 - stream, 0, 0) == b""


@pytest.mark.parametrize(
    ("seen", "came", "left"),
    [
        (2, 500, b"thatwasnot"),  # the mark of the last piece never came
        (3, 0, b"thatwasnot"),
        (3, 2, b"atwasnot"),
        (3, 4, b"wasnot"),
        (3, 900, b"wasnot"),  # others' text came behind it
    ],
)
def test_what_was_sent_in_part(memory: PrintedMemory, seen: int, came: int, left: bytes) -> None:
    put(memory, b"was sent. thatwasnot", (3, TEXT_AT + 10, 4))
    assert memory.left(0, seen, came) == left


@pytest.mark.parametrize(
    "header", [(1, 1, 1), (1, 1 << 63, 5), (1, 5, 1 << 63), (1 << 63, REGION_BYTES + 5, 1)]
)
def test_a_forged_header_takes_nothing_from_anybody_else(
    memory: PrintedMemory, header: tuple[int, int, int]
) -> None:
    put(memory, b"mine", header)
    put(memory, b"theirs", stream=1)
    assert b"mine".endswith(memory.left(0, 1, 1 << 40))
    assert memory.left(1, 1, 1) == b"theirs"


def test_it_cannot_be_made_smaller_or_larger(memory: PrintedMemory) -> None:
    for size in (0, 1 << 30):
        with pytest.raises(PermissionError):
            os.ftruncate(memory.fd, size)


def test_once_closed_it_is_empty(memory: PrintedMemory) -> None:
    put(memory, b"text")
    memory.close()
    assert memory.left(0, 0, 0) == b""
