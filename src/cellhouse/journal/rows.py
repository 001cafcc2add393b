"""Rows of the index: what they hold, and how they are made from a record file."""

from typing import NamedTuple

from cellhouse.files import RecordReader
from cellhouse.journal.entries import Entry, StartRecord, Tombstone
from cellhouse.journal.scan import LogFacts, read_finished
from cellhouse.model import ExecutionState, FinishedEvent, Outcome

EXECUTION_COLUMNS = (
    "uid, name, session, runtime, execution_id, target, code_sha256, created, finished, outcome, ended, bytes"
)
TOMBSTONE_COLUMNS = "uid, name, session, runtime, execution_id, target, code_sha256, evicted, why, bytes"


class Row(NamedTuple):
    """One execution in the index; the fields are its columns, in their order. `finished` is 1 once it has ended."""

    uid: str
    name: str
    session: str
    runtime: str
    execution_id: str
    target: str
    code_sha256: str
    created: str
    finished: int = 0
    outcome: str = ""
    ended: str = ""
    bytes: int = 0

    @classmethod
    def of(cls, start: StartRecord) -> "Row":
        return cls(
            start.uid,
            start.name,
            start.session,
            start.runtime,
            start.execution_id,
            start.target,
            start.code_sha256,
            start.created,
        )

    def ending(self, event: FinishedEvent, size: int) -> "Row":
        """The same execution, finished."""
        return self._replace(
            finished=1, outcome=str(event.result.outcome or ""), ended=event.time, bytes=size
        )

    def entry(self, state: ExecutionState) -> Entry:
        return Entry(
            uid=self.uid,
            name=self.name,
            session=self.session,
            runtime=self.runtime,
            execution_id=self.execution_id,
            target=self.target,
            code_sha256=self.code_sha256,
            created=self.created,
            state=state,
            outcome=Outcome(self.outcome) if self.outcome else None,
            ended=self.ended,
            bytes=self.bytes,
        )

    def tombstone(self, evicted: str, why: str) -> Tombstone:
        return Tombstone(
            uid=self.uid,
            name=self.name,
            session=self.session,
            runtime=self.runtime,
            execution_id=self.execution_id,
            target=self.target,
            code_sha256=self.code_sha256,
            evicted=evicted,
            why=why,
            bytes=self.bytes,
        )


def row_of_file(start: StartRecord, facts: LogFacts, reader: RecordReader, size: int) -> Row:
    """The row that a record file stands for."""
    row = Row.of(start)
    return row.ending(read_finished(reader, facts), size) if facts.finished_seq else row


def keys_of(found: Row | Tombstone) -> list[tuple[str, str, str]]:
    """What the execution is found by besides its name: its id in its session, and in its runtime where that was asked."""
    if not found.execution_id:
        return []
    keys = [("session", found.session, found.execution_id)]
    if found.target == "runtime":
        keys.append(("runtime", found.runtime, found.execution_id))
    return keys


def tombstone_values(tombstone: Tombstone) -> tuple[str | int, ...]:
    """The columns of a tombstone, in their order."""
    return (
        tombstone.uid,
        tombstone.name,
        tombstone.session,
        tombstone.runtime,
        tombstone.execution_id,
        tombstone.target,
        tombstone.code_sha256,
        tombstone.evicted,
        tombstone.why,
        tombstone.bytes,
    )
