"""A session with a real journal and a real content directory over whichever kernel; every result is held against all."""

import asyncio
import inspect
import textwrap
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from cellhouse.artifacts import BoundStore, LocalStore, Scope
from cellhouse.files import HostileDir
from cellhouse.journal import ExecutionLog, Journal, StartRecord
from cellhouse.kernel import Kernel
from cellhouse.model import (
    CaptureLimits,
    Event,
    ExecuteCodeRequest,
    LateEvent,
    Outcome,
    RetentionLimits,
    SessionLimits,
    StreamEvent,
    SystemClock,
    mint_id,
    mint_uid,
    rfc3339,
)
from cellhouse.runtime.execution import Execution
from cellhouse.runtime.files import ContentFiles
from cellhouse.runtime.outcome import Ending
from cellhouse.runtime.session import Session
from cellhouse.runtime.session_log import SessionLog, read_session_log
from tests.contract.truths import NAME, Told, check
from tests.kernel.fake import FakeKernel, Script, Sent

SECONDS = 30.0
"""After which a test that waits for something has failed."""
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
        self._files: ContentFiles

    async def open(self) -> "Rig":
        self.content.mkdir()
        self.journal = await Journal.open(
            self._directory / "journal", clock=self._clock, retention=RetentionLimits()
        )
        self._hostile_dir = HostileDir.open(self.content)
        store = BoundStore(LocalStore(self._directory / "artifacts"), Scope("tenant"))
        self._files = ContentFiles(self._hostile_dir, CaptureLimits(), artifacts=store, minting="off")
        self.session = Session(
            NAME,
            make_kernel=self._kernel,
            content=self._hostile_dir,
            files=self._files,
            session_log=SessionLog(self._directory / "session.jsonl", self._clock),
            limits=SessionLimits(),
            capture=CaptureLimits(),
            clock=self._clock,
        )
        return self

    async def close(self) -> None:
        await self.session.close(Ending.DELETE_SESSION, "the test is over")
        await self.journal.close()
        self._files.close()
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
    def native(self) -> bool:
        return self.variant == "native"

    @property
    def ipykernel(self) -> bool:
        return self.variant == "ipykernel"

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


def plain(told: Told) -> tuple[Outcome | None, str, str, str]:
    """What most tests look at."""
    return told.result.outcome, told.result.stdout, told.result.stderr, told.result.result


def undamaged(told: Told) -> None:
    """No sign of a loss."""
    assert not DAMAGE & set(told.notices)


def reasons(log: Sequence[Mapping[str, str]]) -> list[str]:
    return [entry["kind"] for entry in log]


# In a cell: say anything on iopub, as the kernel itself would.
SAY = """
def say(msg_type, content, parent=None, raw=None):
    kernel = get_ipython().kernel
    link = getattr(getattr(get_ipython(), 'sink', None), 'link', None)
    if link is not None:
        parent = kernel.get_parent()['header']['msg_id'] if parent is None else parent
        link.send(msg_type, content if raw is None else raw, parent=parent)
        return
    header = kernel.get_parent() if parent is None else {'header': {'msg_id': parent}}
    session = kernel.session
    if raw is None:
        session.send(kernel.iopub_socket, msg_type, content, parent=header)
    else:
        message = session.msg(msg_type, {}, parent=header)
        parts = [session.pack(message[part]) for part in ('header', 'parent_header', 'metadata')] + [raw]
        kernel.iopub_socket.send_multipart([b'x', b'<IDS|MSG>', session.sign(parts), *parts])
"""


def say_next(k: Words) -> None:
    """The act of an ordinary execution."""
    k.echo()
    k.stream("next\n")
    k.done()
