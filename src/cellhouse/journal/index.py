"""The index of a journal: exact at once through what is still to be written, SQLite behind it on the worker's thread."""

import contextlib
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from cellhouse.journal import schema
from cellhouse.journal.entries import Tombstone
from cellhouse.journal.rows import EXECUTION_COLUMNS, Row, keys_of
from cellhouse.journal.tables import Tables
from cellhouse.journal.worker import Worker

# Rows that may wait to be written; past it `Journal.begin` waits for the writer.
PENDING_ROWS = 10_000

Key = tuple[str, str, str]


def _query(where: str) -> str:
    """One statement over both tables: on the way of every execution, most of the cost is in the call."""
    buried = "uid, name, session, runtime, execution_id, target, code_sha256, evicted, 0, why, '', bytes"
    return (
        f"SELECT 1, {EXECUTION_COLUMNS} FROM executions WHERE {where} "
        f"UNION ALL SELECT 0, {buried} FROM tombstones WHERE {where} LIMIT 1"
    )


_BY_NAME = _query("name = ?1")
# In the words of the partial indexes, or SQLite would not use them.
_BY_SESSION = _query("session = ?1 AND execution_id = ?2 AND execution_id != ''")
_BY_RUNTIME = _query("runtime = ?1 AND execution_id = ?2 AND execution_id != '' AND target = 'runtime'")


class Index:
    """Looked up from the event loop's thread; written by the worker's, which serves for everything slow besides."""

    def __init__(self, path: Path) -> None:
        """Opens or makes it; blocks a moment. Raises FailedPrecondition for an index of a later version."""
        self.tables = Tables(path)
        try:
            self._reader = schema.connect(path)
        except BaseException:
            self.tables.close()
            raise
        self._reader.execute("PRAGMA query_only = ON")
        self._lock = threading.Lock()
        # What is newer than the tables, by name and by key, until it is written; and the rows to write, by uid.
        self._by_name: dict[str, Row | Tombstone] = {}
        self._by_key: dict[Key, Row | Tombstone] = {}
        self._unwritten: dict[str, Row] = {}
        self.error: sqlite3.Error | None = None
        self.worker = Worker(self._write)

    # Looking up, on the loop's thread

    def by_name(self, name: str) -> Row | Tombstone | None:
        return self._by_name.get(name) or self._select(_BY_NAME, name)

    def by_key(self, key: Key) -> Row | Tombstone | None:
        scope, owner, execution_id = key
        query = _BY_RUNTIME if scope == "runtime" else _BY_SESSION
        return self._by_key.get(key) or self._select(query, owner, execution_id)

    def _select(self, query: str, *values: str) -> Row | Tombstone | None:
        found = self._reader.execute(query, values).fetchone()
        if found is None:
            return None
        return Row(*found[1:]) if found[0] else Tombstone(*found[1:9], *found[10:13:2])

    def of_session(self, session: str, after_uid: str, limit: int) -> list[Row]:
        """Rows of a session above a uid, in their order."""
        with self._lock:
            newer = [
                each for each in self._by_name.values() if each.session == session and each.uid > after_uid
            ]
        found = {
            row[0]: Row(*row)
            for row in self._reader.execute(
                f"SELECT {EXECUTION_COLUMNS} FROM executions WHERE session = ? AND uid > ? ORDER BY uid LIMIT ?",
                # Some of them may be evicted and only not written yet.
                (session, after_uid, limit + len(newer)),
            )
        }
        for each in newer:
            if isinstance(each, Row):
                found[each.uid] = each
            else:
                found.pop(each.uid, None)
        return [found[uid] for uid in sorted(found)[:limit]]

    # Changing, on the loop's thread

    @property
    def pending(self) -> int:
        """Rows that wait to be written."""
        return len(self._unwritten)

    def names_in_motion(self) -> set[str]:
        """Executions of which the tables don't have the newest. From any thread."""
        with self._lock:
            return set(self._by_name)

    def put(self, row: Row) -> None:
        """The row as it is now; found at once, written soon."""
        with self._lock:
            if (old := self._by_name.get(row.name)) is not None:
                self._hide(old)
            self._unwritten[row.uid] = row
            self._show(row)
        self.worker.nudge()

    def bury(self, tombstones: Iterable[Tombstone]) -> None:
        """From now on the tombstones are found; `entomb` writes them."""
        with self._lock:
            for tombstone in tombstones:
                self._unwritten.pop(tombstone.uid, None)
                self._show(tombstone)

    def forget(self, row: Row) -> None:
        """The execution never was: its record could not be made."""
        with self._lock:
            self._unwritten.pop(row.uid, None)
            self._hide(row)
        # Waited for: it may stand in the tables already, and whoever asks next must not find it. Where SQLite fails too,
        # a rebuild leaves it out.
        with contextlib.suppress(sqlite3.Error):
            self.worker.call(lambda: self.tables.drop([row.uid])).result()

    def _show(self, found: Row | Tombstone) -> None:
        self._by_name[found.name] = found
        for key in keys_of(found):
            self._by_key[key] = found

    def _hide(self, found: Row | Tombstone) -> None:
        if self._by_name.get(found.name) is found:
            del self._by_name[found.name]
        for key in keys_of(found):
            if self._by_key.get(key) is found:
                del self._by_key[key]

    # Writing, on the worker's thread

    def _write(self) -> None:
        with self._lock:
            rows = list(self._unwritten.values())
        if not rows:
            return
        try:
            self.tables.put(rows)
        except sqlite3.Error as error:
            # They stay in memory, and in the record files for ever; the next change tries again.
            self.error = error
            return
        self.error = None
        with self._lock:
            for row in rows:
                if self._unwritten.get(row.uid) is row:
                    del self._unwritten[row.uid]
                    self._hide(row)

    def flush(self) -> None:
        """Write what waits; raises sqlite3.Error where that fails."""
        self._write()
        if self.error is not None:
            raise self.error

    def entomb(self, tombstones: Sequence[Tombstone], place: str) -> None:
        """What `bury` announced, into the tables."""
        self.tables.entomb(tombstones, place)
        with self._lock:
            for tombstone in tombstones:
                self._hide(tombstone)

    def finish(self, *, closed: bool) -> None:
        """The last job on the worker: write what waits as far as that works, let go of the tables.

        With `closed` the tables say that they are complete, so that the next opening need not look at the files.
        """
        self._write()
        if closed and self.error is None:
            with contextlib.suppress(sqlite3.OperationalError):  # then the next opening does look
                self.tables.set_fact("closed", "yes")
        self.tables.close()

    def close(self) -> None:
        """End the thread and let go of SQLite."""
        self.worker.close()
        self._reader.close()
        self.tables.close()
