"""Which records go, when and why; each leaves a tombstone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from cellhouse.journal.entries import Evicted, Tombstone
from cellhouse.journal.graveyard import Graveyard
from cellhouse.journal.index import Index
from cellhouse.journal.layout import Layout
from cellhouse.model import Clock, RetentionLimits, rfc3339

BATCH = 200


@dataclass(slots=True)
class Retention:
    """Its methods run on the worker's thread. What has not finished is never chosen."""

    layout: Layout
    index: Index
    graveyard: Graveyard
    limits: RetentionLimits
    clock: Clock

    def choose(self, running_bytes: int) -> list[Tombstone]:
        """The next records to evict, oldest end first, at most BATCH; empty where all are within the limits."""
        now = self.clock.now()
        too_old = rfc3339(now - timedelta(seconds=self.limits.age_seconds))
        excess = self.index.tables.total_bytes() + running_bytes - int(self.limits.bytes)
        chosen: list[Tombstone] = []
        for row in self.index.tables.oldest_finished(BATCH):
            if row.ended < too_old:
                why = "AGE"
            elif excess > 0:
                why = "BYTES"
            else:
                break
            excess -= row.bytes
            chosen.append(row.tombstone(rfc3339(now), why))
        return chosen

    def remove(self, tombstones: Sequence[Tombstone]) -> list[Evicted]:
        """Tombstones to disk first, then the files go, then the rows: what breaks off is finished at the next opening."""
        place = self.graveyard.add(tombstones)
        for tombstone in tombstones:
            self.layout.remove(tombstone.uid)
        self.layout.remove_empty_shelves(tombstone.uid for tombstone in tombstones)
        self.index.entomb(tombstones, place)
        return [Evicted(each.name, each.evicted, each.why, each.bytes) for each in tombstones]

    def expire(self) -> int:
        """Forget tombstones past their own limits."""
        before = rfc3339(self.clock.now() - timedelta(seconds=self.limits.tombstone_age_seconds))
        return self.graveyard.expire(before, self.limits.tombstones)
