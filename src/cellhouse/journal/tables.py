"""The tables of the index, for the worker's thread alone."""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from cellhouse.journal import schema
from cellhouse.journal.entries import Tombstone
from cellhouse.journal.rows import EXECUTION_COLUMNS, TOMBSTONE_COLUMNS, Row, tombstone_values

_UPSERT = f"INSERT OR REPLACE INTO executions ({EXECUTION_COLUMNS}) VALUES ({', '.join('?' * 12)})"
_ENTOMB = f"INSERT INTO tombstones ({TOMBSTONE_COLUMNS}) VALUES ({', '.join('?' * 10)})"
_BATCH = 500


class Tables:
    """Every write is one transaction. `fresh`: made just now and empty, to be filled from the record files."""

    def __init__(self, path: Path) -> None:
        """Raises FailedPrecondition for an index of a later version."""
        self._connection, self.fresh = schema.prepare(path)

    def close(self) -> None:
        self._connection.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    # Facts

    def fact(self, key: str) -> str:
        row = self._connection.execute("SELECT value FROM facts WHERE key = ?", (key,)).fetchone()
        return "" if row is None else str(row[0])

    def set_fact(self, key: str, value: str) -> None:
        self._connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (key, value))

    # Executions

    def put(self, rows: Sequence[Row]) -> None:
        with self._transaction() as connection:
            connection.executemany(_UPSERT, rows)

    def drop(self, uids: Iterable[str]) -> None:
        with self._transaction() as connection:
            connection.executemany("DELETE FROM executions WHERE uid = ?", [(uid,) for uid in uids])

    def row(self, uid: str) -> Row | None:
        found = self._connection.execute(
            f"SELECT {EXECUTION_COLUMNS} FROM executions WHERE uid = ?", (uid,)
        ).fetchone()
        return None if found is None else Row(*found)

    def rows(self, where: str = "1", values: tuple[str | int, ...] = ()) -> Iterator[Row]:
        """Executions in the order of their uids; the tables may be changed meanwhile."""
        after = ""
        while True:
            page = self._connection.execute(
                f"SELECT {EXECUTION_COLUMNS} FROM executions WHERE uid > ? AND ({where}) ORDER BY uid LIMIT {_BATCH}",
                (after, *values),
            ).fetchall()
            yield from (Row(*found) for found in page)
            if len(page) < _BATCH:
                return
            after = page[-1][0]

    def unfinished(self) -> list[Row]:
        return list(self.rows("finished = 0"))

    def oldest_finished(self, limit: int) -> list[Row]:
        """The executions that ended first."""
        found = self._connection.execute(
            f"SELECT {EXECUTION_COLUMNS} FROM executions WHERE finished = 1 ORDER BY ended, uid LIMIT ?",
            (limit,),
        )
        return [Row(*row) for row in found]

    def count(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM executions").fetchone()[0])

    def total_bytes(self) -> int:
        return int(self._connection.execute("SELECT coalesce(sum(bytes), 0) FROM executions").fetchone()[0])

    # Tombstones

    def entomb(self, tombstones: Sequence[Tombstone], place: str) -> None:
        """Tombstones in, their executions out; `place` says how far tombstones.rec is in the tables now."""
        with self._transaction() as connection:
            connection.executemany(
                "DELETE FROM executions WHERE uid = ?", [(each.uid,) for each in tombstones]
            )
            connection.executemany(_ENTOMB, [tombstone_values(each) for each in tombstones])
            connection.execute("INSERT OR REPLACE INTO facts VALUES ('tombstones', ?)", (place,))

    def clear_tombstones(self) -> None:
        with self._transaction() as connection:
            connection.execute("DELETE FROM tombstones")
            connection.execute("DELETE FROM facts WHERE key IN ('tombstones', 'forgotten')")

    def tombstones(self) -> Iterator[Tombstone]:
        """In the order in which they were made."""
        after = 0
        while True:
            page = self._connection.execute(
                f"SELECT number, {TOMBSTONE_COLUMNS} FROM tombstones WHERE number > ? ORDER BY number LIMIT {_BATCH}",
                (after,),
            ).fetchall()
            yield from (Tombstone(*found[1:]) for found in page)
            if len(page) < _BATCH:
                return
            after = page[-1][0]

    def tombstone_count(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM tombstones").fetchone()[0])

    def entombed(self, uid: str, name: str) -> bool:
        found = self._connection.execute(
            "SELECT 1 FROM tombstones WHERE name = ? AND uid = ?", (name, uid)
        ).fetchone()
        return found is not None

    def expire_tombstones(self, before: str, keep: int) -> int:
        """Forget those evicted before a time, and the oldest beyond `keep`; how many."""
        with self._transaction() as connection:
            # Made in order of time, so the first that is young enough parts them.
            row = connection.execute(
                "SELECT min(number) FROM tombstones WHERE evicted >= ?", (before,)
            ).fetchone()
            young = row[0] if row[0] is not None else 1 << 62
            row = connection.execute(
                "SELECT number FROM tombstones ORDER BY number DESC LIMIT 1 OFFSET ?", (keep - 1,)
            ).fetchone()
            first = max(young, row[0] if row is not None else 0)
            return connection.execute("DELETE FROM tombstones WHERE number < ?", (first,)).rowcount
