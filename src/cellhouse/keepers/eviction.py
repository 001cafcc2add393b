"""Retention over keepers that are over: their records go as a house's do, and what holds nothing any more goes whole."""

import asyncio
import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from cellhouse.house import House
from cellhouse.keepers.calls import EVICT
from cellhouse.keepers.graves import ReadByAnother
from cellhouse.keepers.place import Place, places
from cellhouse.keepers.router import Router
from cellhouse.model import CellhouseError, Clock
from cellhouse.runtime import Settings
from cellhouse.runtime.logs import logger
from cellhouse.runtime.store import remove_tree

_logger = logger()

EVICT_SECONDS: Final = 60.0
ALL_BYTES: Final = 1
"""A limit that no record keeps within: all of them go, each leaving its tombstone."""


class Eviction:
    """Looks now and then. A living keeper's house sees to itself, with the same limits."""

    def __init__(self, router: Router, settings: Settings, clock: Clock) -> None:
        self._router, self._settings, self._clock = router, settings, clock
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        # What was measured, and what was looked through already: nothing changes in a directory that is over.
        self._bytes: dict[str, tuple[float, int]] = {}
        self._swept: set[str] = set()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._now_and_then(), name="evict keepers")

    async def stop(self) -> None:
        self._stop.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _now_and_then(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), EVICT_SECONDS)
                return
            try:
                await self.evict()
            except (CellhouseError, OSError):
                _logger.exception("eviction failed; it is tried again later")

    async def evict(self) -> None:
        """Once through all that are over, the one that ended first first; before that, artifacts have left their keepers."""
        await self._router.adoption.catch_up()
        retention = self._settings.retention
        now = self._clock.now().timestamp()
        over = await asyncio.to_thread(self._over)
        total = sum(size for _, _, size in over)
        for ended, place, size in sorted(over, key=lambda each: each[0]):
            if self._stop.is_set() or place.runtime in self._router.living | self._router.creating:
                continue
            if ended < now - retention.age_seconds - retention.tombstone_age_seconds:
                if not await self._router.adoption.of(place):
                    continue
                async with self._router.graves.reserved(place.runtime):
                    if place.is_over:
                        await asyncio.to_thread(remove_tree, place.directory)
                self._bytes.pop(place.runtime, None)
            elif total > retention.bytes:
                await self._sweep(place, ALL_BYTES)
                total -= size
                self._bytes.pop(place.runtime, None)
            elif ended < now - retention.age_seconds and place.runtime not in self._swept:
                await self._sweep(place, int(retention.bytes))
                self._swept.add(place.runtime)

    async def _sweep(self, place: Place, most: int) -> None:
        """Open its house with these limits: what exceeds them goes at once."""
        if place.user() is not None:
            async with self._router.graves.reserved(place.runtime):
                if place.is_over and place.runtime not in self._router.living:
                    grave = ReadByAnother(await self._router.read(place, evict=most))
                    try:
                        await grave.ask(EVICT, {})
                    finally:
                        await grave.close()
                        place.forget_socket()
            return
        limits = replace(self._settings.retention, bytes=most)
        house = House(
            settings=replace(self._settings, state_dir=place.directory, retention=limits), clock=self._clock
        )
        async with self._router.graves.reserved(place.runtime):
            if place.is_over and place.runtime not in self._router.living:
                async with house:
                    await house.evict()

    def _over(self) -> list[tuple[float, Place, int]]:
        """(when it ended, where, bytes of its records)."""
        found = []
        for place in places(self._settings.state_dir):
            with contextlib.suppress(FileNotFoundError):
                ended = place.over_mark.stat().st_mtime
                known = self._bytes.get(place.runtime)
                if known is None or known[0] != ended:
                    known = self._bytes[place.runtime] = (ended, _size(place.directory / "journal"))
                found.append((ended, place, known[1]))
        return found


def _size(directory: Path) -> int:
    total = 0
    for at, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(os.path.join(at, name)).st_size
    return total
