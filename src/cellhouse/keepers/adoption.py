"""Adopting what keepers have minted that may not write the tenant's store: into that store, by the service, checked like a stranger's."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

from cellhouse.artifacts import HandedOver, LocalStore, Scope, Unfit, is_sealed
from cellhouse.files.threads import in_thread
from cellhouse.keepers.place import ARTIFACTS, Place, places
from cellhouse.model import CellhouseError, Clock, InvalidArgument, StoredArtifact, parse_rfc3339, rfc3339
from cellhouse.runtime import Settings
from cellhouse.runtime.logs import logger

_logger = logger()

AT_ONCE: Final = 10_000
"""Names of one directory that are looked at in a turn."""
REFUSALS: Final = 1_000
"""Of one runtime that are noted down among the evictions; more are only counted, for those of others are to stay."""


CATCH_UP_SECONDS: Final = 5.0
"""Who asks for all waits so long at most: a keeper can hand over more than can be copied."""

Begin = Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"]


class Adoption:
    """Belongs to one event loop. Artifacts outlive their runtime: what a keeper has left is looked for, too."""

    def __init__(self, store: LocalStore, settings: Settings, clock: Clock, begin: Begin) -> None:
        """`store` is its owner's to close; what `begin` begins has ended by then."""
        self._store, self._settings, self._clock, self._begin = store, settings, clock, begin
        self._turn: asyncio.Task[None] | None = None
        self._scope = Scope(settings.tenant)
        self._moving: dict[str, asyncio.Lock] = {}
        self._refused: dict[str, int] = {}
        # Directories that are over and were seen to the end: when they ended.
        self._done: dict[str, int] = {}
        self._stopped = False

    def stop(self) -> None:
        """What is under way is ended, and nothing new begun; the next service goes on."""
        self._stopped = True

    @contextlib.asynccontextmanager
    async def paused(self, runtime: str) -> AsyncIterator[None]:
        """Nothing of this one's is adopted meanwhile: its directory is given to another user."""
        async with self._moving.setdefault(runtime, asyncio.Lock()):
            yield

    async def find(self, ref: str) -> bool:
        """Adopt this one; False where no keeper has it. RESOURCE_EXHAUSTED where there is no room."""
        place = await asyncio.to_thread(self._whose, ref)
        return place is not None and await self._one(place, ref)

    def _whose(self, ref: str) -> Place | None:
        """The only one whose keeper can have minted it."""
        for place in places(self._settings.state_dir):
            if (key := place.mint_key()) is not None and is_sealed(ref, key):
                return place
        return None

    async def catch_up(self) -> None:
        """Adopt what all keepers, living and dead, have put by up to now; as far as there is time for it, then beside."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_SECONDS):
                if (before := self._turn) is not None:
                    await asyncio.shield(before)
                turn = self._turn
                if turn is None or turn is before:
                    turn = self._turn = self._begin(self._all(), "adopt artifacts")
                await asyncio.shield(turn)

    async def _all(self) -> None:
        for place, ended in await asyncio.to_thread(self._unseen):
            if await self.of(place) and ended is not None:
                self._done[place.runtime] = ended

    def _unseen(self) -> list[tuple[Place, int | None]]:
        """Those in which there may be something, and when they ended."""
        found = [(place, _ended(place)) for place in places(self._settings.state_dir)]
        return [
            (place, ended)
            for place, ended in found
            if ended is None or self._done.get(place.runtime) != ended
        ]

    async def of(self, place: Place) -> bool:
        """Adopt what there is of one keeper; False where some had to be left for later, which is logged."""
        # One that lives could hand over for ever.
        turns = 2 + self._settings.artifacts.count // AT_ONCE if place.is_over else 1
        try:
            for _ in range(turns):
                refs = await asyncio.to_thread(self._refs, place)
                for ref in refs:
                    if self._stopped:
                        return False
                    await self._one(place, ref)
                if not refs:
                    break
        except (CellhouseError, OSError) as error:
            _logger.error("artifacts of a keeper could not be adopted", runtime=place.runtime, why=str(error))
            return False
        return True

    def _refs(self, place: Place) -> list[str]:
        handed = HandedOver.open(place.directory, ARTIFACTS)
        if handed is None:
            return []
        with handed:
            return handed.refs(AT_ONCE)

    async def _one(self, place: Place, ref: str) -> bool:
        """Whether it is not there any more: in the store now, or refused."""
        async with self.paused(place.runtime):
            handed = HandedOver.open(place.directory, ARTIFACTS)
            if handed is None:
                return False
            with handed:
                try:
                    if not await self._take(handed, place, ref):
                        return False
                except Unfit as error:
                    await self._refuse(place, ref, error)
                await in_thread(handed.remove, ref)
                return True

    async def _take(self, handed: HandedOver, place: Place, ref: str) -> bool:
        """Whether it was there. Unfit."""
        key = await asyncio.to_thread(place.mint_key)
        if key is None or not is_sealed(ref, key):
            raise Unfit("FOREIGN", "its ref was not minted by this keeper")
        if await self._store.has(ref):
            return True  # adopted by who died before it was removed
        told = await in_thread(handed.told, ref, place.runtime)
        if told is None:
            return False
        limits, now = self._settings.artifacts, self._clock.now()
        if told.bytes > min(limits.artifact_bytes, limits.bytes):
            raise Unfit("BYTES", f"it has {told.bytes} bytes", told)
        if (now - parse_rfc3339(told.create_time)).total_seconds() >= limits.age_seconds:
            raise Unfit("AGE", "it is older than is kept", told)
        try:
            async with contextlib.aclosing(handed.pieces(told)) as pieces:
                await self._store.adopt(self._scope, told, pieces)
        except InvalidArgument as error:
            raise Unfit("DAMAGED", error.message, told) from error
        return True

    async def _refuse(self, place: Place, ref: str, error: Unfit) -> None:
        count = self._refused[place.runtime] = self._refused.get(place.runtime, 0) + 1
        if count > REFUSALS:
            return
        _logger.error(
            "an artifact of a keeper is not adopted",
            runtime=place.runtime,
            ref=ref,
            reason=error.reason,
            why=str(error),
        )
        if error.reason == "FOREIGN":
            return  # whose it is, if anybody's, is nothing that this keeper could tell
        now = rfc3339(self._clock.now())
        told = error.what or StoredArtifact(
            ref=ref, kind="file", media_type="", bytes=0, sha256="", create_time=now
        )
        await self._store.refuse(self._scope, told, error.reason)


def _ended(place: Place) -> int | None:
    """When it was marked as over."""
    if not place.is_over:
        return None
    with contextlib.suppress(FileNotFoundError):
        return place.over_mark.lstat().st_mtime_ns
    return None
