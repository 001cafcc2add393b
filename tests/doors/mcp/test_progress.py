"""Progress: coalesced, bounded, never silent for long."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from cellhouse.doors.mcp.progress import MESSAGE_CHARS, Progress
from cellhouse.model import (
    DisplayEvent,
    Event,
    QueuedEvent,
    ResultEvent,
    StartedEvent,
    StreamEvent,
    TailFrame,
)
from tests.runtime.support import within


class Told:
    """What was reported, and a wish to wait for it."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.numbers: list[float] = []
        self._more = asyncio.Event()

    async def report(self, number: float, message: str) -> None:
        self.numbers.append(number)
        self.messages.append(message)
        self._more.set()

    async def until(self, count: int) -> None:
        while len(self.messages) < count:
            self._more.clear()
            await within(self._more.wait())


async def followed(told: Told, *events: Event | TailFrame, count: int, alive: float = 60.0) -> None:
    """Give it these events, and wait until so many messages have come."""

    async def stream() -> AsyncIterator[Event | TailFrame]:
        for event in events:
            yield event
        await told.until(count)

    await Progress(told.report, first=0.0, between=0.0, alive=alive).follow(stream())


def printed(text: str, name: str = "stdout") -> StreamEvent:
    return StreamEvent.from_wire({"name": name, "text": text})


async def test_what_comes_together_is_told_together() -> None:
    told = Told()
    display = DisplayEvent(index=3, mime_types=("image/png",), size_bytes=1)
    events = (StartedEvent(), printed("a\n"), printed("b\n", "stderr"), display, ResultEvent(text="7"))
    await followed(told, *events, count=1)
    assert told.messages == ["a\n[stderr] b\n[rich output 3: image/png]\n7\n"]


async def test_a_message_is_bounded_and_says_what_is_not_in_it() -> None:
    told = Told()
    tail = TailFrame.from_wire({"name": "stdout", "text": "end", "skippedBytes": 5_000})
    await followed(told, *(printed("x" * 999) for _ in range(1_000)), tail, count=1)
    assert len(told.messages[0]) < MESSAGE_CHARS + 100
    assert told.messages[0].endswith("end")
    assert f"{999_000 + 3 + 5_000 - MESSAGE_CHARS:,} characters before this" in told.messages[0]


@pytest.mark.parametrize(("first", "words"), [(QueuedEvent(), "waits"), (StartedEvent(), "runs")])
async def test_silence_is_broken(first: Event, words: str) -> None:
    told = Told()
    await followed(told, first, count=3, alive=0.01)
    assert all(words in message for message in told.messages)
    assert told.numbers == sorted(set(told.numbers))
