"""The interface of an artifact store. `cellhouse.artifacts.testing` holds an implementation against it."""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeAlias

from cellhouse.model import ArtifactEviction, ArtifactEvictionList, ArtifactList, StoredArtifact

Data: TypeAlias = bytes | Iterable[bytes] | AsyncIterable[bytes]
"""What is put: all at once, or by pieces, which are taken one at a time and never kept together."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose an artifact is. Only exactly the same scope sees it; an empty principal is the tenant as a whole."""

    tenant: str
    principal: str = ""


class ArtifactReading(Protocol):
    """Bytes `start` to before `end` of one artifact, which is there until this is closed, whatever becomes of it meanwhile.

    An async context manager and an async iterator of pieces. The last piece comes only once the SHA-256 of the whole
    artifact was found right; INTERNAL, ARTIFACT_DAMAGED, where it is not. May be iterated once.
    """

    @property
    def artifact(self) -> StoredArtifact: ...

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def read(self) -> bytes:
        """All of it, in memory."""

    async def close(self) -> None:
        """Let go of it. May be called twice."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class ArtifactStore(Protocol):
    """Keeps artifacts. The scope comes first everywhere.

    To a caller, an artifact of another scope, one that never was, one that was deleted, evicted or has expired are the
    same: NOT_FOUND, NO_SUCH_ARTIFACT, in the same words. Anything that is no ref is INVALID_ARGUMENT.
    """

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
        """Keep bytes under a new ref; the same bytes put twice are two artifacts.

        It can be had once this returns, whole, and never in part. `ttl` is seconds until it expires, no longer than the store
        keeps anything. `parents` must be refs of this scope (NOT_FOUND). INVALID_ARGUMENT where the bytes have
        another SHA-256 than the one given. RESOURCE_EXHAUSTED where it is larger than one may be, or the disk is full;
        what stood in the store before is untouched by a put that fails. Where more than the store keeps is there
        afterwards, the oldest of the tenant are evicted, never the one just put.
        """

    async def head(self, scope: Scope, ref: str) -> StoredArtifact:
        """What is known of it, without its bytes."""

    async def get(self, scope: Scope, ref: str, *, start: int = 0, end: int | None = None) -> ArtifactReading:
        """Bytes `start` to before `end` (None, or past it: the end). INVALID_ARGUMENT where it begins past the end."""

    async def delete(self, scope: Scope, ref: str) -> None:
        """It is not there any more; whoever is reading it reads on."""

    async def list(
        self, scope: Scope, *, kind: str = "", origin: str = "", page_size: int = 0, page_token: str = ""
    ) -> ArtifactList:
        """A page, newest first, at most 1,000 (0: 100); of one kind or one execution only where that is asked for."""

    async def evictions(
        self, scope: Scope, *, page_size: int = 0, page_token: str = ""
    ) -> ArtifactEvictionList:
        """What retention took away, newest first. Deleting is no eviction."""

    async def evict(self) -> tuple[ArtifactEviction, ...]:
        """Remove what has expired or is more than is kept, oldest first. The store's owner calls it now and then."""

    async def close(self) -> None:
        """Let go of everything; what was put stays. May be called twice."""
