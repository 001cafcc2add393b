"""House: the one way in. Every door calls these methods and no others."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from cellhouse.environments import find_environment
from cellhouse.files import HostileDir
from cellhouse.journal import ExecutionLog, Journal, Page, TextPage
from cellhouse.model import (
    AlreadyExists,
    CallReason,
    Clock,
    Event,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    ExecutionName,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    RichOutput,
    Runtime,
    RuntimeName,
    RuntimeSpec,
    Session,
    SessionName,
    SystemClock,
    TailFrame,
    Unavailable,
    check_id,
    mint_id,
)
from cellhouse.runtime import (
    Ending,
    ExecutionHandle,
    InProcessHost,
    OutputData,
    RuntimeHost,
    RuntimeStore,
    Settings,
    outputs,
)
from cellhouse.runtime.answering import NotOpened, answering
from cellhouse.runtime.folded import FoldedText
from cellhouse.runtime.host import ExecutionReader
from cellhouse.runtime.logs import logger
from cellhouse.runtime.once import check_readable, find_log, known_execution
from cellhouse.runtime.recorded import Recorded
from cellhouse.runtime.session_log import evict_session_logs, read_session_log
from cellhouse.runtime.state import own_state_dir
from cellhouse.runtime.store import remove_tree

_logger = logger()

TextName = Literal["stdout", "stderr", "result", "traceback"]
EVICT_SECONDS = 60.0
"""Retention is looked at so often: what exceeds it meanwhile is what can be written in that time."""


class House:
    """Runtimes, their sessions, and every execution that was recorded in one state directory.

    An async context manager, owned by one event loop. Without a state directory it makes one of its own
    below `CELLHOUSE_STATE_DIR` (else the XDG state directory), so that two never meet. Closing it ends all
    runtimes; records and bundles stay readable by the next House on the same directory.
    """

    def __init__(
        self,
        state_dir: Path | str | None = None,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._settings = settings or Settings(
            state_dir=Path(state_dir) if state_dir is not None else own_state_dir(self._clock)
        )
        self._hosts: dict[str, RuntimeHost] = {}
        self._creating: dict[str, asyncio.Future[None]] = {}
        self._journal: Journal
        self._store: RuntimeStore
        self._recorded: Recorded
        self._evictor: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        self._open = False

    @property
    def state_dir(self) -> Path:
        return self._settings.state_dir

    async def __aenter__(self) -> Self:
        state = self._settings.state_dir
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chmod(state, 0o700)
        self._journal = await Journal.open(
            state / "journal",
            clock=self._clock,
            retention=self._settings.retention,
            durability=self._settings.durability,
            limits=self._settings.capture,
            view=FoldedText,
        )
        try:
            self._store = RuntimeStore(state / "runtimes", self._clock)
            await asyncio.to_thread(self._store.reap)
        except BaseException:
            await self._journal.close()
            raise
        self._recorded = Recorded(self._journal)
        self._closing = None
        self._stop.clear()
        self._evictor = asyncio.get_running_loop().create_task(self._evict_now_and_then(), name="evict")
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @answering
    async def close(self) -> None:
        """End every runtime and close the journal. May be called twice."""
        if self._open:
            self._open = False
            self._closing = asyncio.get_running_loop().create_task(self._close(), name="close")
        if self._closing is not None:
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        assert self._evictor is not None
        self._stop.set()
        await asyncio.wait([self._evictor])  # not broken off: the directory is the next owner's afterwards
        if self._creating:
            await asyncio.wait(self._creating.values())
        try:
            # Until all have ended, each is found: what ends now can be read.
            ended = await asyncio.gather(
                *(self._close_runtime(runtime, host) for runtime, host in list(self._hosts.items())),
                return_exceptions=True,
            )
        finally:
            await self._journal.close()
        for error in ended:
            if error is not None:
                raise error

    async def _close_runtime(self, runtime: str, host: RuntimeHost) -> None:
        await host.close(Ending.RUNTIME_LOST, "the house was closed")
        self._hosts.pop(runtime, None)
        self._store.mark_closed(runtime)

    # runtimes

    @answering
    async def create_runtime(
        self, spec: RuntimeSpec | None = None, *, runtime_id: str | None = None
    ) -> Runtime:
        """A new runtime, ready. ALREADY_EXISTS, FAILED_PRECONDITION (walls or environment that can't be had)."""
        self._check_open()
        spec = spec or RuntimeSpec()
        runtime = check_id(runtime_id, "runtimeId") if runtime_id is not None else mint_id("rt")
        if runtime in self._hosts or runtime in self._creating:
            raise AlreadyExists(f"{RuntimeName(runtime)} exists; use another id", reason=CallReason.ID_TAKEN)
        if len(self._hosts) + len(self._creating) >= self._settings.max_runtimes:
            raise ResourceExhausted(
                f"there are {self._settings.max_runtimes} runtimes, which is the limit (max_runtimes); delete one",
                reason=CallReason.QUOTA_EXCEEDED,
                limit="max_runtimes",
            )
        environment = find_environment(
            spec.environment, list(self._settings.environments) if self._settings.environments else None
        )
        created = self._creating[runtime] = asyncio.get_running_loop().create_future()
        try:
            record = self._store.create(runtime, spec)
            try:
                host = InProcessHost(
                    RuntimeName(runtime),
                    spec,
                    directory=self._store.path(runtime),
                    session_logs=self._session_logs(runtime),
                    token=record.token,
                    environment=environment,
                    journal=self._journal,
                    settings=self._settings,
                    clock=self._clock,
                    on_gone=self._runtime_gone,
                )
                await host.start()
                if not self._open:
                    await host.close(Ending.RUNTIME_LOST, "the house was closed")
                    raise Unavailable(
                        "this house was closed while the runtime was created",
                        reason=CallReason.SHUTTING_DOWN,
                    )
            except BaseException:
                self._store.remove(runtime)
                raise
            self._hosts[runtime] = host
        finally:
            del self._creating[runtime]
            created.set_result(None)
        return host.describe()

    @answering
    def get_runtime(self, name: str) -> Runtime:
        return self._host(RuntimeName.parse(name)).describe()

    @answering
    def list_runtimes(self) -> list[Runtime]:
        return [host.describe() for host in self._hosts.values()]

    @answering
    async def keep_alive(self, name: str) -> Runtime:
        """Put off the runtime's `expireTime`."""
        host = self._host(RuntimeName.parse(name))
        await host.keep_alive()
        return host.describe()

    @answering
    async def delete_runtime(self, name: str) -> None:
        """End it and remove its files; the records of its executions stay."""
        runtime = RuntimeName.parse(name)
        while (creating := self._creating.get(runtime.runtime)) is not None:
            await asyncio.wait([creating])  # its directory is in use, and what is in it not to be found yet
        host = self._hosts.get(runtime.runtime)
        if host is not None:
            # Found until it has ended: what ends now can be read.
            try:
                await host.close(Ending.DELETE_RUNTIME, "the runtime was deleted")
            finally:
                # Also where that failed: it takes nothing more, and whoever deletes it again gets rid of its files.
                others = self._hosts.get(runtime.runtime, host) is not host
                if not others:
                    self._hosts.pop(runtime.runtime, None)
            if others or runtime.runtime in self._creating:
                return  # somebody else was faster with it, and the id is a new runtime's by now
        elif self._store.read(runtime.runtime) is None:
            raise NotFound(f"there is no runtime {runtime}", reason=CallReason.NO_SUCH_RUNTIME)
        if (going := self._store.take_away(runtime.runtime)) is not None:
            await asyncio.to_thread(remove_tree, going)

    # sessions

    @answering
    async def create_session(self, runtime: str, *, session_id: str | None = None) -> Session:
        if session_id is not None:
            check_id(session_id, "sessionId")
        return await self._host(RuntimeName.parse(runtime)).create_session(session_id)

    @answering
    def get_session(self, name: str) -> Session:
        session = SessionName.parse(name)
        return self._host(session.runtime_name).get_session(session.session)

    @answering
    def list_sessions(self, runtime: str) -> list[Session]:
        return self._host(RuntimeName.parse(runtime)).list_sessions()

    @answering
    async def interrupt(self, session: str) -> bool:
        """Interrupt what runs in the session; False where nothing does."""
        name = SessionName.parse(session)
        return await self._host(name.runtime_name).interrupt(name.session)

    @answering
    async def restart(self, session: str) -> None:
        """End what runs and waits there; the next execution gets a fresh kernel and is told so."""
        name = SessionName.parse(session)
        await self._host(name.runtime_name).restart(name.session)

    @answering
    async def delete_session(self, session: str) -> None:
        """End it; /content stays, what it shares with its siblings."""
        name = SessionName.parse(session)
        await self._host(name.runtime_name).delete_session(name.session)

    @answering
    def session_log(self, session: str) -> list[dict[str, str]]:
        """What the session's kernel said that belongs to no execution: `{time, kind, text}`, oldest first."""
        name = SessionName.parse(session)
        return read_session_log(self._session_logs(name.runtime) / f"{name.session}.jsonl")

    # executions

    @answering
    async def execute(self, request: ExecuteCodeRequest) -> ExecutionHandle:
        """Accept code. Returns once it is recorded and queued; a repeat of an `executionId` attaches.

        Raises every error of CONTRACT §6 that concerns the call; what the code does is in the result.
        """
        self._check_open()
        target = request.check(self._settings.session)
        runtime = target if isinstance(target, RuntimeName) else target.runtime_name
        wait_timeout = request.wait_timeout or self._settings.session.wait_timeout
        if (
            runtime.runtime not in self._hosts
            and (known := known_execution(self._journal, request)) is not None
        ):
            return ExecutionHandle(self._recorded, known, attached=True, wait_timeout=wait_timeout)
        host = self._host(runtime)
        submitted = await host.execute(request)
        return ExecutionHandle(host, submitted.name, attached=submitted.attached, wait_timeout=wait_timeout)

    @answering
    async def get_execution(self, name: str) -> ExecuteCodeResult:
        """The snapshot while it runs, the result after, also of a runtime that is gone."""
        execution = ExecutionName.parse(name)
        return await self._reader(execution).snapshot(execution)

    @answering
    def events(
        self, name: str, *, after: int = 0, late: bool = False, tails: bool = False
    ) -> AsyncIterator[Event | TailFrame]:
        """The events above number `after`, live or long over. INVALID_ARGUMENT for a negative number."""
        execution = ExecutionName.parse(name)
        if after < 0:
            raise InvalidArgument.of_field("after", f"{after} is no event number; it takes 0 or more")
        return self._reader(execution).follow(execution, after=after, late=late, tails=tails)

    @answering
    async def cancel(self, name: str) -> None:
        """Interrupt the execution, or end it where it still waits. Nothing happens where it has ended."""
        execution = ExecutionName.parse(name)
        await self._reader(execution).cancel(execution)

    @answering
    async def provide_input(self, name: str, value: str) -> None:
        """Answer an `inputRequested`. FAILED_PRECONDITION where nothing is asked."""
        execution = ExecutionName.parse(name)
        await self._reader(execution).provide_input(execution, value)

    @answering
    def list_executions(self, session: str, *, page_size: int = 100, page_token: str = "") -> Page:
        """A page of the session's executions, oldest first."""
        name = SessionName.parse(session)
        check_readable(self._journal)
        return self._journal.list(str(name), page_size=page_size, page_token=page_token)

    @answering
    def read_text(self, name: str, which: TextName, *, offset: int = 0, limit: int = 65_536) -> TextPage:
        """A page of the whole raw text, by offsets in bytes of UTF-8, cut at characters."""
        return self._log(ExecutionName.parse(name)).read_text(which, offset, limit)

    # rich outputs and files

    @answering
    async def get_rich_output(self, name: str, index: int) -> RichOutput:
        """The output as it is now: current size, `revision`, `modified`."""
        execution, result = await self._result(name)
        with self._content(execution) as content:
            return outputs.rich_output(result, self._log(execution), content, index)

    @answering
    async def get_bundle(self, name: str, index: int) -> dict[str, Any]:
        """The nbformat output. NOT_FOUND where it was dropped, removed, or the runtime deleted."""
        execution, result = await self._result(name)
        with self._content(execution) as content:
            return outputs.bundle(result, content, index)

    @answering
    async def get_output_data(self, name: str, index: int, mime_type: str) -> OutputData:
        """One representation of a rich output, decoded."""
        execution, result = await self._result(name)
        with self._content(execution) as content:
            return outputs.output_data(result, self._log(execution), content, index, mime_type)

    @answering
    async def put_file(self, runtime: str, path: str, chunks: Iterable[bytes]) -> int:
        """Write a file of /content whole; returns its size in bytes."""
        return await self._host(RuntimeName.parse(runtime)).put_file(path, chunks)

    @answering
    def open_content(self, runtime: str) -> HostileDir:
        """/content of a runtime, living or closed; to be closed by the caller. NOT_FOUND, RUNTIME_DELETED."""
        return self._store.content(RuntimeName.parse(runtime).runtime)

    # within

    async def _result(self, name: str) -> tuple[ExecutionName, ExecuteCodeResult]:
        return ExecutionName.parse(name), await self.get_execution(name)

    def _content(self, execution: ExecutionName) -> contextlib.closing[HostileDir]:
        return contextlib.closing(self._store.content(execution.runtime))

    def _log(self, execution: ExecutionName) -> ExecutionLog:
        return find_log(self._journal, execution)

    def _reader(self, execution: ExecutionName) -> ExecutionReader:
        return self._hosts.get(execution.runtime) or self._recorded

    def _host(self, name: RuntimeName) -> RuntimeHost:
        host = self._hosts.get(name.runtime)
        if host is not None:
            return host
        record = self._store.read(name.runtime)
        if record is not None:
            raise NotFound(
                f"{name} is over: its kernels are gone, its records and files can still be read. Create a new runtime",
                reason=CallReason.RUNTIME_DELETED,
            )
        raise NotFound(f"there is no runtime {name}; create it first", reason=CallReason.NO_SUCH_RUNTIME)

    def _session_logs(self, runtime: str) -> Path:
        return self._settings.state_dir / "sessions" / runtime

    def _runtime_gone(self, name: RuntimeName) -> None:
        self._hosts.pop(name.runtime, None)
        self._store.mark_closed(name.runtime)

    def _check_open(self) -> None:
        if self._closing is not None:
            raise Unavailable("this house is closed, or about to be", reason=CallReason.SHUTTING_DOWN)
        if not self._open:
            raise NotOpened("this House is not open; use it as `async with House() as house:`")

    def _evict_files(self) -> None:
        age = self._settings.retention.age_seconds
        self._store.evict(age)
        logs = self._settings.state_dir / "sessions"
        evict_session_logs(logs, self._clock.now().timestamp() - age, self._store.names())

    async def _evict_now_and_then(self) -> None:
        while not self._stop.is_set():
            try:
                await self._journal.evict()
                await asyncio.to_thread(self._evict_files)
            except Exception:
                _logger.exception("eviction failed; it is tried again later")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), EVICT_SECONDS)
