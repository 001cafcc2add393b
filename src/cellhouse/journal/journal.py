"""The journal: every execution on record, found at once, kept as long as retention says, ended if its owner died."""

import asyncio
from collections import OrderedDict
from functools import partial
from pathlib import Path
from typing import Literal, Self
from weakref import WeakValueDictionary

from cellhouse.files import sync_dir
from cellhouse.journal.cache import EventCache
from cellhouse.journal.check import RebuildReport, VerifyReport, rebuild, verify
from cellhouse.journal.entries import Entry, Evicted, Page, StartRecord, Tombstone
from cellhouse.journal.holding import Held, disk_full_refused, sqlite_full_named, take
from cellhouse.journal.home import LogHome
from cellhouse.journal.index import PENDING_ROWS
from cellhouse.journal.layout import Layout
from cellhouse.journal.lock import boot_id
from cellhouse.journal.log import ExecutionLog
from cellhouse.journal.opening import Opening
from cellhouse.journal.recover import ViewMaker
from cellhouse.journal.retention import Retention
from cellhouse.journal.rows import Row, keys_of
from cellhouse.journal.scan import scan_file
from cellhouse.journal.view import PlainText
from cellhouse.model import (
    AlreadyExists,
    CallReason,
    CaptureLimits,
    Clock,
    ExecutionState,
    FinishedEvent,
    RetentionLimits,
    rfc3339,
)
from cellhouse.model.pages import PAGE_SIZE, last_before, page_length, token_after

Durability = Literal["normal", "full"]
# Logs of finished executions that stay at hand after they were read.
OPENED_LOGS = 64

Evictions = list[Evicted]


