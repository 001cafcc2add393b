"""A store as a third party could write one: whatever the suite asks of it can be had without ours."""

import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Self

from cellhouse.artifacts.checks import Facts, no_such, other_digest, page_of, range_of, too_large
from cellhouse.artifacts.store import ArtifactReading, Data, Scope
from cellhouse.model import (
    ArtifactEviction,
    ArtifactEvictionList,
    ArtifactLimits,
    ArtifactList,
    Clock,
    StoredArtifact,
    check_artifact_id,
    mint_artifact_id,
    rfc3339,
)


class MemoryReading:
    def __init__(self, artifact: StoredArtifact, data: bytes, start: int, end: int) -> None:
        self.artifact, self.start, self.end = artifact, start, end
        self._data = data[start:end]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._data), 1 << 16):
            yield self._data[at : at + (1 << 16)]

    async def read(self) -> bytes:
        return self._data

    async def close(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


@dataclass(frozen=True)
class Kept:
    scope: Scope
    document: StoredArtifact
    data: bytes
    aged: bool


class MemoryStore:
    def __init__(self, clock: Clock, limits: ArtifactLimits) -> None:
        self._clock, self._limits = clock, limits
        self._kept: dict[str, Kept] = {}
        self._places: dict[str, int] = {}
        self._evicted: list[tuple[Scope, ArtifactEviction]] = []

    async def put(
        self,
        scope: Scope,
        data: Data,
        *,
        kind: str = "file",
        media_type: str = "application/octet-stream",
        label: str = "",
        origin: str = "",
        parents: Sequence[str] = (),
        ttl: float | None = None,
        sha256: str = "",
    ) -> StoredArtifact:
        facts = Facts(kind, media_type, label, origin, parents, ttl, sha256)
        for parent in parents:
            await self.head(scope, parent)
        content = await _whole(data)
        if len(content) > self._limits.artifact_bytes:
            raise too_large(self._limits.artifact_bytes)
        digest = hashlib.sha256(content).hexdigest()
        if facts.sha256 and facts.sha256.lower() != digest:
            raise other_digest(digest, facts.sha256)
        now = self._clock.now()
        aged = ttl is None or ttl >= self._limits.age_seconds
        seconds = self._limits.age_seconds if aged else ttl or 0.0
        document = StoredArtifact(
            ref=mint_artifact_id(),
            kind=kind,
            media_type=media_type,
            bytes=len(content),
            sha256=digest,
            label=label,
            origin=origin or None,
            parents=tuple(parents) or None,
            create_time=rfc3339(now),
            expire_time=rfc3339(now + timedelta(seconds=seconds)),
        )
        self._places[document.ref] = len(self._places)
        self._kept[document.ref] = Kept(scope, document, content, aged)
        self._shrink(scope.tenant)
        return document

    async def head(self, scope: Scope, ref: str) -> StoredArtifact:
        return self._find(scope, ref).document

    async def get(self, scope: Scope, ref: str, *, start: int = 0, end: int | None = None) -> ArtifactReading:
        kept = self._find(scope, ref)
        first, last = range_of(start, end, len(kept.data))
        return MemoryReading(kept.document, kept.data, first, last)

    async def delete(self, scope: Scope, ref: str) -> None:
        self._find(scope, ref)
        del self._kept[ref]

    async def list(
        self, scope: Scope, *, kind: str = "", origin: str = "", page_size: int = 0, page_token: str = ""
    ) -> ArtifactList:
        size, below = page_of(page_size, page_token)
        found = [
            each.document
            for each in reversed(self._kept.values())
            if each.scope == scope
            and not self._expired(each)
            and (not kind or each.document.kind == kind)
            and (not origin or each.document.origin == origin)
            and (below is None or self._places[each.document.ref] < below)
        ]
        token = str(self._places[found[size - 1].ref]) if len(found) > size else ""
        return ArtifactList(artifacts=tuple(found[:size]), next_page_token=token)

    async def evictions(
        self, scope: Scope, *, page_size: int = 0, page_token: str = ""
    ) -> ArtifactEvictionList:
        size, below = page_of(page_size, page_token)
        mine = [each for of, each in self._evicted if of == scope]
        end = len(mine) if below is None else below
        start = max(0, end - size)
        return ArtifactEvictionList(
            evictions=tuple(reversed(mine[start:end])), next_page_token=str(start) if start else ""
        )

    async def evict(self) -> tuple[ArtifactEviction, ...]:
        before = len(self._evicted)
        for kept in [each for each in self._kept.values() if self._expired(each)]:
            self._bury(kept, "AGE" if kept.aged else "EXPIRED")
        for tenant in {each.scope.tenant for each in self._kept.values()}:
            self._shrink(tenant)
        return tuple(each for _, each in self._evicted[before:])

    async def close(self) -> None:
        pass

    # within

    def _find(self, scope: Scope, ref: str) -> Kept:
        kept = self._kept.get(check_artifact_id(ref))
        if kept is None or kept.scope != scope or self._expired(kept):
            raise no_such(ref)
        return kept

    def _expired(self, kept: Kept) -> bool:
        return (kept.document.expire_time or "") <= rfc3339(self._clock.now())

    def _shrink(self, tenant: str) -> None:
        while True:
            mine = [each for each in self._kept.values() if each.scope.tenant == tenant]
            many = len(mine) > self._limits.count
            if not many and sum(len(each.data) for each in mine) <= self._limits.bytes:
                return
            self._bury(mine[0], "COUNT" if many else "BYTES")

    def _bury(self, kept: Kept, reason: str) -> None:
        document = kept.document
        del self._kept[document.ref]
        fact = ArtifactEviction(
            ref=document.ref,
            kind=document.kind,
            label=document.label,
            bytes=document.bytes,
            reason=reason,
            create_time=document.create_time,
            evict_time=rfc3339(self._clock.now()),
        )
        self._evicted.append((kept.scope, fact))


async def _whole(data: Data) -> bytes:
    if isinstance(data, bytes):
        return data
    if isinstance(data, AsyncIterable):
        return b"".join([piece async for piece in data])
    return b"".join(data)
