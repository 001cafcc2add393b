"""How much there is in a house with keepers; and waiting until nothing more runs."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from cellhouse.house import DRAIN_GRACE
from cellhouse.keepers import calls
from cellhouse.keepers.calls import Method
from cellhouse.keepers.living import Living
from cellhouse.keepers.part import KeptPart
from cellhouse.keepers.pieces import LinkLost
from cellhouse.keepers.surface import Census
from cellhouse.model import (
    CellhouseError,
)
from cellhouse.runtime.answering import answering
from cellhouse.runtime.host import Kernels, NetworkCounts


class KeptCounts(KeptPart):
    """The part of `KeptHouse` that asks all keepers at once; see House."""

    @answering
    async def census(self) -> Census:
        self._check_open()
        unfinished, kernels = await asyncio.gather(self._unfinished(), self._kernels())
        keepers = tuple(living.pid for living in self._router.living.values())
        return Census(
            len(keepers),
            unfinished,
            sum(each.living for each, _ in kernels),
            sum(each.ahead for each, _ in kernels),
            keepers,
            sum((network for _, network in kernels), NetworkCounts()),
        )

    async def _kernels(self) -> list[tuple[Kernels, NetworkCounts]]:
        """Of each keeper; none of one that is about to end, or is of a version that does not tell."""
        found: list[tuple[Kernels, NetworkCounts]] = []

        async def one(living: Living) -> None:
            with contextlib.suppress(CellhouseError, LinkLost):
                found.append(calls.KERNELS.decode(await living.link.call(calls.KERNELS.name, {})))

        await asyncio.gather(*map(one, list(self._router.living.values())))
        return found

    async def _unfinished(self) -> int:
        """As of now; asked of all."""
        await self._of_all(calls.UNFINISHED, {})
        return sum(living.unfinished for living in self._router.living.values())

    async def _of_all(self, method: Method[Any], arguments: Mapping[str, Any]) -> None:
        async def one(runtime: str) -> None:
            living = self._router.living.get(runtime)
            with contextlib.suppress(CellhouseError, LinkLost):  # it is about to end
                if living is not None:
                    answer = await living.link.call(method.name, arguments)
                    if method is calls.UNFINISHED:
                        living.unfinished = len(answer)

        await asyncio.gather(*map(one, list(self._router.living)))

    @answering
    async def drain(self, *, seconds: float, grace: float = DRAIN_GRACE) -> None:
        """See House."""
        self._check_open()
        self._draining = True
        if self._router.creating:
            await asyncio.wait(self._router.creating.values())
        await self._of_all(calls.DRAIN, {"seconds": seconds, "grace": grace})
