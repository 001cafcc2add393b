"""House: the one way in. Every door calls these methods and no others."""

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncGenerator
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from cellhouse.artifacts import ArtifactStore, BoundStore, LocalStore, Scope
from cellhouse.journal import ExecutionLog, Journal, Page, TextPage
from cellhouse.model import (
    Clock,
    Event,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    ExecutionName,
    InvalidArgument,
    Runtime,
    RuntimeList,
    RuntimeName,
    RuntimeSpec,
    RuntimeSpecs,
    Session,
    SessionList,
    SessionLogPage,
    SessionName,
    SystemClock,
    TailFrame,
    check_id,
)
from cellhouse.runtime import (
    ExecutionHandle,
    RuntimeHost,
    RuntimeStore,
    Settings,
)
from cellhouse.runtime.answering import NotOpened, answering
from cellhouse.runtime.contents import Contents
from cellhouse.runtime.folded import FoldedText
from cellhouse.runtime.following import PAGE_BYTES, Follower
from cellhouse.runtime.host import ExecutionReader, Kernels, NetworkCounts
from cellhouse.runtime.logs import logger
from cellhouse.runtime.network import LOG_NAME as NETWORK_LOG
from cellhouse.runtime.offer import Offer
from cellhouse.runtime.once import check_readable, find_log, known_execution
from cellhouse.runtime.paging import page_by_name
from cellhouse.runtime.recorded import Recorded
from cellhouse.runtime.refusals import house_closed, house_drains, too_many_executions
from cellhouse.runtime.runtimes import Runtimes
from cellhouse.runtime.session_log import evict_session_logs, page_of_session_log, read_session_log
from cellhouse.runtime.state import own_state_dir
from cellhouse.sandbox import Privileged

_logger = logger()

TextName = Literal["stdout", "stderr", "result", "traceback"]
DRAIN_GRACE = 10.0
EVICT_SECONDS = 60.0
"""Retention is looked at so often: what exceeds it meanwhile is what can be written in that time."""


