"""What a local store knows of its artifacts: one SQLite file, which several processes may have open."""

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from cellhouse.artifacts.store import Scope
from cellhouse.model import ArtifactEviction, ArtifactLimits, StoredArtifact

BUSY_SECONDS: Final = 10.0
EVICTIONS: Final = 100_000
"""Facts of evictions that are kept, of all scopes together; the newest stay."""
BATCH: Final = 500
VERSION: Final = 1

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS artifacts (
    place INTEGER PRIMARY KEY AUTOINCREMENT, ref TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, principal TEXT NOT NULL,
    kind TEXT NOT NULL, media_type TEXT NOT NULL, bytes INTEGER NOT NULL, sha256 TEXT NOT NULL, label TEXT NOT NULL,
    origin TEXT NOT NULL, parents TEXT NOT NULL, created TEXT NOT NULL, expires TEXT NOT NULL, by_age INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS of_tenant ON artifacts (tenant, place);
CREATE INDEX IF NOT EXISTS of_scope ON artifacts (tenant, principal, place);
CREATE INDEX IF NOT EXISTS expiring ON artifacts (expires);
CREATE TABLE IF NOT EXISTS evictions (
    place INTEGER PRIMARY KEY AUTOINCREMENT, ref TEXT NOT NULL, tenant TEXT NOT NULL, principal TEXT NOT NULL,
    kind TEXT NOT NULL, label TEXT NOT NULL, bytes INTEGER NOT NULL, reason TEXT NOT NULL, created TEXT NOT NULL,
    evicted TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS evicted_of ON evictions (tenant, principal, place);
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One artifact as the table has it. Times are RFC 3339 in UTC, so that their order is that of their text."""

    place: int
    ref: str
    tenant: str
    principal: str
    kind: str
    media_type: str
    bytes: int
    sha256: str
    label: str
    origin: str
    parents: str
    created: str
    expires: str
    by_age: int

    def document(self) -> StoredArtifact:
        return StoredArtifact(
            ref=self.ref,
            kind=self.kind,
            media_type=self.media_type,
            bytes=self.bytes,
            sha256=self.sha256,
            label=self.label,
            origin=self.origin or None,
            parents=tuple(json.loads(self.parents)) or None,
            create_time=self.created,
            expire_time=self.expires,
        )


_COLUMNS: Final = ", ".join(each.name for each in fields(Row))
_NEW: Final = ", ".join(each.name for each in fields(Row)[1:])


class Catalogue:
    """Blocks a little, so it is called in threads; any of them, one at a time."""

    def __init__(self, path: Path) -> None:
        """Opens or makes it. Raises sqlite3.Error."""
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS)
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            with self._transaction():
                (version,) = self._db.execute("PRAGMA user_version").fetchone()
                if version > VERSION:
                    raise sqlite3.DatabaseError(
                        f"{path} was made by a later version ({version}); this one knows {VERSION}"
                    )
                for statement in _SCHEMA.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {VERSION}")
        except BaseException:
            self._db.close()
            raise

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """One step for every process that has the file open."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def _rows(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    # Looking up

    def find(self, scope: Scope, ref: str, now: str) -> Row | None:
        """None also where it is another scope's, or has expired."""
        found = self._rows(
            f"SELECT {_COLUMNS} FROM artifacts WHERE ref = ? AND tenant = ? AND principal = ? AND expires > ?",
            (ref, scope.tenant, scope.principal, now),
        )
        return Row(*found[0]) if found else None

    def page(
        self, scope: Scope, *, kind: str, origin: str, below: int | None, size: int, now: str
    ) -> list[Row]:
        where, values = ["tenant = ?", "principal = ?", "expires > ?"], [scope.tenant, scope.principal, now]
        for column, value in (("kind", kind), ("origin", origin)):
            if value:
                where.append(f"{column} = ?")
                values.append(value)
        limit: list[Any] = [size]
        if below is not None:
            where.append("place < ?")
            limit.insert(0, below)
        query = f"SELECT {_COLUMNS} FROM artifacts WHERE {' AND '.join(where)} ORDER BY place DESC LIMIT ?"
        return [Row(*each) for each in self._rows(query, [*values, *limit])]

    def evictions(self, scope: Scope, below: int | None, size: int) -> list[tuple[int, ArtifactEviction]]:
        found = self._rows(
            "SELECT place, ref, kind, label, bytes, reason, created, evicted FROM evictions "
            "WHERE tenant = ? AND principal = ? AND place < ? ORDER BY place DESC LIMIT ?",
            (scope.tenant, scope.principal, 2**62 if below is None else below, size),
        )
        return [(place, _eviction(*rest)) for place, *rest in found]

    def known(self, refs: Sequence[str]) -> set[str]:
        """Those of these refs that there are, whoever's."""
        marks = ", ".join("?" * len(refs))
        return {ref for (ref,) in self._rows(f"SELECT ref FROM artifacts WHERE ref IN ({marks})", refs)}

    # Changing

    def add(self, row: Row, limits: ArtifactLimits, now: str) -> list[ArtifactEviction]:
        """Put it in, and evict what is too much then of its tenant's."""
        values = [getattr(row, each.name) for each in fields(Row)[1:]]
        marks = ", ".join("?" * len(values))
        with self._transaction():
            self._db.execute(f"INSERT INTO artifacts ({_NEW}) VALUES ({marks})", values)
            return self._evict_excess(row.tenant, limits, now, but=row.ref)

    def remove(self, scope: Scope, ref: str, now: str) -> bool:
        with self._transaction():
            gone = self._db.execute(
                "DELETE FROM artifacts WHERE ref = ? AND tenant = ? AND principal = ? AND expires > ?",
                (ref, scope.tenant, scope.principal, now),
            )
            return gone.rowcount > 0

    def evict(self, limits: ArtifactLimits, now: str) -> list[ArtifactEviction]:
        """What has expired, at most `BATCH` at a time, and what is too much of each tenant's."""
        evicted: list[ArtifactEviction] = []
        with self._transaction():
            rows = self._db.execute(
                f"SELECT {_COLUMNS} FROM artifacts WHERE expires <= ? ORDER BY expires LIMIT {BATCH}", (now,)
            )
            expired = [Row(*each) for each in rows]
            evicted += [self._bury(row, "AGE" if row.by_age else "EXPIRED", now) for row in expired]
            for (tenant,) in self._db.execute("SELECT DISTINCT tenant FROM artifacts").fetchall():
                evicted += self._evict_excess(tenant, limits, now)
            self._db.execute(
                f"DELETE FROM evictions WHERE place <= (SELECT max(place) FROM evictions) - {EVICTIONS}"
            )
        return evicted

    def _evict_excess(
        self, tenant: str, limits: ArtifactLimits, now: str, but: str = ""
    ) -> list[ArtifactEviction]:
        count, size = self._db.execute(
            "SELECT count(*), coalesce(sum(bytes), 0) FROM artifacts WHERE tenant = ?", (tenant,)
        ).fetchone()
        evicted = []
        while count > limits.count or size > limits.bytes:
            found = self._db.execute(
                f"SELECT {_COLUMNS} FROM artifacts WHERE tenant = ? AND ref != ? ORDER BY place LIMIT 1",
                (tenant, but),
            ).fetchone()
            if found is None:
                break
            row = Row(*found)
            evicted.append(self._bury(row, "COUNT" if count > limits.count else "BYTES", now))
            count, size = count - 1, size - row.bytes
        return evicted

    def tell(self, scope: Scope, eviction: ArtifactEviction) -> None:
        """Note down what was taken away, of which there is no row."""
        with self._transaction():
            self._note(scope.tenant, scope.principal, eviction)

    def _bury(self, row: Row, reason: str, now: str) -> ArtifactEviction:
        self._db.execute("DELETE FROM artifacts WHERE place = ?", (row.place,))
        eviction = _eviction(row.ref, row.kind, row.label, row.bytes, reason, row.created, now)
        self._note(row.tenant, row.principal, eviction)
        return eviction

    def _note(self, tenant: str, principal: str, each: ArtifactEviction) -> None:
        self._db.execute(
            "INSERT INTO evictions (ref, tenant, principal, kind, label, bytes, reason, created, evicted) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                each.ref,
                tenant,
                principal,
                each.kind,
                each.label,
                each.bytes,
                each.reason,
                each.create_time,
                each.evict_time,
            ),
        )

    def close(self) -> None:
        with self._lock:
            self._db.close()


def _eviction(
    ref: str, kind: str, label: str, size: int, reason: str, created: str, evicted: str
) -> ArtifactEviction:
    return ArtifactEviction(
        ref=ref, kind=kind, label=label, bytes=size, reason=reason, create_time=created, evict_time=evicted
    )
