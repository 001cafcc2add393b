"""A store in a local directory: one file an artifact, and a catalogue. Several processes may use one directory."""

import asyncio
import contextlib
import hashlib
import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from cellhouse.artifacts.catalogue import BATCH, Catalogue, Row
from cellhouse.artifacts.checks import Facts, no_such, other_digest, page_of, range_of, too_large
from cellhouse.artifacts.handover import blob_path, mint_sealed, note_path, write_note
from cellhouse.artifacts.reading import FileReading, Verified
from cellhouse.artifacts.store import ArtifactReading, Data, Scope
from cellhouse.files import DiskFull, disk_full_named, sync_dir, write_all
from cellhouse.files.threads import in_thread
from cellhouse.model import (
    AlreadyExists,
    ArtifactEviction,
    ArtifactEvictionList,
    ArtifactLimits,
    ArtifactList,
    CallReason,
    Clock,
    Internal,
    ResourceExhausted,
    StoredArtifact,
    SystemClock,
    check_artifact_id,
    mint_artifact_id,
    parse_rfc3339,
    rfc3339,
)

BLOCK: Final = 1 << 20
INCOMING_SECONDS: Final = 86_400.0
"""After so long, what was never put in place is taken for what a dead process left."""

P = ParamSpec("P")
T = TypeVar("T")


