"""What executions of one runtime make in /content: found between their beginnings and ends, told with whose doing it is."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from cellhouse.artifacts import BoundStore
from cellhouse.files import (
    Change,
    Changes,
    FileError,
    FileMark,
    HostileDir,
    Incoming,
    Tracker,
    TrackLimits,
    Written,
    relative_path,
)
from cellhouse.files.threads import in_thread
from cellhouse.model import (
    Artifact,
    ArtifactsOmitted,
    CaptureLimits,
    ErrorInfo,
    FileReason,
    Minting,
    matches_any,
)
from cellhouse.runtime.describing import Described, Describer, exact

BACKGROUND: Final = "background"
SHARED: Final = "shared"


@dataclass(frozen=True, slots=True)
class Found:
    """One file that was made or changed, and whose doing it is (empty: the execution's own)."""

    change: Change
    attribution: str


@dataclass(slots=True)
class _Active:
    """An execution that runs: what was found of it so far."""

    found: dict[bytes, Found] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Made:
    """What is told of an execution. `cut` says why files may be missing (empty: none are)."""

    artifacts: list[Artifact]
    omitted: ArtifactsOmitted | None
    cut: str


class ContentFiles:
    """Of one runtime, and all its sessions; belongs to one event loop.

    Each beginning and each end of an execution is a moment at which is looked: what has changed since the moment before is
    the doing of whoever ran then. One that ran alone: its own. Several: `shared`, and told to each. None: `background`, and told to
    the one that begins next. Where nobody touched /content a moment costs one system call.
    """

    def __init__(
        self,
        content: HostileDir,
        limits: CaptureLimits,
        *,
        artifacts: BoundStore,
        minting: Minting,
        patterns: Sequence[str] = (),
    ) -> None:
        self._limits = limits
        self._minting, self._patterns = minting, tuple(patterns)
        self._tracker = Tracker(content, TrackLimits(entries=limits.content_entries))
        self._describer = Describer(content, limits, artifacts, opening=self._tracker.opening)
        self._looking = asyncio.Lock()
        self._active: dict[str, _Active] = {}
        self._background = _Active()

    @property
    def minting(self) -> Minting:
        return self._minting

    def close(self) -> None:
        self._tracker.close()

    async def begin(self, uid: str) -> None:
        """The code of this execution is about to be sent."""
        await self._look()
        self._active[uid], self._background = self._background, _Active()

    async def end(self, uid: str, *, origin: str = "", patterns: Sequence[str] = ()) -> Made:
        """It has ended: everything it made or changed, described. `patterns` are those of its request."""
        await self._look()
        active = self._active.pop(uid)
        if not active.found:
            return Made([], None, ", ".join(sorted(active.cut)))
        every = [active.found[path] for path in sorted(active.found)]
        listed, rest = every[: self._limits.artifacts], every[self._limits.artifacts :]
        wanted = [self._is_minted(each.change.path, patterns) for each in listed]
        described = await self._describer.all([each.change for each in listed], minted=wanted, origin=origin)
        async with self._looking:
            self._tracker.learn(each.read for each in described if each.read is not None)
        artifacts = [_told(found, each) for found, each in zip(listed, described, strict=True)]
        return Made(artifacts, _omitted(rest, self._limits.artifacts), ", ".join(sorted(active.cut)))

    def drop(self, uid: str) -> None:
        """Nothing is to be told of it any more; what was found so far is told to the next one, as nobody's in particular."""
        if (active := self._active.pop(uid, None)) is None:
            return
        self._background.cut |= active.cut
        for path, found in active.found.items():
            self._background.found.setdefault(path, Found(found.change, BACKGROUND))

    async def commit(self, incoming: Incoming, path: str) -> Written:
        """Put a file of the service's own in place: as it is then, nobody made it here."""
        async with self._looking:
            written = incoming.commit()
            if written.seen is not None:
                self._tracker.expect(relative_path(path), FileMark.of(written.seen), written.sha256)
        return written

    def _is_minted(self, path: bytes, patterns: Iterable[str]) -> bool:
        if self._minting == "listed":
            return matches_any(exact(path), (*self._patterns, *patterns))
        return self._minting == "all"

    async def _look(self) -> None:
        if not self._looking.locked() and not self._tracker.is_touched():
            return
        async with self._looking:
            if not self._tracker.is_touched():
                return
            try:
                changes = (
                    self._tracker.look() if self._tracker.is_quick else await in_thread(self._tracker.look)
                )
            except (OSError, FileError) as error:
                changes = Changes([], set(), frozenset({str(error)}))
            self._attribute(changes)

    def _attribute(self, changes: Changes) -> None:
        whose = list(self._active.values()) or [self._background]
        attribution = SHARED if len(self._active) > 1 else "" if self._active else BACKGROUND
        for active in whose:
            active.cut |= changes.cut
            for change in changes.changed:
                _add(active.found, change, attribution)
            # What was made and is gone again is nobody's product.
            for path in changes.gone:
                active.found.pop(path, None)


def _add(found: dict[bytes, Found], change: Change, attribution: str) -> None:
    """A change after others of the same file; what was surely this execution's own stays so."""
    before = found.get(change.path)
    source = change.renamed_from
    if source is not None and (old := found.pop(source, None)) is not None and old.change.created:
        source = old.change.renamed_from  # nobody knew of the name in between
    if before is not None:
        created = before.change.created or change.created
        attribution = attribution and before.attribution and max(attribution, before.attribution)
        source = source or before.change.renamed_from
    else:
        created = change.created
    found[change.path] = Found(Change(change.path, change.mark, created, source), attribution)


def _told(found: Found, described: Described) -> Artifact:
    source = found.change.renamed_from
    return described.artifact.model_copy(
        update={
            "attribution": found.attribution or None,
            "renamed_from": None if source is None else exact(source),
        }
    )


def _omitted(rest: list[Found], limit: int) -> ArtifactsOmitted | None:
    if not rest:
        return None
    info = ErrorInfo(reason=FileReason.TOO_MANY_FILES, metadata={"limitFiles": str(limit)})
    size = sum(each.change.mark.size for each in rest if each.change.mark.is_file)
    return ArtifactsOmitted(files=len(rest), bytes=size, error_info=info)
