"""The house of `cellhouse mcp`: its runtime starts at once, and everything but the records ends with it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from cellhouse.doors.limits import DoorLimits
from cellhouse.doors.mcp.house_place import HousePlace
from cellhouse.house import House
from cellhouse.keepers import DirectHouse
from cellhouse.model import CellhouseError, ExecuteCodeRequest, NotFound, RuntimeSpec
from cellhouse.runtime import ExecutionHandle, Settings
from cellhouse.runtime.logs import logger

_logger = logger()

RUNTIME: Final = "default"
SESSION: Final = "main"
IDLE_SECONDS: Final = 30 * 86_400.0
"""Its client may be away over a holiday; it ends with the client."""


class EmbeddedPlace(HousePlace):
    """A house whose first runtime may still be on its way."""

    def __init__(self, house: House, making: asyncio.Task[None]) -> None:
        super().__init__(DirectHouse(house), file_bytes=DoorLimits().file_bytes)
        self._making = making

    async def ready(self) -> None:
        """Until the first runtime is there, or it is known that it can't be had."""
        await asyncio.wait([self._making])

    async def execute(self, request: ExecuteCodeRequest) -> ExecutionHandle:
        try:
            return await super().execute(request)
        except NotFound:
            if not self._making.cancelled() and (error := self._making.exception()) is not None:
                raise error from None  # why there is none
            raise


@asynccontextmanager
async def embedded(settings: Settings) -> AsyncIterator[EmbeddedPlace]:
    """A house with a runtime `default`, which is being made when this returns. Its runtimes are deleted at the end."""
    async with House(settings=settings) as house:
        making = asyncio.ensure_future(_make(house))
        try:
            yield EmbeddedPlace(house, making)
        finally:
            making.cancel()
            await asyncio.wait([making])
            if not making.cancelled() and (error := making.exception()) is not None:
                _logger.warning("the runtime could not be made", error=str(error))
            for runtime in house.list_runtimes():
                with contextlib.suppress(CellhouseError):  # it is over: closing the house sees to the rest
                    await house.delete_runtime(runtime.name)


async def _make(house: House) -> None:
    runtime = await house.create_runtime(RuntimeSpec(idle_seconds=IDLE_SECONDS), runtime_id=RUNTIME)
    await house.create_session(runtime.name, session_id=SESSION)
