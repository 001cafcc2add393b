"""The houses of keepers that are dead: opened when their records are asked for, closed when nobody has for a while."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import Final

from cellhouse.house import House
from cellhouse.keepers.place import Place
from cellhouse.runtime.logs import logger

_logger = logger()

OPEN_GRAVES: Final = 16
"""Houses that stay open without being used, least recently used first to go. What is in use is never closed for it."""


class Moved(Exception):
    """The directory has been another's meanwhile: whoever has the runtime now is to be asked."""


class _Grave:
    def __init__(self, house: House) -> None:
        self.house = house
        self.uses = 0

    def let_go(self) -> None:
        self.uses -= 1


class Graves:
    """Opening such a house ends what its keeper left unfinished (RUNTIME_LOST), and removes what it left lying about."""

    def __init__(self, make: Callable[[Place], House], most: int = OPEN_GRAVES) -> None:
        self._make, self._most = make, most
        self._open: OrderedDict[str, _Grave] = OrderedDict()
        self._moving: dict[str, asyncio.Lock] = {}
        self._reserving: dict[str, asyncio.Lock] = {}
        self._reserved: set[str] = set()

    @contextlib.asynccontextmanager
    async def visit(self, place: Place) -> AsyncIterator[House]:
        """The house, for as long as it is used. Raises what opening it does, and Moved."""
        house, let_go = await self.hold(place)
        try:
            yield house
        finally:
            let_go()

    async def hold(self, place: Place) -> tuple[House, Callable[[], None]]:
        """The same for who can't use a block: the second is to be called when it is not used any more."""
        async with self._lock(place.runtime):
            reserved = place.runtime in self._reserved
            grave = None if reserved else self._open.get(place.runtime)
            if grave is None and not reserved:
                house = self._make(place)
                await house.__aenter__()
                if not place.is_over:
                    place.forget_socket()
                    place.mark_over()
                grave = self._open[place.runtime] = _Grave(house)
            if grave is not None:
                self._open.move_to_end(place.runtime)
                grave.uses += 1
        if grave is None:
            async with self._reserving[place.runtime]:
                raise Moved
        await self._trim()
        return grave.house, grave.let_go

    @contextlib.asynccontextmanager
    async def reserved(self, runtime: str) -> AsyncIterator[None]:
        """Nobody but the caller has the directory: a keeper is to have it. Who follows something there comes again."""
        async with self._reserving.setdefault(runtime, asyncio.Lock()):
            self._reserved.add(runtime)
            try:
                await self._close_one(runtime, unused=False)
                yield
            finally:
                self._reserved.discard(runtime)

    async def _trim(self) -> None:
        for runtime, grave in list(self._open.items()):
            if len(self._open) <= self._most:
                return
            if not grave.uses:
                await self._close_one(runtime, unused=True)

    async def _close_one(self, runtime: str, *, unused: bool) -> None:
        async with self._lock(runtime):
            grave = self._open.get(runtime)
            if grave is not None and not (unused and grave.uses):
                del self._open[runtime]
                await grave.house.close()

    def _lock(self, runtime: str) -> asyncio.Lock:
        return self._moving.setdefault(runtime, asyncio.Lock())

    async def close(self) -> None:
        """Close them all."""
        for runtime in list(self._open):
            try:
                await self._close_one(runtime, unused=False)
            except Exception:
                _logger.exception("the house of a dead keeper could not be closed well", runtime=runtime)
