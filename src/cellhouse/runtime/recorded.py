"""Executions whose runtime is over: read from the journal, with the face of a living one."""

from collections.abc import AsyncGenerator

from cellhouse.journal import Journal
from cellhouse.model import (
    CallReason,
    Event,
    ExecuteCodeResult,
    ExecutionName,
    FailedPrecondition,
    TailFrame,
)
from cellhouse.runtime.following import Follower, follow
from cellhouse.runtime.once import find_log, no_end, recorded_result


class Recorded:
    """Reads what was recorded; nothing runs here, so there is nothing to cancel and nobody to answer."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def follow(
        self, name: ExecutionName, *, after: int = 0, late: bool = False, tails: bool = False
    ) -> AsyncGenerator[Event | TailFrame, None]:
        return follow(find_log(self._journal, name), after=after, late=late)

    def follower(
        self, name: ExecutionName, *, after: int = 0, late: bool = False, tails: bool = False, page_bytes: int
    ) -> Follower:
        return Follower(find_log(self._journal, name), after=after, late=late, page_bytes=page_bytes)

    async def snapshot(self, name: ExecutionName) -> ExecuteCodeResult:
        return await self.wait(name)

    async def wait(self, name: ExecutionName) -> ExecuteCodeResult:
        log = find_log(self._journal, name)
        result = recorded_result(log)
        if result is None:
            raise no_end(log)
        return result

    async def cancel(self, name: ExecutionName) -> None:
        find_log(self._journal, name)

    async def provide_input(self, name: ExecutionName, value: str) -> None:
        find_log(self._journal, name)
        raise FailedPrecondition(
            f"{name} has ended; it takes no input", reason=CallReason.NOT_WAITING_FOR_INPUT
        )
