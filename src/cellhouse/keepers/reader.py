"""What a handle asks of an execution that a keeper has, or had."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from cellhouse.keepers import calls
from cellhouse.keepers.pieces import LinkLost
from cellhouse.keepers.reading import KeptFollower, read_all
from cellhouse.keepers.router import Router
from cellhouse.model import CellhouseError, Event, ExecuteCodeResult, ExecutionName, TailFrame
from cellhouse.runtime.following import PAGE_BYTES


class KeptReader:
    """A `runtime.host.ExecutionReader` for the executions of one KeptHouse; with what comes by itself, for one of them."""

    def __init__(self, router: Router, later: asyncio.Future[Any] | None = None) -> None:
        self._router, self._later = router, later
        self._result: ExecuteCodeResult | None = (
            None  # what came so: who counts it and who asked both want it
        )

    def follow(
        self, name: ExecutionName, *, after: int = 0, late: bool = False, tails: bool = False
    ) -> AsyncGenerator[Event | TailFrame, None]:
        return read_all(self.follower(name, after=after, late=late, tails=tails, page_bytes=PAGE_BYTES))

    def follower(
        self, name: ExecutionName, *, after: int = 0, late: bool = False, tails: bool = False, page_bytes: int
    ) -> KeptFollower:
        """What is wrong with the execution is told when it is read."""
        return KeptFollower(
            self._router, str(name), after=after, late=late, tails=tails, page_bytes=page_bytes
        )

    async def snapshot(self, name: ExecutionName) -> ExecuteCodeResult:
        return await self._router.ask(name.runtime, calls.GET_EXECUTION, {"name": str(name)})

    async def wait(self, name: ExecutionName) -> ExecuteCodeResult:
        if self._later is not None:
            try:
                with contextlib.suppress(LinkLost):
                    if found := await asyncio.shield(self._later):
                        self._result = self._result or calls.RESULT.decode(found)
                        return self._result
            except CellhouseError:
                self._later = None  # who comes again asks anew
                raise
            self._later = None
        return await self._router.ask(name.runtime, calls.RESULT, {"name": str(name)})

    async def cancel(self, name: ExecutionName) -> None:
        await self._router.ask(name.runtime, calls.CANCEL, {"name": str(name)})

    async def provide_input(self, name: ExecutionName, value: str) -> None:
        await self._router.ask(name.runtime, calls.PROVIDE_INPUT, {"name": str(name), "value": value})
