"""One execution that was told, and what must hold for any of them."""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cellhouse.journal import ExecutionLog, Journal
from cellhouse.model import (
    CaptureLimits,
    DisplayEvent,
    DisplayUpdatedEvent,
    Event,
    ExecuteCodeResult,
    ExecutionState,
    FinishedEvent,
    LateEvent,
    NoticeEvent,
    Outcome,
    SessionName,
    SessionState,
    StreamEvent,
)

NAME = SessionName("contract", "one")


@dataclass
class Told:
    """One execution that has ended: its result, its events, where its outputs lie."""

    result: ExecuteCodeResult
    events: list[Event]
    log: ExecutionLog
    content: Path

    @property
    def kinds(self) -> list[str]:
        """The types of its events between `queued` and `finished`, streams folded into one each."""
        kinds: list[str] = []
        for event in self.events[1:-1]:
            if not (kinds and kinds[-1] == event.type == "stream"):
                kinds.append(event.type)
        return kinds

    @property
    def notices(self) -> list[str]:
        return [notice.reason for notice in self.result.notices or ()]

    @property
    def reason(self) -> str:
        assert self.result.outcome_info is not None
        return self.result.outcome_info.reason

    @property
    def metadata(self) -> Mapping[str, str]:
        assert self.result.outcome_info is not None
        return self.result.outcome_info.metadata

    @property
    def error(self) -> tuple[str, str]:
        assert self.result.execution_error is not None
        return self.result.execution_error.name, self.result.execution_error.value

    def sources(self, name: str = "stdout") -> list[str | None]:
        """Where the printed text came from, neighbours of one source as one."""
        found: list[str | None] = []
        for event in self.events:
            if isinstance(event, StreamEvent) and event.name == name and event.source not in found[-1:]:
                found.append(event.source)
        return found

    def bundle(self, index: int = 0) -> dict[str, Any]:
        """What lies on disk for a rich output."""
        path = self.result.rich_outputs[index].file_path
        assert path is not None
        document = json.loads((self.content / path.removeprefix("/content/")).read_bytes())
        assert isinstance(document, dict)
        return document

    def drop(self, index: int = 0) -> str:
        info = self.result.rich_outputs[index].error_info
        assert info is not None
        return info.reason


# what holds for every execution


def check(told: Told, journal: Journal) -> None:
    result, events = told.result, told.events
    numbers = [event.seq for event in events]
    assert numbers == list(range(1, len(numbers) + 1))
    ends = [event for event in events if isinstance(event, FinishedEvent)]
    assert len(ends) == 1
    assert ends[0].result == result
    later = events[events.index(ends[0]) + 1 :]
    assert all(isinstance(event, LateEvent) for event in later)
    told.events = events[: events.index(ends[0]) + 1]
    assert told.events[0].type == "queued"
    started = [event.type for event in told.events].count("started")
    assert started == (0 if result.outcome is Outcome.NEVER_STARTED else 1)

    assert result.state is ExecutionState.FINISHED
    assert result.outcome is not None
    assert (result.execution_error is None) == (result.outcome is Outcome.OK)
    assert (result.outcome_info is None) == (result.outcome is Outcome.OK)
    assert result.session_state in _STATES[result.outcome]
    assert result.execution == told.log.name
    assert result.session == str(NAME)
    assert ExecuteCodeResult.from_json(result.to_json()) == result
    entry = journal.find(session=str(NAME), runtime=None, execution_id=result.execution.rpartition("/")[2])
    if entry is not None:
        assert getattr(entry, "outcome", result.outcome) == result.outcome
    log = journal.get(result.execution)
    assert log is not None
    assert log.finished == result

    _check_ledger(told)
    _check_text(told)
    said = [(event.reason, event.text) for event in told.events if isinstance(event, NoticeEvent)]
    assert said == [(notice.reason, notice.text) for notice in result.notices or ()]


def _no_constant(name: str) -> object:
    raise AssertionError(f"{name} is no JSON")


_LIVE = {SessionState.PRESERVED}
_DEAD = {SessionState.RESET, SessionState.GONE}
_STATES: dict[Outcome, set[SessionState]] = {
    Outcome.OK: _LIVE
    | {SessionState.RESET},  # the kernel was lost in taking back what held for this one only
    Outcome.ERROR: _LIVE | {SessionState.RESET},
    Outcome.INTERRUPTED: _LIVE | {SessionState.RESET},
    Outcome.TIMED_OUT: _LIVE | {SessionState.RESET},
    Outcome.EXITED: _DEAD,
    Outcome.KERNEL_DIED: _DEAD,
    Outcome.OUT_OF_MEMORY: _DEAD,
    Outcome.RESOURCE_KILLED: _DEAD,
    Outcome.SESSION_DELETED: _DEAD,
    Outcome.RUNTIME_LOST: _DEAD,
    Outcome.NEVER_STARTED: _LIVE | _DEAD,
}


def _check_ledger(told: Told) -> None:
    outputs = told.result.rich_outputs
    assert [output.index for output in outputs] == list(range(len(outputs)))
    assert told.result.rich_outputs_dropped == bool(outputs)
    shown = [event for event in told.events if isinstance(event, DisplayEvent)]
    assert [event.index for event in shown] == list(range(len(outputs)))
    updated = {event.index for event in told.events if isinstance(event, DisplayUpdatedEvent)}
    for event, output in zip(shown, outputs, strict=True):
        assert event.mime_types == output.mime_types or event.index in updated
    digests = {note["index"]: note for note in told.log.notes("bundle")}
    for output in outputs:
        assert output.mime_types
        assert "text/plain" not in output.mime_types
        path = told.content / f".dsm_outputs/{told.log.uid}/out-{output.index:03}.json"
        if output.file_path is None:
            assert output.error_info is not None
            assert not output.size_bytes  # absent on the wire
            assert not path.exists()
            continue
        assert output.file_path == f"/content/.dsm_outputs/{told.log.uid}/{path.name}"
        data = path.read_bytes()
        assert len(data) == output.size_bytes
        assert digests[output.index]["sha256"] == hashlib.sha256(data).hexdigest()
        bundle = json.loads(data, parse_constant=_no_constant)
        assert bundle["output_type"] in ("display_data", "execute_result")
        for mime_type in output.mime_types:
            assert mime_type in bundle["data"]
            if mime_type.startswith(("image/png", "image/jpeg", "application/pdf")):
                value = bundle["data"][
                    mime_type
                ]  # a string, or a list of strings: nbformat's multi-line string
                base64.b64decode("".join("".join(value).split()), validate=True)
    directory = told.content / ".dsm_outputs" / told.log.uid
    written = {output.file_path.rpartition("/")[2] for output in outputs if output.file_path is not None}
    assert {path.name for path in directory.glob("*")} == written


def _check_text(told: Told) -> None:
    result = told.result
    for name, text in (("stdout", result.stdout), ("stderr", result.stderr), ("result", result.result)):
        text.encode()  # no lone surrogate
        cut = getattr(result.truncation, name) if result.truncation is not None else None
        assert len(text) <= CaptureLimits().inline_chars + 1000
        assert cut is not None or "\r" not in text or name == "result"
    for name in ("stdout", "stderr"):
        logged = "".join(e.text for e in told.events if isinstance(e, StreamEvent) and e.name == name)
        page = told.log.read_text(name, 0, 1 << 20)  # type: ignore[arg-type]
        if page.eof:
            assert page.text == logged