class Journal:
    """Owned by one process and used on one event loop; `open` makes it, `close` gives it up."""

    def __init__(
        self,
        held: Held,
        clock: Clock,
        retention: RetentionLimits,
        durability: Durability,
        limits: CaptureLimits,
    ) -> None:
        layout = held.layout
        self._held = held
        self._layout = layout
        self._index = held.index
        self._graveyard = held.graveyard
        self._clock = clock
        self._durability = durability
        self._retention = Retention(layout, held.index, held.graveyard, retention, clock)
        self._home = LogHome(
            layout=layout,
            clock=clock,
            cache=EventCache(),
            reserve=held.reserve,
            durable=durability == "full",
            spill_bytes=limits.spill_bytes,
            finished=self._finished,
            grew=self._grew,
        )
        self._live: dict[str, ExecutionLog] = {}
        self._live_rows: dict[str, Row] = {}
        self._logs: WeakValueDictionary[str, ExecutionLog] = WeakValueDictionary()
        self._opened: OrderedDict[str, ExecutionLog] = OrderedDict()
        # What `find` did not find just now.
        self._absent: tuple[str, str, str] | None = None
        self._maintenance = asyncio.Lock()
        self._closed = False
        # Executions that the last owner left unfinished and this opening ended.
        self.recovered: list[str] = []

    @classmethod
    async def open(
        cls,
        directory: Path,
        *,
        clock: Clock,
        retention: RetentionLimits,
        durability: Durability = "normal",
        limits: CaptureLimits | None = None,
        view: ViewMaker = PlainText,
    ) -> Self:
        """Take the directory (made if need be), bring the index up to date, end what a dead owner left.

        `limits` bound what is kept beside records, and recovered results; `view` shows their text (plainly by default).
        Raises FailedPrecondition where another owner holds it or a later version made it, ResourceExhausted on a full disk.
        """
        limits = limits or CaptureLimits()
        layout = Layout(directory)
        held = await take(layout, durable=durability == "full")
        try:
            before, boot = held.lock.before, boot_id()
            journal = cls(held, clock, retention, durability, limits)
            opening = Opening(
                layout=layout,
                index=held.index,
                graveyard=held.graveyard,
                reserve=held.reserve,
                home=LogHome(
                    layout=layout,
                    clock=clock,
                    cache=EventCache(0),
                    reserve=held.reserve,
                    durable=durability == "full",
                    spill_bytes=limits.spill_bytes,
                    finished=lambda log, event: None,
                    grew=lambda log: None,
                ),
                limits=limits,
                view=view,
                kept=before.get("durability") == "full" or (boot != "" and before.get("bootId") == boot),
            )
            with disk_full_refused(layout):
                journal.recovered = await held.run(opening.run)
                held.lock.tell(durability=durability)
        except BaseException:
            await held.let_go(closed=False)
            raise
        return journal

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Names of the executions that were begun and have no end yet, oldest first."""
        return tuple(self._live)

    @property
    def closed(self) -> bool:
        """Nothing can be asked of it any more: its directory may be another's."""
        return self._closed

    # Executions

    async def begin(self, start: StartRecord) -> ExecutionLog:
        """Put an execution on record. The caller has asked `find` before, without giving way in between.

        Raises AlreadyExists where its name or id is on record or was evicted, DiskFull.
        """
        self._check_open()
        while self._index.pending >= PENDING_ROWS:
            with sqlite_full_named(str(self._layout.index)):
                await self._held.run(self._index.flush)
        row = Row.of(start)
        self._check_new(row)
        log = ExecutionLog.create(self._home, start)
        self._live[log.name] = self._logs[log.name] = log
        self._live_rows[log.name] = row
        self._index.put(row)
        if self._durability == "full":
            try:
                await self._held.run(partial(self._sync, log))
            except BaseException:
                self._undo(log, row)
                raise
        return log

    def _sync(self, log: ExecutionLog) -> None:
        log.sync()
        sync_dir(self._layout.shelf(log.uid))
        sync_dir(self._layout.executions)

    def _undo(self, log: ExecutionLog, row: Row) -> None:
        del self._live[log.name], self._live_rows[log.name]
        log.discard()
        self._layout.remove(log.uid)
        self._index.forget(row)

    def _check_new(self, row: Row) -> None:
        taken = self._index.by_name(row.name)
        for key in keys_of(row):
            if taken is None and key != self._absent:
                taken = self._index.by_key(key)
        self._absent = None
        if taken is not None:
            raise AlreadyExists(
                f"{taken.name} is on record already; attach to it, or use another executionId",
                reason=CallReason.ID_TAKEN,
                metadata={"execution": taken.name},
            )

    def find(
        self, *, session: str | None, runtime: str | None, execution_id: str
    ) -> Entry | Tombstone | None:
        """The execution with this id in a session, or for a runtime target in that runtime; full names.

        Exact at once. An execution that a runtime target began is found by the session that it got, too.
        """
        if not execution_id:
            return None
        key = ("session", session) if session is not None else ("runtime", runtime or "")
        found = self._index.by_key((*key, execution_id))
        if found is None:
            # `begin` comes next, most likely, and nobody else can put it on record in between.
            self._absent = (*key, execution_id)
        return self._entry(found) if isinstance(found, Row) else found

    def _entry(self, row: Row) -> Entry:
        if row.finished:
            return row.entry(ExecutionState.FINISHED)
        live = self._live.get(row.name)
        return row.entry(ExecutionState.RUNNING if live is not None and live.sent else ExecutionState.QUEUED)

    def get(self, name: str) -> ExecutionLog | None:
        """The log of an execution by its resource name; the same object for all while anyone has it."""
        log = self._logs.get(name)
        if log is not None:
            return log
        found = self._index.by_name(name)
        if not isinstance(found, Row):
            return None
        try:
            log = ExecutionLog.of_file(
                self._home, scan_file(self._layout.record(found.uid), self._held.reserve.ends.get(found.uid))
            )
        except (FileNotFoundError, ValueError):
            # Gone or damaged behind the index's back: verify tells, and nothing can be read.
            return None
        self._logs[name] = self._opened[name] = log
        if len(self._opened) > OPENED_LOGS:
            self._opened.popitem(last=False)
        return log

    def list(self, session: str, *, page_size: int = PAGE_SIZE, page_token: str = "") -> Page:
        """Executions of a session (its full name), oldest first; at most 1,000 a page. Raises InvalidArgument."""
        size, listing = page_length(page_size), f"{session}/executions"
        rows = self._index.of_session(session, last_before(listing, page_token), size + 1)
        token = token_after(listing, rows[size - 1].uid) if len(rows) > size else ""
        return Page([self._entry(row) for row in rows[:size]], token)

    def was_evicted(self, name: str) -> bool:
        """Whether an execution of this name was on record once, and its tombstone is still there."""
        return isinstance(self._index.by_name(name), Tombstone)

    # Upkeep

    async def evict(self) -> Evictions:
        """Remove what retention no longer keeps, oldest end first; each leaves a tombstone. Nothing that runs is touched."""
        self._check_open()
        evicted: Evictions = []
        async with self._maintenance:
            while True:
                await self._held.run(self._index.flush)
                running = sum(log.disk_bytes for log in self._live.values())
                chosen = await self._held.run(partial(self._retention.choose, running))
                if not chosen:
                    break
                self._index.bury(chosen)
                for tombstone in chosen:
                    self._opened.pop(tombstone.name, None)
                    self._held.reserve.let_go(tombstone.uid)
                    if (log := self._logs.get(tombstone.name)) is not None:
                        log.discard()
                evicted += await self._held.run(partial(self._retention.remove, chosen))
            await self._held.run(self._retention.expire)
            for log in list(self._logs.values()) if self._held.reserve.ends else ():
                if not log.settle_end():
                    break
        return evicted

    async def verify(self) -> VerifyReport:
        """Compare index and files; changes nothing."""
        self._check_open()
        async with self._maintenance:
            await self._held.run(self._index.flush)
            return await self._held.run(
                lambda: verify(
                    self._layout, self._index.tables, self._graveyard, self._held.reserve, self._moving()
                )
            )

    async def rebuild(self) -> RebuildReport:
        """Make the index anew from the files; what runs goes on."""
        self._check_open()
        now = rfc3339(self._clock.now())
        async with self._maintenance:
            await self._held.run(self._index.flush)
            return await self._held.run(
                lambda: rebuild(
                    self._layout, self._index.tables, self._graveyard, self._held.reserve, now, self._moving()
                )
            )

    def _moving(self) -> set[str]:
        return set(self._live) | self._index.names_in_motion()

    async def close(self) -> None:
        """Write what waits and give the directory up. What has not finished is ended by the next owner."""
        if self._closed:
            return
        self._closed = True
        async with self._maintenance:
            self._home.open = False
            for log in (*self._logs.values(),):
                log.abandon()
            self._held.reserve.close()
            self._live.clear()
            self._opened.clear()
            await self._held.let_go(closed=True)

    # Within

    def _finished(self, log: ExecutionLog, event: FinishedEvent) -> None:
        del self._live[log.name]
        self._index.put(self._live_rows.pop(log.name).ending(event, log.disk_bytes))

    def _grew(self, log: ExecutionLog) -> None:
        found = self._index.by_name(log.name)
        if isinstance(found, Row):
            self._index.put(found._replace(bytes=self._layout.size(log.uid)))

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"the journal {self._layout.directory} is closed; open it again")
