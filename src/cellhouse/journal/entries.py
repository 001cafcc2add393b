"""What the journal tells about executions: how each began, where it stands, what is left of an evicted one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from cellhouse.model import ExecutionState, Outcome

Target = Literal["session", "runtime"]


@dataclass(frozen=True, slots=True)
class StartRecord:
    """How an execution was asked for; the first record of its file. `session` and `runtime` are full names."""

    uid: str
    name: str
    session: str
    runtime: str
    execution_id: str
    code: str
    code_sha256: str
    target: Target
    created: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """One execution that is on record. `bytes` is what it takes on disk once it has finished, 0 before."""

    uid: str
    name: str
    session: str
    runtime: str
    execution_id: str
    target: str
    code_sha256: str
    created: str
    state: ExecutionState
    outcome: Outcome | None = None
    ended: str = ""
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What stays of an evicted execution, so that its id never runs again. `why`: AGE, BYTES or RECORD_LOST."""

    uid: str
    name: str
    session: str
    runtime: str
    execution_id: str
    target: str
    code_sha256: str
    evicted: str
    why: str
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Evicted:
    """One record that retention removed: when, why (AGE or BYTES), and the bytes that it took."""

    name: str
    when: str
    why: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Page:
    """Executions of a session, oldest first; `next_page_token` is empty on the last page."""

    entries: list[Entry]
    next_page_token: str
