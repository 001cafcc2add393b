"""What every part of a house with keepers stands on: its way to them, and whether it is open."""

import asyncio
from abc import ABC
from typing import Any, TypeVar

from cellhouse.house import House
from cellhouse.keepers.calls import Method
from cellhouse.keepers.reader import KeptReader
from cellhouse.keepers.router import Router
from cellhouse.model import ExecutionName, RuntimeName, SessionName
from cellhouse.runtime import Settings
from cellhouse.runtime.answering import NotOpened
from cellhouse.runtime.refusals import house_closed, house_drains

R = TypeVar("R")


class KeptPart(ABC):
    """`KeptHouse` without what can be asked of it: its parts add that, each for one kind of resource."""

    _settings: Settings
    _root: House
    _router: Router
    _reader: KeptReader
    _open: bool
    _draining: bool
    _ending: asyncio.Task[None] | None

    async def _of_runtime(self, name: str, method: Method[R], **arguments: Any) -> R:
        self._check_open()
        parsed = RuntimeName.parse(name)
        return await self._router.ask(parsed.runtime, method, {"name": str(parsed), **arguments})

    async def _of_session(self, name: str, method: Method[R], **arguments: Any) -> R:
        self._check_open()
        parsed = SessionName.parse(name)
        return await self._router.ask(parsed.runtime, method, {"name": str(parsed), **arguments})

    async def _of_execution(self, name: str, method: Method[R], **arguments: Any) -> R:
        self._check_open()
        parsed = ExecutionName.parse(name)
        return await self._router.ask(parsed.runtime, method, {"name": str(parsed), **arguments})

    def _check_accepting(self) -> None:
        self._check_open()
        if self._draining:
            raise house_drains()

    def _check_open(self) -> None:
        if self._ending is not None:
            raise house_closed()
        if not self._open:
            raise NotOpened(
                "this KeptHouse is not open; use it as `async with KeptHouse(settings) as house:`"
            )