class LocalStore:
    """An `ArtifactStore`. Opened by its first use, so that one that nobody uses costs nothing.

    `<directory>/catalogue.sqlite` says what there is, `<directory>/blobs/xx/<ref>` holds the bytes, and what is being put
    stands in `<directory>/incoming` until it is whole. With `durable` an artifact survives power loss once it was put.
    """

    def __init__(
        self,
        directory: Path,
        *,
        limits: ArtifactLimits | None = None,
        clock: Clock | None = None,
        durable: bool = False,
        handing_over: bytes = b"",
    ) -> None:
        """With a key in `handing_over`, what is put is put by for the owner of another store, who has the key too."""
        self._handing_over = handing_over
        self._directory, self._limits = directory, limits or ArtifactLimits()
        self._clock, self._durable = clock or SystemClock(), durable
        self._opening = threading.Lock()
        self._opened: Catalogue | None = None
        self._verified = Verified()
        self._swept = False

    # The interface

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
        facts = Facts(kind, media_type, label, origin, tuple(parents), ttl, sha256.lower())
        for parent in facts.parents:
            await self.head(scope, parent)
        ref = mint_sealed(self._handing_over) if self._handing_over else mint_artifact_id()
        return await self._take_in(scope, data, facts, ref)

    async def adopt(self, scope: Scope, told: StoredArtifact, data: Data) -> StoredArtifact:
        """Keep bytes that another store has had, under the ref and with the age that they had there. Its owner's to call.

        ALREADY_EXISTS where the ref is taken. Else as `put`, which an artifact of another's store is no reason not to be
        careful with: INVALID_ARGUMENT where the bytes have another SHA-256 than is told.
        """
        if await self.has(told.ref):
            raise AlreadyExists(f"{told.ref} is taken", reason=CallReason.ID_TAKEN)
        facts = Facts(
            told.kind, told.media_type, told.label, told.origin or "", told.parents or (), None, told.sha256
        )
        created = min(parse_rfc3339(told.create_time), self._clock.now())
        return await self._take_in(scope, data, facts, told.ref, created)

    async def has(self, ref: str) -> bool:
        """Whether the ref is taken, whoever's it is. Its owner's to ask."""
        return bool(await self._in_thread(lambda: self._catalogue().known([ref])))

    async def refuse(self, scope: Scope, told: StoredArtifact, reason: str) -> None:
        """Note down that this one was not adopted, among what retention took away."""
        refused = ArtifactEviction(
            ref=told.ref,
            kind=told.kind,
            label=told.label,
            bytes=told.bytes,
            reason=reason,
            create_time=told.create_time,
            evict_time=self._now(),
        )
        await self._in_thread(lambda: self._catalogue().tell(scope, refused))

    async def _take_in(
        self, scope: Scope, data: Data, facts: Facts, ref: str, created: datetime | None = None
    ) -> StoredArtifact:
        incoming = await self._in_thread(self._begin)
        try:
            async for block in _blocks(data):
                if incoming.size + len(block) > min(self._limits.artifact_bytes, self._limits.bytes):
                    raise too_large(int(min(self._limits.artifact_bytes, self._limits.bytes)))
                await self._in_thread(incoming.write, block)
            if facts.sha256 and facts.sha256 != incoming.sha256:
                raise other_digest(incoming.sha256, facts.sha256)
            return await self._in_thread(self._keep, scope, facts, incoming, ref, created)
        finally:
            await in_thread(incoming.discard)

    async def head(self, scope: Scope, ref: str) -> StoredArtifact:
        check_artifact_id(ref)
        return (await self._in_thread(self._find, scope, ref)).document()

    async def get(self, scope: Scope, ref: str, *, start: int = 0, end: int | None = None) -> ArtifactReading:
        check_artifact_id(ref)
        row = await self._in_thread(self._find, scope, ref)
        first, last = range_of(start, end, row.bytes)
        reading = await self._in_thread(self._open, row, first, last)
        try:
            if reading.is_part:
                await reading.verify()
        except BaseException:
            await reading.close()
            raise
        return reading

    async def delete(self, scope: Scope, ref: str) -> None:
        check_artifact_id(ref)
        await self._in_thread(self._delete, scope, ref)

    async def list(
        self, scope: Scope, *, kind: str = "", origin: str = "", page_size: int = 0, page_token: str = ""
    ) -> ArtifactList:
        size, below = page_of(page_size, page_token)

        def page() -> list[Row]:
            return self._catalogue().page(
                scope, kind=kind, origin=origin, below=below, size=size + 1, now=self._now()
            )

        rows = await self._in_thread(page)
        token = str(rows[size - 1].place) if len(rows) > size else ""
        return ArtifactList(artifacts=tuple(row.document() for row in rows[:size]), next_page_token=token)

    async def evictions(
        self, scope: Scope, *, page_size: int = 0, page_token: str = ""
    ) -> ArtifactEvictionList:
        size, below = page_of(page_size, page_token)
        found = await self._in_thread(lambda: self._catalogue().evictions(scope, below, size + 1))
        token = str(found[size - 1][0]) if len(found) > size else ""
        return ArtifactEvictionList(evictions=tuple(each for _, each in found[:size]), next_page_token=token)

    async def evict(self) -> tuple[ArtifactEviction, ...]:
        if self._opened is None and not await asyncio.to_thread(self._directory.is_dir):
            return ()  # nobody ever put anything
        return tuple(await self._in_thread(self._evict))

    async def close(self) -> None:
        catalogue, self._opened = self._opened, None
        if catalogue is not None:
            await in_thread(catalogue.close)

    # In threads

    async def _in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """With what the machine does not give told as the contract tells it."""
        try:
            return await in_thread(work, *args, **kwargs)
        except DiskFull as error:
            raise _full() from error
        except sqlite3.OperationalError as error:
            if "full" in str(error):
                raise _full() from error
            raise Internal(f"the artifact store's catalogue can't be used ({error}); try again") from error

    def _catalogue(self) -> Catalogue:
        with self._opening:
            if self._opened is None:
                for path in (self._directory, self._incoming, self._blobs):
                    path.mkdir(mode=0o700, parents=True, exist_ok=True)
                with disk_full_named(self._directory):
                    self._opened = Catalogue(self._directory / "catalogue.sqlite")
            return self._opened

    @property
    def _incoming(self) -> Path:
        return self._directory / "incoming"

    @property
    def _blobs(self) -> Path:
        return self._directory / "blobs"

    def _blob(self, ref: str) -> Path:
        return self._directory / blob_path(ref)

    def _now(self) -> str:
        return rfc3339(self._clock.now())

    def _find(self, scope: Scope, ref: str) -> Row:
        row = self._catalogue().find(scope, ref, self._now())
        if row is None:
            raise no_such(ref)
        return row

    def _begin(self) -> "Incoming":
        self._catalogue()
        with disk_full_named(self._directory):
            return Incoming(self._incoming / f"{secrets.token_hex(16)}.part")

    def _keep(
        self, scope: Scope, facts: Facts, incoming: "Incoming", ref: str, created: datetime | None
    ) -> StoredArtifact:
        created = created or self._clock.now()
        by_age = facts.ttl is None or facts.ttl >= self._limits.age_seconds
        seconds = self._limits.age_seconds if by_age else (facts.ttl or 0.0)
        row = Row(
            place=0,
            ref=ref,
            tenant=scope.tenant,
            principal=scope.principal,
            kind=facts.kind,
            media_type=facts.media_type,
            bytes=incoming.size,
            sha256=incoming.sha256,
            label=facts.label,
            origin=facts.origin,
            parents=json.dumps(list(facts.parents)),
            created=rfc3339(created),
            expires=rfc3339(created + timedelta(seconds=seconds)),
            by_age=by_age,
        )
        incoming.put_in_place(self._blob(ref), durable=self._durable)
        try:
            if self._handing_over:
                write_note(self._directory, row.document(), durable=self._durable)
            evicted = self._catalogue().add(row, self._limits, self._now())
        except BaseException:
            self._remove(ref)
            raise
        self._remove_blobs(evicted)
        return row.document()

    def _open(self, row: Row, start: int, end: int) -> FileReading:
        try:
            fd = os.open(self._blob(row.ref), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:  # evicted a moment ago
            raise no_such(row.ref) from None
        return FileReading(fd, row.document(), start, end, self._verified)

    def _delete(self, scope: Scope, ref: str) -> None:
        if not self._catalogue().remove(scope, ref, self._now()):
            raise no_such(ref)
        self._remove(ref)

    def _evict(self) -> Sequence[ArtifactEviction]:
        evicted: Sequence[ArtifactEviction] = ()
        while batch := self._catalogue().evict(self._limits, self._now()):
            self._remove_blobs(batch)
            evicted = (*evicted, *batch)
        if not self._swept:
            self._sweep()
            self._swept = True
        return evicted

    def _remove_blobs(self, evicted: Sequence[ArtifactEviction]) -> None:
        for each in evicted:
            self._remove(each.ref)

    def _remove(self, ref: str) -> None:
        if self._handing_over:
            (self._directory / note_path(ref)).unlink(missing_ok=True)
        self._blob(ref).unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Remove what processes left that died between two steps: bytes that no row tells of."""
        before = time.time() - INCOMING_SECONDS
        for refs in _batches(path for shelf in self._blobs.iterdir() for path in shelf.iterdir()):
            known = self._catalogue().known([path.name for path in refs])
            _remove_older([path for path in refs if path.name not in known], before)
        _remove_older(list(self._incoming.iterdir()), before)


class Incoming:
    """Bytes on their way into the store."""

    def __init__(self, path: Path) -> None:
        self._path: Path | None = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._digest = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def write(self, block: bytes) -> None:
        with disk_full_named("the artifact store"):
            self._digest.update(block)
            self.size += write_all(self._fd, block)

    def put_in_place(self, target: Path, *, durable: bool) -> None:
        assert self._path is not None
        with disk_full_named("the artifact store"):
            target.parent.mkdir(mode=0o700, exist_ok=True)
            if durable:
                os.fsync(self._fd)
            self._path.rename(target)
            self._path = None
            if durable:
                sync_dir(target.parent)

    def discard(self) -> None:
        """Take it away, unless it is in place."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None


async def _blocks(data: Data) -> AsyncIterator[bytes]:
    """The pieces, put together where they are small; each is taken when the one before is written."""
    if isinstance(data, bytes):
        for start in range(0, len(data), BLOCK):
            yield data[start : start + BLOCK]
        return
    waiting = bytearray()
    if isinstance(data, AsyncIterable):
        async for piece in data:
            waiting += piece
            if len(waiting) >= BLOCK:
                yield bytes(waiting)
                waiting = bytearray()
    else:
        pieces = iter(data)
        while (taken := await asyncio.to_thread(next, pieces, None)) is not None:
            waiting += taken
            if len(waiting) >= BLOCK:
                yield bytes(waiting)
                waiting = bytearray()
    if waiting:
        yield bytes(waiting)


def _batches(paths: Iterator[Path]) -> Iterator[list[Path]]:
    batch: list[Path] = []
    for path in paths:
        batch.append(path)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _remove_older(paths: list[Path], before: float) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < before:
                path.unlink()


def _full() -> ResourceExhausted:
    return ResourceExhausted(
        "the artifact store's disk is full: nothing that it has is lost; free some space, or delete artifacts",
        reason=CallReason.SERVER_DISK_FULL,
        limit="artifact store",
        server=True,
    )
