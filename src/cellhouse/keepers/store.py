"""The artifact store of a KeptHouse: the tenant's own, which adopts what keepers have minted as soon as it is asked for."""

import contextlib
from collections.abc import Sequence

from cellhouse.artifacts import (
    KIND_FILE,
    OCTETS,
    ArtifactReading,
    ArtifactStore,
    Data,
    Scope,
)
from cellhouse.keepers.adoption import Adoption
from cellhouse.model import (
    ArtifactEviction,
    ArtifactEvictionList,
    ArtifactList,
    CellhouseError,
    NotFound,
    StoredArtifact,
)


class KeptStore:
    """An `ArtifactStore`. What it hands out has been checked and is in the tenant's store by then."""

    def __init__(self, own: ArtifactStore, adoption: Adoption) -> None:
        """Both are their owner's to close."""
        self._own, self._adoption = own, adoption

    async def put(
        self,
        scope: Scope,
        data: Data,
        *,
        kind: str = KIND_FILE,
        media_type: str = OCTETS,
        label: str = "",
        origin: str = "",
        parents: Sequence[str] = (),
        ttl: float | None = None,
        sha256: str = "",
    ) -> StoredArtifact:
        for parent in parents:
            with contextlib.suppress(CellhouseError):  # told by the store itself
                await self.head(scope, parent)
        return await self._own.put(
            scope,
            data,
            kind=kind,
            media_type=media_type,
            label=label,
            origin=origin,
            parents=parents,
            ttl=ttl,
            sha256=sha256,
        )

    async def head(self, scope: Scope, ref: str) -> StoredArtifact:
        try:
            return await self._own.head(scope, ref)
        except NotFound:
            if not await self._adoption.find(ref):
                raise
        return await self._own.head(scope, ref)

    async def get(self, scope: Scope, ref: str, *, start: int = 0, end: int | None = None) -> ArtifactReading:
        await self.head(scope, ref)
        return await self._own.get(scope, ref, start=start, end=end)

    async def delete(self, scope: Scope, ref: str) -> None:
        await self.head(scope, ref)
        await self._own.delete(scope, ref)

    async def list(
        self, scope: Scope, *, kind: str = "", origin: str = "", page_size: int = 0, page_token: str = ""
    ) -> ArtifactList:
        if not page_token:
            await self._adoption.catch_up()
        return await self._own.list(
            scope, kind=kind, origin=origin, page_size=page_size, page_token=page_token
        )

    async def evictions(
        self, scope: Scope, *, page_size: int = 0, page_token: str = ""
    ) -> ArtifactEvictionList:
        if not page_token:
            await self._adoption.catch_up()
        return await self._own.evictions(scope, page_size=page_size, page_token=page_token)

    async def evict(self) -> tuple[ArtifactEviction, ...]:
        await self._adoption.catch_up()
        return await self._own.evict()

    async def close(self) -> None:
        self._adoption.stop()
