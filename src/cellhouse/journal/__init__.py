"""The journal: what is remembered of every execution, and how it is found, read, kept and ended."""

from cellhouse.journal.check import RebuildReport, VerifyReport
from cellhouse.journal.entries import Entry, Evicted, Page, StartRecord, Tombstone
from cellhouse.journal.holding import rebuild_journal, verify_journal
from cellhouse.journal.home import LogState
from cellhouse.journal.journal import Journal
from cellhouse.journal.layout import TextName
from cellhouse.journal.log import ExecutionLog
from cellhouse.journal.paging import TextPage
from cellhouse.journal.spill import SpillWriter
from cellhouse.journal.view import PlainText, TextView

__all__ = [
    "Entry",
    "Evicted",
    "ExecutionLog",
    "Journal",
    "LogState",
    "Page",
    "PlainText",
    "RebuildReport",
    "SpillWriter",
    "StartRecord",
    "TextName",
    "TextPage",
    "TextView",
    "Tombstone",
    "VerifyReport",
    "rebuild_journal",
    "verify_journal",
]
