"""Holding a journal's directory: its lock, its index, its tombstones; for its owner, or for a look from outside."""

import asyncio
import contextlib
import errno
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from cellhouse.files import DiskFull, takes_nothing
from cellhouse.journal.check import RebuildReport, VerifyReport, rebuild, verify
from cellhouse.journal.graveyard import Graveyard
from cellhouse.journal.index import Index
from cellhouse.journal.layout import Layout
from cellhouse.journal.lock import OwnerLock
from cellhouse.journal.reserve import Reserve
from cellhouse.model import CallReason, Clock, NotFound, ResourceExhausted, rfc3339

_T = TypeVar("_T")


@dataclass(slots=True)
class Held:
    """What is open while a directory is held."""

    layout: Layout
    lock: OwnerLock
    index: Index
    graveyard: Graveyard
    reserve: Reserve

    async def run(self, job: Callable[[], _T]) -> _T:
        """A job on the worker's thread."""
        return await asyncio.wrap_future(self.index.worker.call(job))

    async def let_go(self, *, closed: bool) -> None:
        """Close everything; `closed`: the index is complete, so the next owner need not look at the files."""
        try:
            await self.run(lambda: self.index.finish(closed=closed))
        finally:
            self.index.close()
            self.graveyard.close()
            self.lock.close()


async def take(layout: Layout, *, durable: bool) -> Held:
    """Hold the directory, made if need be. Raises FailedPrecondition, and ResourceExhausted on a full disk."""
    with disk_full_refused(layout), contextlib.ExitStack() as undo:
        layout.create()
        lock = await OwnerLock.take(layout.lock)
        undo.callback(lock.close)
        lock.introduce()
        index = Index(layout.index)
        undo.callback(index.close)
        graveyard = Graveyard(layout.tombstones, index.tables, durable=durable)
        undo.callback(graveyard.close)
        reserve = Reserve(layout.reserve, durable=durable)
        undo.pop_all()
        return Held(layout, lock, index, graveyard, reserve)


_READ_ONLY: Final = frozenset((sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR))
"""What a disk that is read-only can look like; also others do."""


@contextlib.contextmanager
def sqlite_full_named(name: str) -> Iterator[None]:
    """Turn SQLite's own words for a disk that is full, or read-only, into DiskFull."""
    try:
        yield
    except sqlite3.OperationalError as error:
        primary = error.sqlite_errorcode & 0xFF  # the rest says where it came up
        if primary == sqlite3.SQLITE_FULL:
            raise DiskFull(name) from error
        if primary in _READ_ONLY and os.statvfs(name).f_flag & os.ST_RDONLY:
            raise DiskFull(name, errno.EROFS) from error
        raise


@contextlib.contextmanager
def disk_full_refused(layout: Layout) -> Iterator[None]:
    """Turn a full disk into the error that a caller is told of."""
    try:
        with sqlite_full_named(str(layout.index)):
            yield
    except OSError as error:
        if not takes_nothing(error):
            raise
        full = DiskFull(str(layout.directory), error.errno or errno.ENOSPC)
        raise ResourceExhausted(
            f"the journal {layout.directory} can't be opened: its disk is {full.state}; {full.remedy}",
            reason=CallReason.SERVER_DISK_FULL,
            limit="journal disk",
            server=True,
        ) from error


async def verify_journal(directory: Path) -> VerifyReport:
    """Compare index and files of a journal that nobody has open. Raises FailedPrecondition where somebody has."""
    async with _borrowed(directory) as held:
        return await held.run(lambda: verify(held.layout, held.index.tables, held.graveyard, held.reserve))


async def rebuild_journal(directory: Path, *, clock: Clock) -> RebuildReport:
    """Make the index of a journal anew that nobody has open. What had not finished is left to its next owner."""
    now = rfc3339(clock.now())
    async with _borrowed(directory) as held:
        return await held.run(
            lambda: rebuild(held.layout, held.index.tables, held.graveyard, held.reserve, now)
        )


@contextlib.asynccontextmanager
async def _borrowed(directory: Path) -> AsyncIterator[Held]:
    """Hold a journal for a moment, with no trace that would keep its next owner from putting things right."""
    layout = Layout(directory)
    if not layout.executions.is_dir():
        raise NotFound(
            f"{directory} holds no journal; name the journal directory below a state directory",
            reason="NO_SUCH_JOURNAL",
        )
    held = await take(layout, durable=True)
    try:
        yield held
    finally:
        held.lock.tell(**held.lock.before)
        await held.let_go(closed=False)