class House(Contents):
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
        artifacts: ArtifactStore | None = None,
        privileged: Privileged | None = None,
    ) -> None:
        """`artifacts` is a store of the caller's, who closes it; unasked, one in the state directory. `privileged` does for
        the one runtime of this house what this process can't, or is not to.
        """
        self._clock = clock or SystemClock()
        self._settings = settings or Settings(
            state_dir=Path(state_dir) if state_dir is not None else own_state_dir(self._clock)
        )
        self._given_artifacts = artifacts
        self._artifacts: BoundStore
        self._privileged = privileged
        self._journal: Journal
        self._store: RuntimeStore
        self._runtimes: Runtimes
        self._recorded: Recorded
        self._evictor: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        self._open = False
        self._draining = False
        self._offer = Offer(self._settings)

    @property
    def state_dir(self) -> Path:
        return self._settings.state_dir

    async def __aenter__(self) -> Self:
        state = self._settings.state_dir
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_lent(state):
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
            self._artifacts = self._open_artifacts()
            self._runtimes = Runtimes(
                self._settings,
                self._clock,
                self._journal,
                self._store,
                self._artifacts,
                self._privileged,
            )
        except BaseException:
            await self._journal.close()
            raise
        self._recorded = Recorded(self._journal)
        self._closing = None
        self._draining = False
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
            self._runtimes.shut()
            self._closing = asyncio.get_running_loop().create_task(self._close(), name="close")
        if self._closing is not None:
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        assert self._evictor is not None
        self._stop.set()
        await asyncio.wait([self._evictor])  # not broken off: the directory is the next owner's afterwards
        try:
            await self._offer.close()
            await self._runtimes.close()
        finally:
            try:
                if self._given_artifacts is None:
                    await self._artifacts.store.close()
            finally:
                await self._journal.close()

    def _open_artifacts(self) -> BoundStore:
        settings = self._settings
        store = self._given_artifacts or LocalStore(
            settings.artifacts_dir or settings.state_dir / "artifacts",
            limits=settings.artifacts,
            clock=self._clock,
            durable=settings.durability == "full",
        )
        return BoundStore(store, Scope(settings.tenant))

    @property
    def artifacts(self) -> BoundStore:
        self._check_open()
        return self._artifacts

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Names of the executions that were accepted and have not ended, oldest first."""
        return self._journal.unfinished

    def kernels(self) -> Kernels:
        """How many live, of all runtimes together."""
        found = [host.kernels() for host in self._runtimes.hosts.values()]
        return Kernels(sum(each.living for each in found), sum(each.ahead for each in found))

    def network_counts(self) -> NetworkCounts:
        """What came of the network policies of all runtimes together."""
        counts = NetworkCounts()
        for host in self._runtimes.hosts.values():
            if (told := host.describe().network) is not None:
                moved = (told.bytes_sent or 0) + (told.bytes_received or 0)
                counts += NetworkCounts(told.allowed or 0, told.refused or 0, moved)
        return counts

    @answering
    async def drain(self, *, seconds: float, grace: float = DRAIN_GRACE) -> None:
        """Take nothing new, and let what was accepted end by itself for so long; then interrupt it, the queued first.

        Returns when everything has ended, or `grace` seconds after the interrupts; `close` ends what is left. Reading, and
        repeating what was accepted, go on as before.
        """
        self._check_open()
        self._draining = True
        if await self._all_ended(seconds):
            return
        for name in reversed(self.unfinished):
            await self.cancel(name)
        await self._all_ended(grace)

    async def emptied(self) -> None:
        """Until no runtime lives here any more, and none is being made, though one did or was: nothing can run then."""
        await self._runtimes.emptied.wait()

    async def _all_ended(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while names := self.unfinished:
                    name = ExecutionName.parse(names[-1])
                    await self._reader(name).wait(name)
        return not self.unfinished

    # runtimes

    @answering
    async def runtime_specs(self) -> RuntimeSpecs:
        """What may be created here; walls are put up for a moment to see what holds, once in the life of a house."""
        self._check_open()
        return await self._offer.specs(runtimes=len(self._runtimes), accepting=not self._draining)

    @answering
    async def create_runtime(
        self,
        spec: RuntimeSpec | None = None,
        *,
        runtime_id: str | None = None,
        request_id: str | None = None,
    ) -> Runtime:
        """A new runtime, ready. ALREADY_EXISTS, FAILED_PRECONDITION (walls or environment that can't be had).

        A repeat with the same `request_id` gets the runtime that the first one made, and never a second one; NOT_FOUND
        where that one is over.
        """
        self._check_accepting()
        return await self._runtimes.create(spec or RuntimeSpec(), runtime_id, request_id)

    @answering
    def get_runtime(self, name: str) -> Runtime:
        return self._host(RuntimeName.parse(name)).describe()

    @answering
    def list_runtimes(self) -> list[Runtime]:
        return [host.describe() for host in self._runtimes.hosts.values()]

    @answering
    def page_runtimes(self, *, page_size: int = 0, page_token: str = "") -> RuntimeList:
        """A page of them, by name."""
        page, token = page_by_name("runtimes", self.list_runtimes(), page_size, page_token)
        return RuntimeList(runtimes=tuple(page), next_page_token=token)

    @answering
    async def keep_alive(self, name: str) -> Runtime:
        """Put off the runtime's `expireTime`."""
        host = self._host(RuntimeName.parse(name))
        await host.keep_alive()
        return host.describe()

    @answering
    async def delete_runtime(self, name: str) -> None:
        """End it and remove its files; the records of its executions stay."""
        await self._runtimes.delete(RuntimeName.parse(name))

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
    def page_sessions(self, runtime: str, *, page_size: int = 0, page_token: str = "") -> SessionList:
        """A page of them, by name."""
        page, token = page_by_name(f"{runtime}/sessions", self.list_sessions(runtime), page_size, page_token)
        return SessionList(sessions=tuple(page), next_page_token=token)

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

    @answering
    def page_session_log(self, session: str, *, page_size: int = 0, page_token: str = "") -> SessionLogPage:
        """A page of it. NotFound where the session isn't there and nothing is on record of it."""
        entries = self.session_log(session)
        if not entries and not self.list_executions(session, page_size=1).entries:
            self.get_session(session)
        return page_of_session_log(f"{session}/log", entries, page_size, page_token)

    @answering
    def network_log(self, runtime: str) -> list[dict[str, str]]:
        """Each decision about the runtime's network, oldest first, as `session_log` has it; empty without `allow`.

        `text` is `allowed` or `refused REASON`, HOST:PORT, and the address that was dialled or the sentence. At most 1 MiB.
        """
        return read_session_log(self._session_logs(RuntimeName.parse(runtime).runtime) / NETWORK_LOG)

    @answering
    def page_network_log(self, runtime: str, *, page_size: int = 0, page_token: str = "") -> SessionLogPage:
        """A page of it. NotFound where the runtime isn't there and nothing is on record of its network."""
        entries = self.network_log(runtime)
        if not entries:
            self.get_runtime(runtime)
        return page_of_session_log(f"{runtime}/networkLog", entries, page_size, page_token)

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
        full = len(self.unfinished) >= self._settings.max_executions
        if full or self._draining or runtime.runtime not in self._runtimes.hosts:
            # What was accepted before can be attached to all the same.
            if (known := known_execution(self._journal, request)) is not None:
                reader = self._reader(known)
                return ExecutionHandle(reader, known, attached=True, wait_timeout=wait_timeout)
            self._check_accepting()
        host = self._host(runtime)
        if full:
            raise too_many_executions(self._settings.max_executions)
        submitted = await host.execute(request)
        return ExecutionHandle(host, submitted.name, attached=submitted.attached, wait_timeout=wait_timeout)

    @answering
    def known(self, request: ExecuteCodeRequest) -> ExecutionName | None:
        """The execution that a repeat of this request would attach to. ALREADY_EXISTS, NOT_FOUND (EVICTED)."""
        self._check_open()
        return known_execution(self._journal, request)

    @answering
    async def result(self, name: str) -> ExecuteCodeResult:
        """The result, once there is one, however long that takes."""
        execution = ExecutionName.parse(name)
        return await self._reader(execution).wait(execution)

    @answering
    async def get_execution(self, name: str) -> ExecuteCodeResult:
        """The snapshot while it runs, the result after, also of a runtime that is gone."""
        execution = ExecutionName.parse(name)
        return await self._reader(execution).snapshot(execution)

    @answering
    def get_code(self, name: str) -> str:
        """The code as it was handed in."""
        return self._log(ExecutionName.parse(name)).start.code

    @answering
    def events(
        self, name: str, *, after: int = 0, late: bool = False, tails: bool = False
    ) -> AsyncGenerator[Event | TailFrame, None]:
        """The events above number `after`, live or long over. INVALID_ARGUMENT for a negative number."""
        execution = ExecutionName.parse(name)
        if after < 0:
            raise InvalidArgument.of_field("after", f"{after} is no event number; it takes 0 or more")
        return self._reader(execution).follow(execution, after=after, late=late, tails=tails)

    @answering
    def follower(
        self,
        name: str,
        *,
        after: int = 0,
        late: bool = False,
        tails: bool = False,
        page_bytes: int = PAGE_BYTES,
    ) -> Follower:
        """The same by pages of about so many bytes, for who writes them on as they are."""
        execution = ExecutionName.parse(name)
        return self._reader(execution).follower(
            execution, after=after, late=late, tails=tails, page_bytes=page_bytes
        )

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

    # within

    def _log(self, execution: ExecutionName) -> ExecutionLog:
        return find_log(self._journal, execution)

    def _reader(self, execution: ExecutionName) -> ExecutionReader:
        return self._runtimes.hosts.get(execution.runtime) or self._recorded

    def _host(self, name: RuntimeName) -> RuntimeHost:
        return self._runtimes.host(name)

    def _session_logs(self, runtime: str) -> Path:
        return self._runtimes.session_logs(runtime)

    def _check_accepting(self) -> None:
        self._check_open()
        if self._draining:
            raise house_drains()

    def _check_open(self) -> None:
        if self._closing is not None:
            raise house_closed()
        if not self._open:
            raise NotOpened("this House is not open; use it as `async with House() as house:`")

    def _evict_files(self) -> None:
        age = self._settings.retention.age_seconds
        self._store.evict(age)
        logs = self._settings.state_dir / "sessions"
        evict_session_logs(logs, self._clock.now().timestamp() - age, self._store.names())

    async def evict(self) -> None:
        """Remove what retention no longer keeps. A house does so by itself, each minute."""
        await self._journal.evict()
        await asyncio.to_thread(self._evict_files)
        if (
            self._given_artifacts is None and self._settings.artifacts_dir is None
        ):  # else it is another's to keep small
            await self._artifacts.store.evict()

    async def _evict_now_and_then(self) -> None:
        while not self._stop.is_set():
            try:
                await self.evict()
            except Exception:
                _logger.exception("eviction failed; it is tried again later")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), EVICT_SECONDS)


def _is_lent(state: Path) -> bool:
    """Whether root has handed it to this user's group, and to nobody else: what root has put there stays root's."""
    found = state.stat()
    return found.st_uid == 0 != os.geteuid() and found.st_mode & (stat.S_ISVTX | stat.S_IRWXO) == stat.S_ISVTX
