"""KeptHouse: a house whose runtimes live each in a keeper; what is here is only the way to them."""

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Self

from cellhouse.house import House
from cellhouse.keepers.eviction import Eviction
from cellhouse.keepers.forking import Template
from cellhouse.keepers.kept_executions import KeptExecutions
from cellhouse.keepers.kept_files import KeptFiles
from cellhouse.keepers.kept_runtimes import KeptRuntimes
from cellhouse.keepers.kept_sessions import KeptSessions
from cellhouse.keepers.reader import KeptReader
from cellhouse.keepers.router import Router
from cellhouse.model import (
    Clock,
    SystemClock,
)
from cellhouse.runtime import Settings
from cellhouse.runtime.answering import answering
from cellhouse.runtime.requests import CreateRequests


class KeptHouse(KeptRuntimes, KeptExecutions, KeptSessions, KeptFiles):
    """`keepers.surface.AnyHouse` over one state directory. An async context manager, owned by one event loop.

    Closing it ends all runtimes; `leave` lets them go on for the next one on the same directory. It may die at any moment:
    then they go on, too. Two on one directory: the second is refused, and told who has it.
    """

    def __init__(
        self, settings: Settings, *, clock: Clock | None = None, template: Template | None = None
    ) -> None:
        """A template that is given is shared, and is its owner's to close."""
        self._settings, self._clock = settings, clock or SystemClock()
        self._template = template or Template()
        self._own_template = template is None
        self._root = House(settings=settings, clock=self._clock)
        self._router: Router
        self._reader: KeptReader
        self._requests: CreateRequests
        self._eviction: Eviction
        self._open = self._draining = False
        self._ending: asyncio.Task[None] | None = None

    @property
    def state_dir(self) -> Path:
        return self._settings.state_dir

    async def __aenter__(self) -> Self:
        await self._root.__aenter__()
        try:
            self._template.start()
            self._router = Router(self._root, self._settings, self._clock, self._template)
            self._reader = KeptReader(self._router)
            self._requests = CreateRequests()
            for runtime, request in (await self._router.find()).items():
                self._requests.remember(request, runtime)
        except BaseException:
            if self._own_template:
                self._template.close()
            await self._root.close()
            raise
        self._eviction = Eviction(self._router, self._settings, self._clock)
        self._eviction.start()
        self._ending, self._draining, self._open = None, False, True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @answering
    async def close(self) -> None:
        """End every runtime and its keeper. May be called twice, and after `leave`."""
        await self._end(keep=False)

    @answering
    async def leave(self) -> bool:
        """Let go of everything; the runtimes go on, and the next house on this directory has them."""
        await self._end(keep=True)
        return True

    async def _end(self, *, keep: bool) -> None:
        if self._open:
            self._open = False
            self._ending = asyncio.get_running_loop().create_task(self._end_once(keep), name="close")
        if self._ending is not None:
            await asyncio.shield(self._ending)

    async def _end_once(self, keep: bool) -> None:
        try:
            await self._eviction.stop()
            await (self._router.leave() if keep else self._router.close())
        finally:
            if self._own_template:
                await asyncio.to_thread(self._template.close)
            await self._root.close()
