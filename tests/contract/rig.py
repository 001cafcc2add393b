"""A session with a real journal and a real content directory over whichever kernel; every result is held against all."""

import asyncio
import base64
import hashlib
import inspect
import json
import textwrap
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from cellhouse.files import HostileDir
from cellhouse.journal import ExecutionLog, Journal, StartRecord
from cellhouse.kernel import Kernel
from cellhouse.model import (
    CaptureLimits,
    DisplayEvent,
    DisplayUpdatedEvent,
    Event,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    ExecutionState,
    FinishedEvent,
    LateEvent,
    NoticeEvent,
    Outcome,
    RetentionLimits,
    SessionLimits,
    SessionName,
    SessionState,
    StreamEvent,
    SystemClock,
    mint_id,
    mint_uid,
    rfc3339,
)
from cellhouse.runtime.execution import Execution
from cellhouse.runtime.outcome import Ending
from cellhouse.runtime.session import Session
from cellhouse.runtime.session_log import SessionLog, read_session_log
from tests.kernel.fake import FakeKernel, Script, Sent

SECONDS = 30.0
"""After which a test that waits for something has failed."""
NAME = SessionName("contract", "one")
DAMAGE = {"IOPUB_LOST", "REPLY_LOST", "OUTPUT_LOST"}
"""Notices that only a kernel which breaks the protocol may cause."""


class Words(Protocol):
    """What an act may say: the same on a fake kernel and in a hostile process."""

    def say(self, msg_type: str, content: Any, *, channel: Any = ..., parent: str | None = ...) -> None: ...
    def busy(self) -> None: ...
    def idle(self, *, parent: str | None = ...) -> None: ...
    def echo(self, code: str = ...) -> None: ...
    def stream(self, text: object, name: str = ..., *, parent: str | None = ...) -> None: ...
    def raw(self, text: str, name: str = ...) -> None: ...
    def display(self, data: object, display_id: str = ..., *, parent: str | None = ...) -> None: ...
    def value(self, data: object) -> None: ...
    def error(self, name: object, value: object) -> None: ...
    def reply(self, status: object = ..., *, parent: str | None = ..., **content: Any) -> None: ...
    def reply_error(self, name: str, value: str) -> None: ...
    def done(self, **content: Any) -> None: ...


Act = Callable[[Words], None]
FakeAct = Callable[[FakeKernel], None]


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


