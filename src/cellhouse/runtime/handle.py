"""What a caller holds of an execution: awaitable for the result, iterable for the events."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import aclosing
from typing import Any

from cellhouse.model import (
    CallReason,
    DeadlineExceeded,
    Event,
    ExecuteCodeResult,
    ExecutionName,
    ExecutionState,
    TailFrame,
)
from cellhouse.runtime.answering import answering
from cellhouse.runtime.following import PAGE_BYTES, Follower
from cellhouse.runtime.host import ExecutionReader


class ExecutionHandle:
    """One caller's view of an execution. Letting go of it interrupts nothing.

    `await handle` gives the result, or raises DeadlineExceeded with the partial result after `wait_timeout`
    seconds; awaiting again waits again. `async for event in handle` gives the events from number 1 on;
    `events(after=N)` from any number, as often as wanted.
    """

    def __init__(
        self, reader: ExecutionReader, name: ExecutionName, *, attached: bool, wait_timeout: float
    ) -> None:
        self.name = name
        self.attached = attached
        self.wait_timeout = wait_timeout
        self._reader = reader

    def __await__(self) -> Generator[Any, None, ExecuteCodeResult]:
        return self.result().__await__()

    @answering
    async def result(self) -> ExecuteCodeResult:
        """The whole result, once there is one."""
        try:
            async with asyncio.timeout(self.wait_timeout):
                return await self._reader.wait(self.name)
        except TimeoutError:
            partial = await self._reader.snapshot(self.name)
            if partial.state is ExecutionState.FINISHED:  # in the last moment
                return partial
            raise self._deadline(partial) from None

    @answering
    async def ended(self) -> ExecuteCodeResult:
        """The result, however long that takes: for who only wants to know of the end."""
        return await self._reader.wait(self.name)

    async def deadline(self) -> DeadlineExceeded | None:
        """What to tell who has waited for `wait_timeout` now; None where it ended in the last moment."""
        partial = await self._reader.snapshot(self.name)
        return None if partial.state is ExecutionState.FINISHED else self._deadline(partial)

    def _deadline(self, partial: ExecuteCodeResult) -> DeadlineExceeded:
        return DeadlineExceeded(
            f"{self.name} did not end within waitTimeout of {self.wait_timeout:g} s; it runs on. "
            "Repeat the identical call, or await again, to go on waiting",
            reason=CallReason.WAIT_TIMEOUT,
            execution=str(self.name),
            partial_result=partial,
        )

    def __aiter__(self) -> AsyncIterator[Event]:
        return self.events()

    async def events(self, *, after: int = 0, late: bool = False) -> AsyncGenerator[Event, None]:
        """The numbered events above `after`; ends at `finished`, or with `late` when the runtime ends."""
        async with aclosing(self._reader.follow(self.name, after=after, late=late)) as events:
            async for event in events:
                if not isinstance(event, TailFrame):
                    yield event

    def live(self) -> AsyncGenerator[Event | TailFrame, None]:
        """The events and, past what is logged, the unnumbered tail frames: for watching."""
        return self._reader.follow(self.name, tails=True)

    def follower(self, *, after: int = 0, tails: bool = False, page_bytes: int = PAGE_BYTES) -> Follower:
        """The same by pages of about so many bytes, for who writes them on as they are."""
        return self._reader.follower(self.name, after=after, tails=tails, page_bytes=page_bytes)

    @answering
    async def snapshot(self) -> ExecuteCodeResult:
        """What there is now; never waits."""
        return await self._reader.snapshot(self.name)

    @answering
    async def cancel(self) -> bool:
        """Interrupt it, or end it where it still waits. From a caller that only attached, it merely detaches: False."""
        if self.attached:
            return False
        await self._reader.cancel(self.name)
        return True

    @answering
    async def provide_input(self, value: str) -> None:
        """Answer the open input request. FailedPrecondition where there is none."""
        await self._reader.provide_input(self.name, value)
