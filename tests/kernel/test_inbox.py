"""The one queue of a kernel: order, waiting, waking, and holding its sources back."""

import asyncio

import pytest

from cellhouse.kernel.inbox import HIGH_BYTES, ITEM_BYTES, LOW_BYTES, Inbox
from cellhouse.messages import RawText
from tests.kernel.peer import SECONDS


class Counted:
    def __init__(self) -> None:
        self.held: list[str] = []
        self.inbox = Inbox(on_high=lambda: self.held.append("high"), on_low=lambda: self.held.append("low"))

    def put(self, number: int, size: int = 0) -> None:
        self.inbox.put(RawText("stdout", b"%d" % number), size)

    def take(self) -> int | None:
        item = self.inbox.get_nowait()
        return int(item.data) if isinstance(item, RawText) else None


async def test_items_come_in_order() -> None:
    box = Counted()
    for number in range(100):
        box.put(number)
    assert [box.take() for _ in range(101)] == [*range(100), None]


async def test_a_waiting_reader_gets_what_comes() -> None:
    box = Counted()
    asyncio.get_running_loop().call_soon(box.put, 7)
    async with asyncio.timeout(SECONDS):
        item = await box.inbox.get(None)
    assert item == RawText("stdout", b"7")


@pytest.mark.parametrize("timeout", [0, 0.0, -1, 0.001])
async def test_nothing_within_the_timeout_is_none(timeout: float) -> None:
    box = Counted()
    async with asyncio.timeout(SECONDS):
        assert await box.inbox.get(timeout) is None
    box.put(1)
    assert await box.inbox.get(timeout) == RawText("stdout", b"1")


async def test_a_wake_ends_the_wait_with_nothing() -> None:
    box = Counted()
    asyncio.get_running_loop().call_soon(box.inbox.wake)
    async with asyncio.timeout(SECONDS):
        assert await box.inbox.get(None) is None


async def test_a_wake_that_nobody_waits_for_is_nothing() -> None:
    box = Counted()
    box.inbox.wake()
    box.inbox.wake()
    assert await box.inbox.get(0) is None


async def test_several_wakes_and_items_at_once_are_one_wake() -> None:
    box = Counted()
    loop = asyncio.get_running_loop()
    for call in (box.inbox.wake, lambda: box.put(1), lambda: box.put(2), box.inbox.wake):
        loop.call_soon(call)
    async with asyncio.timeout(SECONDS):
        await box.inbox.get(None)
    assert box.take() is not None


async def test_a_reader_that_was_cancelled_takes_nothing() -> None:
    box = Counted()
    reader = asyncio.create_task(box.inbox.get(None))
    await asyncio.sleep(0)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    box.put(5)
    assert await box.inbox.get(None) == RawText("stdout", b"5")


async def test_sources_are_held_back_above_the_bound_until_it_has_emptied() -> None:
    box = Counted()
    size = 100_000
    count = 0
    while not box.held:
        box.put(count, size)
        count += 1
    assert box.held == ["high"]
    assert (count - 1) * (size + ITEM_BYTES) <= HIGH_BYTES < count * (size + ITEM_BYTES)
    box.put(count, size)  # what was on its way is taken, and nobody is held back twice
    assert box.held == ["high"]
    left = count + 1
    while box.held == ["high"]:
        assert box.take() is not None
        left -= 1
    assert not box.inbox.held
    assert box.held == ["high", "low"]
    assert left * (size + ITEM_BYTES) < LOW_BYTES <= (left + 1) * (size + ITEM_BYTES)


async def test_a_single_item_above_the_bound_is_taken() -> None:
    box = Counted()
    box.put(1, 10 * HIGH_BYTES)
    assert box.held == ["high"]
    assert box.take() == 1
    assert box.held == ["high", "low"]


async def test_empty_items_are_bounded_too() -> None:
    box = Counted()
    for number in range(HIGH_BYTES // ITEM_BYTES + 1):
        box.put(number)
    assert box.inbox.held
