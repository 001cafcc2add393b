"""What keepers left that are dead: opened when their records are asked for, closed when nobody has for a while."""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from cellhouse.house import House
from cellhouse.keepers.calls import CLOSE, Method
from cellhouse.keepers.link import Link
from cellhouse.keepers.living import Living
from cellhouse.keepers.pieces import LinkLost
from cellhouse.keepers.place import Place
from cellhouse.keepers.reading import Recorded
from cellhouse.model import CallReason, CellhouseError, Unavailable
from cellhouse.runtime.logs import logger

_logger = logger()

R = TypeVar("R")

OPEN_GRAVES: Final = 16
"""Houses that stay open without being used, least recently used first to go. What is in use is never closed for it."""


class Moved(Exception):
    """The directory has been another's meanwhile: whoever has the runtime now is to be asked."""


class Grave(ABC):
    """What a dead keeper left, open to be asked as the keeper was. `uses` says how many do so at this moment."""

    uses = 0

    @property
    def is_open(self) -> bool:
        return True

    @abstractmethod
    async def ask(self, method: Method[R], arguments: Mapping[str, Any]) -> R:
        """Raises the errors of the call."""

    @abstractmethod
    def source(
        self, name: str, *, late: bool, page_bytes: int, let_go: Callable[[], None]
    ) -> Link | Recorded:
        """Where the events of an execution are to be read; `let_go` is called when they are read no more."""

    @abstractmethod
    async def close(self) -> None: ...

    def let_go(self) -> None:
        self.uses -= 1


class OpenedHere(Grave):
    """Read by the service: who wrote it was the same user."""

    def __init__(self, house: House) -> None:
        """`house` is open, and closed by this."""
        self._house = house

    async def ask(self, method: Method[R], arguments: Mapping[str, Any]) -> R:
        return await method.run(self._house, arguments)

    def source(
        self, name: str, *, late: bool, page_bytes: int, let_go: Callable[[], None]
    ) -> Link | Recorded:
        return Recorded(
            lambda after: self._house.follower(name, after=after, late=late, page_bytes=page_bytes), let_go
        )

    async def close(self) -> None:
        await self._house.close()


class ReadByAnother(Grave):
    """Read by a process that is not root: who wrote it was not root either, and what it wrote is believed by none."""

    def __init__(self, living: Living) -> None:
        self._living = living

    @property
    def is_open(self) -> bool:
        return self._living.link.alive

    async def ask(self, method: Method[R], arguments: Mapping[str, Any]) -> R:
        try:
            return method.decode(await self._living.link.call(method.name, arguments))
        except LinkLost:
            raise Unavailable(
                f"runtimes/{self._living.place.runtime}: who read its records has ended; try again",
                reason=CallReason.TRY_AGAIN,
            ) from None

    def source(
        self, name: str, *, late: bool, page_bytes: int, let_go: Callable[[], None]
    ) -> Link | Recorded:
        let_go()  # one that is closed meanwhile is looked for again
        return self._living.link

    async def close(self) -> None:
        with contextlib.suppress(LinkLost, CellhouseError):
            await self._living.link.call(CLOSE, {})
        await self._living.end()
        self._living.link.abort()
        self._living.let_go()


class Graves:
    """Opening such a house ends what its keeper left unfinished (RUNTIME_LOST), and removes what it left lying about."""

    def __init__(self, make: Callable[[Place], Awaitable[Grave]], most: int = OPEN_GRAVES) -> None:
        self._make, self._most = make, most
        self._open: OrderedDict[str, Grave] = OrderedDict()
        self._moving: dict[str, asyncio.Lock] = {}
        self._reserving: dict[str, asyncio.Lock] = {}
        self._reserved: set[str] = set()

    @contextlib.asynccontextmanager
    async def visit(self, place: Place) -> AsyncIterator[Grave]:
        """For as long as it is used. Raises what opening it does, and Moved."""
        grave = await self.hold(place)
        try:
            yield grave
        finally:
            grave.let_go()

    async def hold(self, place: Place) -> Grave:
        """The same for who can't use a block: `let_go` is to be called when it is not used any more."""
        async with self._lock(place.runtime):
            reserved = place.runtime in self._reserved
            grave = None if reserved else self._open.get(place.runtime)
            if grave is not None and not grave.is_open:
                del self._open[place.runtime]
                await grave.close()
                grave = None
            if grave is None and not reserved:
                grave = await self._make(place)
                place.forget_socket()
                if not place.is_over:
                    place.mark_over()
                self._open[place.runtime] = grave
            if grave is not None:
                self._open.move_to_end(place.runtime)
                grave.uses += 1
        if grave is None:
            async with self._reserving[place.runtime]:
                raise Moved
        await self._trim()
        return grave

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
                await grave.close()

    def _lock(self, runtime: str) -> asyncio.Lock:
        return self._moving.setdefault(runtime, asyncio.Lock())

    async def close(self) -> None:
        """Close them all."""
        for runtime in list(self._open):
            try:
                await self._close_one(runtime, unused=False)
            except Exception:
                _logger.exception("the house of a dead keeper could not be closed well", runtime=runtime)
