"""What an execution prints, while it runs, as progress: coalesced, bounded, and never silent for long."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from cellhouse.doors.mcp.answers import amount
from cellhouse.model import (
    DisplayEvent,
    Event,
    ExecutionState,
    FinishedEvent,
    ResultEvent,
    StartedEvent,
    StreamEvent,
    TailFrame,
    plain_text,
)

FIRST_SECONDS: Final = 0.1
NEXT_SECONDS: Final = 0.5
"""Between two notifications, at least."""
ALIVE_SECONDS: Final = 10.0
"""Of silence, at most."""
MESSAGE_CHARS: Final = 2_000

Report = Callable[[float, str], Awaitable[None]]
"""Sends a notification: its number, which only grows, and its words."""


class Progress:
    """Follows events and reports them. `now` and the seconds are for tests."""

    def __init__(
        self,
        report: Report,
        *,
        first: float = FIRST_SECONDS,
        between: float = NEXT_SECONDS,
        alive: float = ALIVE_SECONDS,
    ) -> None:
        self._report, self._first, self._between, self._alive = report, first, between, alive
        self._words: list[str] = []
        self._chars = self._omitted = 0
        self._count = 0
        self._state = ExecutionState.QUEUED
        self._fresh = asyncio.Event()

    async def follow(self, events: AsyncIterator[Event | TailFrame]) -> None:
        """Until the events end, or this is cancelled; what has not been reported then is in the result."""
        telling = asyncio.ensure_future(self._tell())
        try:
            async for event in events:
                if isinstance(event, FinishedEvent):
                    return
                self._take(event)
        finally:
            telling.cancel()
            await asyncio.wait([telling])

    def _take(self, event: Event | TailFrame) -> None:
        match event:
            case StartedEvent():
                self._state = ExecutionState.RUNNING
            case StreamEvent(name=name, text=text) | TailFrame(name=name, text=text):
                if isinstance(event, TailFrame):
                    self._omitted += event.skipped_bytes
                self._add(text if name == "stdout" else f"[stderr] {text}")
            case ResultEvent(text=text):
                self._add(text if text.endswith("\n") else f"{text}\n")
            case DisplayEvent(index=index, mime_types=types):
                self._add(f"[rich output {index}: {', '.join(types)[:100]}]\n")

    def _add(self, text: str) -> None:
        if not text:
            return
        self._words.append(text)
        self._chars += len(text)
        if self._chars > 2 * MESSAGE_CHARS:
            kept = "".join(self._words)[-MESSAGE_CHARS:]
            self._omitted += self._chars - len(kept)
            self._words, self._chars = [kept], len(kept)
        self._fresh.set()

    async def _tell(self) -> None:
        pause = self._first
        while True:
            try:
                async with asyncio.timeout(self._alive):
                    await self._fresh.wait()
            except TimeoutError:
                waits = self._state is ExecutionState.QUEUED
                await self._send("waits for its turn" if waits else "runs; nothing new was printed")
                continue
            await asyncio.sleep(pause)
            pause = self._between
            await self._send(self._message())

    def _message(self) -> str:
        self._fresh.clear()
        text = "".join(self._words)
        kept = text[-MESSAGE_CHARS:]
        omitted = self._omitted + len(text) - len(kept)
        self._words, self._chars, self._omitted = [], 0, 0
        return (
            f"… {amount(omitted, 'character')} before this are in the result …\n{kept}" if omitted else kept
        )

    async def _send(self, message: str) -> None:
        self._count += 1
        await self._report(float(self._count), plain_text(message))
