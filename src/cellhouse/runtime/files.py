"""Which files an execution made or changed in /content, described and not inlined."""

import asyncio
import mimetypes
import os
import time
from datetime import UTC, datetime

from cellhouse.files import (
    Change,
    FileDigest,
    FileError,
    HostileDir,
    Snapshot,
    SnapshotLimits,
    changes,
    exact_name,
    snapshot,
    unescape_name,
)
from cellhouse.model import Artifact, rfc3339

INLINE_BYTES = 2 << 20
"""More than this is read in a thread, so that nobody else waits for it."""
HASH_BYTES = 256 << 20
"""So much is read for one execution; files beyond it are named with their size and without a SHA-256."""
_BLOCK = 1 << 20


class FileWatch:
    """Compares /content before and after; the files themselves are hostile and read with every care."""

    def __init__(self, content: HostileDir, *, entries: int) -> None:
        self._content = content
        self._limits = SnapshotLimits(entries=entries)

    def look(self) -> Snapshot:
        """The files now; what could not be looked at is a reason to list none, never one to fail."""
        try:
            return snapshot(self._content, self._limits)
        except (OSError, FileError) as error:
            return Snapshot({}, time.time_ns(), frozenset({str(error)}))

    async def made_since(self, before: Snapshot) -> tuple[list[Artifact], str]:
        """The files created or changed since, and why the list may be incomplete (empty where it is not)."""
        after = self.look()
        made = changes(before, after)
        if sum(change.mark.size for change in made) > INLINE_BYTES:
            artifacts = await asyncio.to_thread(self._describe_all, made)
        else:
            artifacts = self._describe_all(made)
        return artifacts, ", ".join(sorted(before.cut | after.cut))

    def _describe_all(self, made: list[Change]) -> list[Artifact]:
        left = HASH_BYTES
        artifacts = []
        for change in made:
            artifacts.append(self._describe(change, left))
            left = max(0, left - change.mark.size)
        return artifacts

    def _describe(self, change: Change, left: int) -> Artifact:
        name, mtime_ns = change.name, change.mark.mtime_ns
        size, digest = self._digest(name, change.mark.size, left)
        return Artifact(
            name=exact_name(unescape_name(name)),
            bytes=size,
            media_type=mimetypes.guess_type(name.rpartition("/")[2])[0],
            sha256=digest,
            mtime=_time_of(mtime_ns),
        )

    def _digest(self, name: str, size: int, left: int) -> tuple[int, str | None]:
        """Bytes as really read with their SHA-256; the size as seen where it was not read whole."""
        if size > left:
            return size, None
        try:
            fd = self._content.open_read(name)
        except (OSError, FileError):
            return size, None
        digest = FileDigest(fd)
        try:
            more = True
            while more:
                more = digest.advance(_BLOCK)
                if digest.size > left:  # it grows while it is read
                    return digest.size, None
        except OSError:
            return size, None
        finally:
            os.close(fd)
        return digest.size, digest.sha256


def _time_of(mtime_ns: int) -> str | None:
    """None where the code gave the file a date that no calendar has."""
    try:
        return rfc3339(datetime.fromtimestamp(mtime_ns / 1e9, UTC))
    except (ValueError, OverflowError, OSError):
        return None
