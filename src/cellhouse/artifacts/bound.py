"""A store as one scope sees it: what a house hands out as `artifacts`."""

from collections.abc import Sequence

from cellhouse.artifacts.checks import KIND_FILE, OCTETS
from cellhouse.artifacts.store import ArtifactReading, ArtifactStore, Data, Scope
from cellhouse.model import ArtifactEvictionList, ArtifactList, StoredArtifact


class BoundStore:
    """The methods of an `ArtifactStore`, without the scope."""

    def __init__(self, store: ArtifactStore, scope: Scope) -> None:
        """The store is its owner's to close."""
        self.store, self.scope = store, scope

    async def put(
        self,
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
        """Keep bytes under a new ref."""
        return await self.store.put(
            self.scope,
            data,
            kind=kind,
            media_type=media_type,
            label=label,
            origin=origin,
            parents=parents,
            ttl=ttl,
            sha256=sha256,
        )

    async def head(self, ref: str) -> StoredArtifact:
        """What is known of it. NOT_FOUND."""
        return await self.store.head(self.scope, ref)

    async def get(self, ref: str, *, start: int = 0, end: int | None = None) -> ArtifactReading:
        """Its bytes, or some of them; to be closed by the caller (`async with await artifacts.get(ref) as reading`)."""
        return await self.store.get(self.scope, ref, start=start, end=end)

    async def delete(self, ref: str) -> None:
        """It is not there any more. NOT_FOUND."""
        await self.store.delete(self.scope, ref)

    async def list(
        self, *, kind: str = "", origin: str = "", page_size: int = 0, page_token: str = ""
    ) -> ArtifactList:
        """A page, newest first."""
        return await self.store.list(
            self.scope, kind=kind, origin=origin, page_size=page_size, page_token=page_token
        )

    async def evictions(self, *, page_size: int = 0, page_token: str = "") -> ArtifactEvictionList:
        """What retention took away, newest first."""
        return await self.store.evictions(self.scope, page_size=page_size, page_token=page_token)
