"""What is done when a journal is opened: the index follows the files, and what a dead owner left is ended."""

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cellhouse.files import DiskFull, RecordReader, RecordWriter
from cellhouse.journal.entries import StartRecord
from cellhouse.journal.graveyard import Graveyard
from cellhouse.journal.home import LogHome
from cellhouse.journal.index import Index
from cellhouse.journal.layout import Layout
from cellhouse.journal.log import ExecutionLog
from cellhouse.journal.recover import Recovery, ViewMaker
from cellhouse.journal.reserve import Reserve
from cellhouse.journal.rows import Row, row_of_file
from cellhouse.journal.scan import LogFacts, never_written, scan, scan_file
from cellhouse.journal.tables import Tables
from cellhouse.journal.view import PlainText
from cellhouse.model import CaptureLimits, ExecuteCodeResult, rfc3339

_BATCH = 200


@dataclass(slots=True)
class Opening:
    """Runs on the worker's thread, before anyone else has the journal."""

    layout: Layout
    index: Index
    graveyard: Graveyard
    reserve: Reserve
    home: LogHome
    limits: CaptureLimits
    view: ViewMaker = PlainText
    # What the last owner wrote is there: the machine stayed up since, or the owner had waited for the disk each time.
    kept: bool = True

    def run(self) -> list[str]:
        """Names of the executions that were ended as lost."""
        tables = self.index.tables
        closed = tables.fact("closed") == "yes" and self.kept
        tables.set_fact("closed", "no")
        self.graveyard.catch_up()
        self._move_ends()
        if not closed:
            self._follow_files()
        return self._end_lost()

    def _move_ends(self) -> None:
        """Ends that stand in the reserve, into their records as far as there is room now."""
        for uid in list(self.reserve.ends):
            path = self.layout.record(uid)
            try:
                move_end(path, self.reserve, uid)
                if (row := read_row(self.layout, self.reserve, uid)) is not None:
                    self.index.tables.put([row])
            except FileNotFoundError:
                # Evicted meanwhile.
                self.reserve.let_go(uid)
            except DiskFull:
                return

    def _follow_files(self) -> None:
        """Rows for files that have none, and what becomes of rows whose file is gone.

        After power loss a file may have less than its row says: then the file is right, and gets an end anew.
        """
        tables = self.index.tables
        for lost in lost_rows(self.layout, tables):
            self._bury(lost)
        batch: list[Row] = []
        for uid in self.layout.uids():
            row = tables.row(uid)
            if row is not None and row.finished and self.kept:
                continue
            made = self._row(uid)
            if made is None:
                if row is not None and row.finished and not has_start(self.layout, uid):
                    self._bury([row])
            elif made != row:
                batch.append(made)
            if len(batch) == _BATCH:
                tables.put(batch)
                batch = []
        tables.put(batch)

    def _row(self, uid: str) -> Row | None:
        """What a file says; None where there is nothing to say, and then no file is left that was never begun."""
        path = self.layout.record(uid)
        row = read_row(self.layout, self.reserve, uid)
        if row is None:
            if never_written(path):
                path.unlink()
            return None
        if self.index.tables.entombed(uid, row.name):
            self.layout.remove(uid)
            return None
        return row

    def _end_lost(self) -> list[str]:
        ended = []
        for row in self.index.tables.unfinished():
            log = self._end(row)
            if log is not None:
                ended.append(row.name)
        return ended

    def _end(self, row: Row) -> ExecutionLog | None:
        path = self.layout.record(row.uid)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            self._bury([row])
            return None
        try:
            facts = scan(fd, self.reserve.ends.get(row.uid))
            if facts.start is None or facts.finished_seq:
                self._settle(row, facts)
                return None
            result = self._recover(facts.start, facts, RecordReader(fd, facts.end))
        finally:
            os.close(fd)
        log = ExecutionLog.of_unfinished(self.home, facts)
        event = log.finish(result)
        log.seal()
        self.index.tables.put([row.ending(event, self.layout.size(row.uid))])
        return log

    def _recover(self, start: StartRecord, facts: LogFacts, reader: RecordReader) -> ExecuteCodeResult:
        recovery = Recovery(start, facts, reader, self.layout, self.limits, self.view)
        may_have_run = self._may_have_run(facts)
        try:
            return recovery.result(may_have_run=may_have_run)
        except (OSError, ValueError, TypeError) as error:
            # Something on record makes no sense. It must not keep the journal, and all else in it, from being opened.
            bare = Recovery(start, facts, reader, self.layout, self.limits, self.view)
            return bare.without_output(may_have_run=may_have_run, why=str(error))

    def _may_have_run(self, facts: LogFacts) -> bool:
        """Certainly not sent: the mark is missing from a record that can't have lost it."""
        return facts.sent or facts.damaged or not self.kept

    def _settle(self, row: Row, facts: LogFacts) -> None:
        """The row lags behind its file, or the file can't be read any more."""
        if facts.start is None:
            self._bury([row])
        elif (made := read_row(self.layout, self.reserve, row.uid)) is not None:
            self.index.tables.put([made])

    def _bury(self, rows: Sequence[Row]) -> None:
        """Their records are gone, with the power perhaps; the ids did exist, so they must not run again."""
        now = rfc3339(self.home.clock.now())
        self.graveyard.entomb([row.tombstone(now, "RECORD_LOST") for row in rows])


def lost_rows(layout: Layout, tables: Tables, moving: Collection[str] = ()) -> Iterator[list[Row]]:
    """Rows whose file is gone, some at a time; they may be removed meanwhile."""
    lost: list[Row] = []
    for row in tables.rows():
        if row.name not in moving and not layout.record(row.uid).exists():
            lost.append(row)
        if len(lost) == _BATCH:
            yield lost
            lost = []
    if lost:
        yield lost


def move_end(path: Path, reserve: Reserve, uid: str) -> None:
    """The end of an execution from the reserve into its record. Raises DiskFull, FileNotFoundError."""
    writer = RecordWriter.reopen(path, reserve=0)
    try:
        writer.append_final(reserve.ends[uid])
    finally:
        writer.close()
    reserve.let_go(uid)


def has_start(layout: Layout, uid: str) -> bool:
    """Whether it can be read from the file at least how the execution was asked for."""
    try:
        return scan_file(layout.record(uid)).start is not None
    except (OSError, ValueError):
        return False


def read_row(layout: Layout, reserve: Reserve, uid: str) -> Row | None:
    """The row that a file stands for; None where the file can't be read as a record."""
    try:
        fd = os.open(layout.record(uid), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        facts = scan(fd, reserve.ends.get(uid))
        if facts.start is None or facts.start.uid != uid:
            return None
        return row_of_file(facts.start, facts, RecordReader(fd, facts.end), layout.size(uid))
    except ValueError:
        # The end is on record and can't be read: a later version wrote it.
        return None
    finally:
        os.close(fd)