class Rig:
    """Runs code, or acts, and holds what is told against what must hold for any execution."""

    def __init__(self, directory: Path, variant: str, make_kernel: Callable[[], Awaitable[Kernel]]) -> None:
        self.variant = variant
        self.content = directory / "content"
        self.script: Script | None = None
        self.kernels: list[Kernel] = []
        self.session: Session
        self.journal: Journal
        self._directory = directory
        self._make_kernel = make_kernel
        self._clock = SystemClock()
        self._hostile_dir: HostileDir

    async def open(self) -> "Rig":
        self.content.mkdir()
        self.journal = await Journal.open(
            self._directory / "journal", clock=self._clock, retention=RetentionLimits()
        )
        self._hostile_dir = HostileDir.open(self.content)
        self.session = Session(
            NAME,
            make_kernel=self._kernel,
            content=self._hostile_dir,
            session_log=SessionLog(self._directory / "session.jsonl", self._clock),
            limits=SessionLimits(),
            capture=CaptureLimits(),
            clock=self._clock,
        )
        return self

    async def close(self) -> None:
        await self.session.close(Ending.DELETE_SESSION, "the test is over")
        await self.journal.close()
        self._hostile_dir.close()

    async def _kernel(self) -> Kernel:
        kernel = await self._make_kernel()
        self.kernels.append(kernel)
        return kernel

    async def play(self, kernel: FakeKernel, request: Sent) -> None:
        """The script of every fake kernel: whatever is to be played now."""
        assert self.script is not None
        await self.script(kernel, request)

    @property
    def fake(self) -> bool:
        return self.variant == "fake"

    @property
    def session_log(self) -> list[dict[str, str]]:
        return read_session_log(self.session.log.path)

    @contextmanager
    def limits(self, **changes: Any) -> Iterator[None]:
        """Other session limits for the executions begun meanwhile."""
        before = self.session.limits
        self.session.limits = replace(before, **changes)
        try:
            yield
        finally:
            self.session.limits = before

    async def submit(self, code: str, script: Script | FakeAct | None = None, **options: Any) -> Execution:
        """Hand code in. `script` is what a fake kernel does in its place: an act, or a coroutine function."""
        if script is not None:
            self.script = _script_of(script)
        name = NAME.execution(mint_id("e"))
        request = ExecuteCodeRequest(code=code, session=str(NAME), **options)
        log = await self.journal.begin(
            StartRecord(
                uid=mint_uid(),
                name=str(name),
                session=str(NAME),
                runtime=str(NAME.runtime_name),
                execution_id="",
                code=code,
                code_sha256=request.code_sha256,
                target="session",
                created=rfc3339(self._clock.now()),
            )
        )
        execution = Execution(name, request, log, self._clock)
        self.session.submit(execution)
        return execution

    async def end_of(self, execution: Execution) -> Told:
        async with asyncio.timeout(SECONDS):
            await execution.finished.wait()
        assert execution.result is not None
        told = Told(execution.result, execution.log.read(0, 100_000), execution.log, self.content)
        check(told, self.journal)
        return told

    async def run(self, code: str, script: Script | FakeAct | None = None, **options: Any) -> Told:
        return await self.end_of(await self.submit(code, script, **options))

    async def act(self, act: Act, **options: Any) -> Told:
        """The same act by a fake kernel and by a hostile process."""
        source = textwrap.dedent(inspect.getsource(act))
        code = f"from __future__ import annotations\n{source}\n{act.__name__}(k)\n"
        return await self.run(code, act, **options)

    async def started(self, code: str, script: Script | FakeAct | None = None, **options: Any) -> Execution:
        """Hand code in, and return once it runs."""
        execution = await self.submit(code, script, **options)
        async with asyncio.timeout(SECONDS):
            await execution.started.wait()
        return execution

    async def event(self, log: ExecutionLog, wanted: Callable[[Event], bool]) -> Event:
        """The first event that is wanted, once there is one."""
        after = 0
        async with asyncio.timeout(SECONDS):
            while True:
                for event in log.read(after, 1000):
                    after = event.seq
                    if wanted(event):
                        return event
                await log.wait(after)

    def let_go(self) -> None:
        """What waits in the background for the file `go`, or in a fake kernel for an interrupt, goes on."""
        (self.content / "go").touch()
        for kernel in self.kernels:
            if isinstance(kernel, FakeKernel):
                kernel.interrupted.set()

    async def printed(self, execution: Execution, text: str) -> None:
        """Once this text has come, whole, from the execution."""
        await self.event(execution.log, lambda event: isinstance(event, StreamEvent) and text in event.text)

    async def late(self, told: Told, text: str) -> LateEvent:
        """The late event with this text, once it is there."""
        found = await self.event(
            told.log, lambda event: isinstance(event, LateEvent) and text in (event.text or "")
        )
        assert isinstance(found, LateEvent)
        return found


def _script_of(act: Any) -> Script:
    async def script(kernel: FakeKernel, request: Sent) -> None:
        act(kernel)

    return act if inspect.iscoroutinefunction(act) else script


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


def plain(told: Told) -> tuple[Outcome | None, str, str, str]:
    """What most tests look at."""
    return told.result.outcome, told.result.stdout, told.result.stderr, told.result.result


def undamaged(told: Told) -> None:
    """No sign of a loss."""
    assert not DAMAGE & set(told.notices)


def reasons(log: Sequence[Mapping[str, str]]) -> list[str]:
    return [entry["kind"] for entry in log]
