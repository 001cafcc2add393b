"""Comparing the index with the files it was made from, and making it anew."""

from collections.abc import Collection
from dataclasses import dataclass, field

from cellhouse.journal.graveyard import Graveyard
from cellhouse.journal.layout import Layout
from cellhouse.journal.opening import lost_rows, read_row
from cellhouse.journal.reserve import Reserve
from cellhouse.journal.rows import Row
from cellhouse.journal.scan import scan_file
from cellhouse.journal.tables import Tables

# Names that a report lists of each kind; the counts go on.
REPORT_NAMES = 1_000
_BATCH = 200


@dataclass(slots=True)
class Names:
    """Names of one kind: all counted, the first of them listed."""

    count: int = 0
    listed: list[str] = field(default_factory=list)

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.listed) < REPORT_NAMES:
            self.listed.append(name)


@dataclass(slots=True)
class VerifyReport:
    """How the index and the files differ. Executions by name, files that can't be read by uid."""

    executions: int = 0
    unfinished: int = 0
    # On record and not in the index; in the index and not on record; in both, and not the same.
    missing: Names = field(default_factory=Names)
    extra: Names = field(default_factory=Names)
    different: Names = field(default_factory=Names)
    # Files that can't be read as records, and those with something behind the last record that is none.
    unreadable: Names = field(default_factory=Names)
    damaged: Names = field(default_factory=Names)
    tombstones: int = 0
    tombstones_missing: int = 0
    tombstones_extra: int = 0

    @property
    def index_ok(self) -> bool:
        """Whether a rebuild would change nothing."""
        wrong = self.missing.count + self.extra.count + self.different.count
        return not (wrong + self.tombstones_missing + self.tombstones_extra)

    @property
    def ok(self) -> bool:
        """Whether the index is right and every file is whole."""
        return self.index_ok and not (self.unreadable.count + self.damaged.count)


@dataclass(slots=True)
class RebuildReport:
    """What a rebuild changed in the index."""

    executions: int = 0
    added: Names = field(default_factory=Names)
    removed: Names = field(default_factory=Names)
    changed: Names = field(default_factory=Names)
    unreadable: Names = field(default_factory=Names)
    tombstones: int = 0


def verify(
    layout: Layout, tables: Tables, graveyard: Graveyard, reserve: Reserve, moving: Collection[str] = ()
) -> VerifyReport:
    """Read every file and compare; changes nothing. Executions in `moving` are being written and not judged."""
    report = VerifyReport()
    for uid in layout.uids():
        row = read_row(layout, reserve, uid)
        if row is None:
            report.unreadable.add(uid)
            continue
        report.executions += 1
        report.unfinished += not row.finished
        if row.name in moving:
            continue
        if scan_file(layout.record(uid)).damaged:
            report.damaged.add(row.name)
        known = tables.row(uid)
        if known is None:
            if not tables.entombed(uid, row.name):
                report.missing.add(row.name)
        elif known != row:
            report.different.add(row.name)
    for known in tables.rows():
        if known.name not in moving and not layout.record(known.uid).exists():
            report.extra.add(known.name)
    _verify_tombstones(report, tables, graveyard)
    return report


def _verify_tombstones(report: VerifyReport, tables: Tables, graveyard: Graveyard) -> None:
    """The tables have the file's tombstones in its order, but for the oldest, which were forgotten."""
    indexed = tables.tombstones()
    expected = next(indexed, None)
    forgotten = graveyard.forgotten
    for _, tombstone in graveyard.read():
        if forgotten:
            forgotten -= 1
            continue
        report.tombstones += 1
        if tombstone == expected:
            expected = next(indexed, None)
        else:
            report.tombstones_missing += 1
    report.tombstones_extra = (expected is not None) + sum(1 for _ in indexed)


def rebuild(
    layout: Layout,
    tables: Tables,
    graveyard: Graveyard,
    reserve: Reserve,
    now: str,
    moving: Collection[str] = (),
) -> RebuildReport:
    """Make every row anew from its file, and the tombstones from theirs.

    A row whose file is gone becomes a tombstone (RECORD_LOST): its id was used, so it must not run again.
    """
    report = RebuildReport()
    graveyard.recount()
    batch: list[Row] = []
    for uid in layout.uids():
        row = read_row(layout, reserve, uid)
        if row is None:
            report.unreadable.add(uid)
            continue
        if tables.entombed(uid, row.name):
            # Its eviction broke off: the tombstone was written, so the record is no more.
            layout.remove(uid)
            continue
        report.executions += 1
        known = tables.row(uid)
        if known == row or row.name in moving:
            continue
        (report.added if known is None else report.changed).add(row.name)
        batch.append(row)
        if len(batch) == _BATCH:
            tables.put(batch)
            batch = []
    tables.put(batch)
    for lost in lost_rows(layout, tables, moving):
        for row in lost:
            report.removed.add(row.name)
        graveyard.entomb([row.tombstone(now, "RECORD_LOST") for row in lost])
    report.tombstones = tables.tombstone_count()
    return report
