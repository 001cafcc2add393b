"""Calls of a connection that can be cancelled, by the ids of their requests."""

import asyncio
from collections import OrderedDict
from typing import Final

from cellhouse.doors.mcp.place import Watched
from cellhouse.model import CellhouseError
from cellhouse.runtime.logs import logger

_logger = logger()

LEFT: Final = 1_024
"""Calls whose waiting was broken off, by whatever, that are remembered; a cancelling may come just behind that."""


class Calls:
    """Which execution each request of one connection has handed in.

    A call that is broken off is remembered for a while: the SDK ends the waiting of a cancelled request before it tells of
    the cancelling, and a connection that closes ends it just so. Only what is said in `notifications/cancelled` interrupts.
    """

    def __init__(self) -> None:
        self._open: OrderedDict[str, asyncio.Task[Watched]] = OrderedDict()

    def begin(self, request: str, handing_in: asyncio.Task[Watched]) -> None:
        """A request hands code in; the task's result is the handle."""
        self._open[request] = handing_in
        self._open.move_to_end(request)
        while len(self._open) > LEFT:
            self._open.popitem(last=False)

    def end(self, request: str) -> None:
        """It has its answer."""
        self._open.pop(request, None)

    async def cancel(self, request: str) -> bool:
        """Interrupt what this request has handed in; False where it only attached, or has its answer."""
        handing_in = self._open.pop(request, None)
        if handing_in is None:
            return False
        try:
            handle = await asyncio.shield(handing_in)
            return await handle.cancel()
        except CellhouseError as error:  # it was refused, so nothing runs
            _logger.debug("nothing to cancel", request=request, reason=error.reason)
            return False
