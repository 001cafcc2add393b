"""The SQLite index: its tables, their version, and how one of another version becomes the present one.

The index holds nothing that the record files and tombstones.rec don't say. So an older one is not converted but made anew
from them, and so is one that is broken; one of a later version is refused, for the files may be of a later version too.
"""

import os
import sqlite3
from pathlib import Path

from cellhouse.model import FailedPrecondition

VERSION = 1

_TABLES = """
CREATE TABLE executions (
    uid TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL,
    runtime TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    target TEXT NOT NULL,
    code_sha256 TEXT NOT NULL,
    created TEXT NOT NULL,
    finished INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    ended TEXT NOT NULL,
    bytes INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX executions_in_session ON executions (session, execution_id) WHERE execution_id != '';
CREATE INDEX executions_in_runtime ON executions (runtime, execution_id)
    WHERE execution_id != '' AND target = 'runtime';
CREATE INDEX executions_of_session ON executions (session, uid);
CREATE INDEX executions_by_end ON executions (finished, ended);
CREATE TABLE tombstones (
    number INTEGER PRIMARY KEY,
    uid TEXT NOT NULL,
    name TEXT NOT NULL,
    session TEXT NOT NULL,
    runtime TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    target TEXT NOT NULL,
    code_sha256 TEXT NOT NULL,
    evicted TEXT NOT NULL,
    why TEXT NOT NULL,
    bytes INTEGER NOT NULL
);
CREATE INDEX tombstones_in_session ON tombstones (session, execution_id) WHERE execution_id != '';
CREATE INDEX tombstones_in_runtime ON tombstones (runtime, execution_id)
    WHERE execution_id != '' AND target = 'runtime';
CREATE INDEX tombstones_by_name ON tombstones (name);
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


def connect(path: Path) -> sqlite3.Connection:
    """A connection that commits by itself; used by one thread at a time, whichever."""
    # Made here, for what SQLite makes can be read by others; its files beside it take the mode from this one.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=64)
    connection.execute("PRAGMA journal_mode = WAL")
    # The record files are the truth: a commit lost with the power is found again in them.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA journal_size_limit = 8388608")
    return connection


def prepare(path: Path) -> tuple[sqlite3.Connection, bool]:
    """The index for writing, and whether it is empty and has to be made from the record files.

    Raises FailedPrecondition where a later version of this program made it.
    """
    try:
        connection = connect(path)
        try:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > VERSION:
                raise FailedPrecondition(
                    f"the journal index {path} has version {version} and this program knows up to {VERSION}; "
                    "use the later program",
                    reason="JOURNAL_VERSION",
                    metadata={"version": str(version), "knownVersion": str(VERSION)},
                )
            if version == VERSION and _sound(connection):
                return connection, False
        except BaseException:
            connection.close()
            raise
        connection.close()
    except sqlite3.DatabaseError as error:
        # What is no database is made anew; a disk that is full or can't be read is another matter.
        if isinstance(error, sqlite3.OperationalError):
            raise
    remove(path)
    connection = connect(path)
    connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT;")
    return connection, True


def _sound(connection: sqlite3.Connection) -> bool:
    """Whether the index was closed in order, or else holds together."""
    closed = connection.execute("SELECT value FROM facts WHERE key = 'closed'").fetchone()
    if closed == ("yes",):
        return True
    checked: tuple[str] = connection.execute("PRAGMA quick_check(1)").fetchone()
    return checked == ("ok",)


def remove(path: Path) -> None:
    """Remove the index with what SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
