"""A runtime in this process: the first implementation of the seam."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from cellhouse.artifacts import BoundStore
from cellhouse.environments import NATIVE_KERNEL, Environment, Use
from cellhouse.files import DiskFull, HostileDir
from cellhouse.journal import ExecutionLog, Journal, StartRecord
from cellhouse.model import (
    CallReason,
    Clock,
    Event,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    ExecutionName,
    FailedPrecondition,
    FileWritten,
    NotFound,
    ResourceExhausted,
    Runtime,
    RuntimeName,
    RuntimeSpec,
    RuntimeStatus,
    Session as SessionDocument,
    SessionName,
    TailFrame,
    Unavailable,
    mint_id,
    mint_uid,
    rfc3339,
)
from cellhouse.runtime.ends import end_after_failure
from cellhouse.runtime.execution import Execution
from cellhouse.runtime.files import ContentFiles
from cellhouse.runtime.following import Follower, follow
from cellhouse.runtime.host import Kernels, Submitted
from cellhouse.runtime.inputs import Inputs
from cellhouse.runtime.launching import KernelLauncher, walls_gone
from cellhouse.runtime.logs import logger
from cellhouse.runtime.native import NativeLauncher, check_start
from cellhouse.runtime.network import (
    LOG_NAME,
    network_variables,
    policy_in_force,
    require_network,
)
from cellhouse.runtime.once import code_digest, find_log, known_execution, no_end, recorded_result
from cellhouse.runtime.outcome import Ending
from cellhouse.runtime.session import Session
from cellhouse.runtime.session_log import SessionLog
from cellhouse.runtime.sessions import Sessions
from cellhouse.runtime.settings import Settings
from cellhouse.runtime.store import MARK, kill_marked
from cellhouse.runtime.transfer import begin, receive, told_of_file
from cellhouse.runtime.walls import sandbox_spec
from cellhouse.sandbox import Privileged, SandboxLoss, create_sandbox, owner_of, require_limits

if TYPE_CHECKING:
    from cellhouse.runtime.bridging import RuntimeNetwork

_logger = logger()


class InProcessHost:
    """Wires sandbox, kernels, capture and journal of one runtime together; belongs to one event loop."""

    def __init__(
        self,
        name: RuntimeName,
        spec: RuntimeSpec,
        *,
        directory: Path,
        session_logs: Path,
        token: str,
        environment: Environment,
        journal: Journal,
        artifacts: BoundStore,
        settings: Settings,
        clock: Clock,
        on_gone: Callable[[RuntimeName], None],
        privileged: Privileged | None = None,
    ) -> None:
        self._name, self._spec = name, spec
        self._directory, self._session_logs = directory, session_logs
        self._environment, self._journal = environment, journal
        self._settings, self._clock = settings, clock
        self._token = token
        self._kernel_spec = environment.kernel(spec.kernel)
        check_start(spec, self._kernel_spec.name)
        settings.network.check(spec.network)
        self._limits = spec.limits.over(settings.walls) if spec.limits is not None else settings.walls
        self._sandbox = create_sandbox(
            spec.isolation or settings.isolation,
            sandbox_spec(directory, environment, self._limits, settings.uids, spec.network),
            privileged,
        )
        self._network = self._make_network()
        self._content: HostileDir | None = None
        self._files: ContentFiles | None = None
        self._artifacts = artifacts
        self._use: Use | None = None
        self._inputs: Inputs
        self._variables = {MARK: token}
        self._sessions = Sessions(
            name,
            make=self._make_session,
            most=settings.max_sessions,
            idle_seconds=spec.idle_seconds or settings.session.idle_seconds,
            clock=clock,
        )
        self._submitting = asyncio.Lock()
        self._status = RuntimeStatus.STARTING
        self._created = rfc3339(clock.now())
        self._on_gone = on_gone
        self._watch: asyncio.Task[None] | None = None
        self._over_by_itself = False
        self._closing: asyncio.Task[None] | None = None
        self._launcher: KernelLauncher | NativeLauncher | None = None
        self._native: NativeLauncher | None = None

    @property
    def name(self) -> RuntimeName:
        return self._name

    async def start(self) -> None:
        self._use = Use.of(self._environment)
        try:
            await self._sandbox.start()
            require_limits(self._limits, self._sandbox.limits)
            require_network(self._spec.network, self._sandbox.report)
            if self._network is not None:
                await self._network.start(self._sandbox, str(self._environment.python))
            self._inputs = Inputs(self._sandbox.inside_path(self._sandbox.content))
            self._launcher = self._make_launcher()
            self._content = HostileDir.open(self._sandbox.content, owner=owner_of(self._sandbox.content))
            self._files = ContentFiles(
                self._content,
                self._settings.capture,
                artifacts=self._artifacts,
                minting=self._spec.minting or "off",
                patterns=self._spec.mint or (),
            )
        except BaseException:
            if self._network is not None:
                await self._network.close()
            await self._sandbox.close()
            self._use.close()
            raise
        self._status = RuntimeStatus.ACTIVE
        if self._native is not None:
            self._native.begin()
        self._watch = asyncio.get_running_loop().create_task(self._watch_over(), name=f"watch {self._name}")

    def _make_network(self) -> "RuntimeNetwork | None":
        policy = self._spec.network
        if policy is None or policy.policy != "allow":
            return None
        from cellhouse.runtime.bridging import RuntimeNetwork  # slow to load, and for few runtimes

        return RuntimeNetwork(
            policy,
            self._settings.network,
            log=SessionLog(self._session_logs / LOG_NAME, self._clock),
            clock=self._clock,
            runtime=str(self._name),
        )

    def _make_launcher(self) -> KernelLauncher | NativeLauncher:
        variables = self._variables
        variables |= network_variables(self._spec.network, self._sandbox.report)
        if self._kernel_spec.name != NATIVE_KERNEL:
            return KernelLauncher(
                self._sandbox,
                self._environment,
                self._kernel_spec,
                variables=variables,
                start_seconds=self._settings.session.start_seconds,
            )
        self._native = NativeLauncher(
            self._sandbox,
            self._environment,
            start=self._spec.start,
            settings=self._settings,
            variables=variables,
            walls_gone=lambda: walls_gone(self._sandbox),
        )
        return self._native

    def describe(self) -> Runtime:
        report = self._sandbox.report
        return Runtime(
            name=str(self._name),
            status=self._status,
            environment=self._environment.name,
            kernel=self._kernel_spec.name,
            isolation=report if self._native is None else self._native.isolation(report),
            limits=self._sandbox.limits,
            network_policy=policy_in_force(self._spec.network, report),
            network=None if self._network is None else self._network.report(),
            sessions=tuple(str(session.name) for session in self._sessions),
            minting=self._spec.minting or "off",
            create_time=self._created,
            expire_time=self._sessions.expire_time(self._sessions.last_used),
        )

    # executions

    async def execute(self, request: ExecuteCodeRequest) -> Submitted:
        async with self._submitting:  # finding an id and taking it is one step
            if (known := known_execution(self._journal, request)) is not None:
                return Submitted(known, attached=True)
            self._check_active()
            self._check_environment(request)
            self._check_minting(request)
            key = SessionName.parse(request.session, "session").session if request.session else mint_id("s")
            session = self._sessions.find(key)
            made = session is None
            session = session or self._sessions.create(key)
            try:
                session.check_room()
                name = session.name.execution(request.execution_id or mint_id("e"))
                log = await self._begin(name, request)
            except BaseException:
                if made:  # nobody was told of it
                    await self._sessions.end(
                        session, Ending.DELETE_SESSION, "its first execution was refused"
                    )
                raise
            execution = Execution(name, request, log, self._clock)
            if execution.failure is not None:
                end_after_failure(execution, execution.failure)
            else:
                session.submit(execution)
            return Submitted(name, attached=False)

    async def _begin(self, name: ExecutionName, request: ExecuteCodeRequest) -> ExecutionLog:
        start = StartRecord(
            uid=mint_uid(),
            name=str(name),
            session=str(name.session_name),
            runtime=str(name.runtime_name),
            execution_id=request.execution_id,
            code=request.code,
            code_sha256=code_digest(request.code),
            target="session" if request.session else "runtime",
            created=rfc3339(self._clock.now()),
            options={},
        )
        try:
            return await self._journal.begin(start)
        except DiskFull as error:
            raise ResourceExhausted(
                f"the journal's disk is {error.state}: nothing new is accepted, nothing recorded is lost; {error.remedy}",
                reason=CallReason.SERVER_DISK_FULL,
                limit="journal disk",
                server=True,
            ) from None

    def follow(
        self, name: ExecutionName, *, after: int = 0, late: bool = False, tails: bool = False
    ) -> AsyncGenerator[Event | TailFrame, None]:
        return follow(self._log_of(name), after=after, late=late, tails=tails)

    def follower(
        self, name: ExecutionName, *, after: int = 0, late: bool = False, tails: bool = False, page_bytes: int
    ) -> Follower:
        return Follower(self._log_of(name), after=after, late=late, tails=tails, page_bytes=page_bytes)

    async def snapshot(self, name: ExecutionName) -> ExecuteCodeResult:
        execution = self._live(name)
        if execution is not None and execution.result is None:
            return execution.snapshot()
        return self._finished(name)

    async def wait(self, name: ExecutionName) -> ExecuteCodeResult:
        execution = self._live(name)
        if execution is not None:
            await execution.finished.wait()
            if execution.result is not None:  # also where the house is closed by now
                return execution.result
        return self._finished(name)

    async def cancel(self, name: ExecutionName) -> None:
        execution = self._live(name)
        if execution is None:
            self._log_of(name)  # a finished one is no error, an unknown one is
            return
        self._sessions.get(name.session).cancel(execution)

    async def provide_input(self, name: ExecutionName, value: str) -> None:
        execution = self._live(name)
        if execution is None:
            self._log_of(name)
            raise FailedPrecondition(
                f"{name} has ended; it takes no input", reason=CallReason.NOT_WAITING_FOR_INPUT
            )
        self._sessions.get(name.session).provide_input(execution, value)

    def _live(self, name: ExecutionName) -> Execution | None:
        session = self._sessions.find(name.session)
        return session.execution_named(name) if session is not None else None

    def _log_of(self, name: ExecutionName) -> ExecutionLog:
        return find_log(self._journal, name)

    def _finished(self, name: ExecutionName) -> ExecuteCodeResult:
        log = self._log_of(name)
        session = self._sessions.find(name.session)
        result = recorded_result(log, session.late_output(log.uid) if session is not None else None)
        if result is None and log.closed:
            raise no_end(log)
        if result is None:
            raise Unavailable(f"{name} is ending; try again", reason=CallReason.TRY_AGAIN)
        return result

    # sessions

    async def create_session(self, session: str | None) -> SessionDocument:
        self._check_active()
        return self._sessions.describe(self._sessions.create(session))

    def get_session(self, session: str) -> SessionDocument:
        return self._sessions.describe(self._sessions.get(session))

    def kernels(self) -> Kernels:
        ahead = 0 if self._native is None else self._native.ahead
        return Kernels(sum(session.has_kernel for session in self._sessions), ahead)

    def list_sessions(self) -> list[SessionDocument]:
        return [self._sessions.describe(session) for session in self._sessions]

    async def interrupt(self, session: str) -> bool:
        return self._sessions.get(session).interrupt()

    async def restart(self, session: str) -> None:
        await self._sessions.get(session).restart()

    async def delete_session(self, session: str) -> None:
        found = self._sessions.get(session)
        await self._sessions.end(found, Ending.DELETE_SESSION, "the session was deleted")

    def _check_environment(self, request: ExecuteCodeRequest) -> None:
        language = self._kernel_spec.language
        if request.environment and language != "python":
            raise FailedPrecondition(
                f"environment: variables for one execution can be set in Python kernels only, not in {language!r}; "
                "set them in the code",
                reason=CallReason.LIMIT_UNAVAILABLE,
            )

    def _check_minting(self, request: ExecuteCodeRequest) -> None:
        if request.mint and (self._spec.minting or "off") == "off":
            raise FailedPrecondition(
                f"mint: {self._name} puts no files into the artifact store; create a runtime whose minting is "
                "'listed' or 'all', or leave mint out",
                reason=CallReason.POLICY_UNAVAILABLE,
            )

    def _make_session(self, name: SessionName) -> Session:
        assert self._launcher is not None
        assert self._content is not None
        assert self._files is not None
        return Session(
            name,
            make_kernel=self._launcher,
            content=self._content,
            files=self._files,
            session_log=SessionLog(self._session_logs / f"{name.session}.jsonl", self._clock),
            limits=self._settings.session,
            capture=self._settings.capture,
            clock=self._clock,
            kernel_name=self._kernel_spec.name,
            language=self._kernel_spec.language,
            fresh_because=self._earlier(name),
            inputs=self._inputs,
        )

    def _earlier(self, name: SessionName) -> str:
        """Why a session with this name is not what its caller may take it for; empty where it is new."""
        if self._journal.list(str(name), page_size=1).entries:
            return "an earlier session of this name has ended"
        return ""

    # life

    async def keep_alive(self) -> None:
        self._check_active()
        self._sessions.keep_alive()

    async def put_file(self, path: str, chunks: Iterable[bytes]) -> int:
        self._check_active()
        assert self._content is not None
        assert self._files is not None
        with told_of_file(path):
            incoming = begin(self._content, path)
            try:
                for chunk in chunks:
                    incoming.write(chunk)
                return (await self._files.commit(incoming, path)).size
            finally:
                incoming.discard()

    async def receive_file(
        self, path: str, chunks: AsyncIterable[bytes], *, limit: int, sha256: str
    ) -> FileWritten:
        self._check_active()
        assert self._content is not None
        assert self._files is not None
        written = await receive(
            self._content, path, chunks, limit=limit, sha256=sha256, commit=self._files.commit
        )
        return FileWritten(name=path, bytes=written.size, sha256=written.sha256)

    async def stage_input(self, name: str, chunks: AsyncIterable[bytes], *, limit: int, sha256: str) -> str:
        path = self._inputs.place(name)
        await self.receive_file(path, chunks, limit=limit, sha256=sha256)
        staged = self._inputs.add(name, path)
        self._variables.update(self._inputs.environment())  # of kernels that are started from now on
        return staged

    async def delete_file(self, path: str) -> None:
        self._check_active()
        assert self._content is not None
        with told_of_file(path):
            self._content.unlink(path)

    async def close(self, ending: Ending, text: str) -> None:
        """The first one's ending holds; all who call it return when everything has ended."""
        if self._closing is None:
            self._status = RuntimeStatus.CLOSING
            self._closing = asyncio.get_running_loop().create_task(self._close(ending, text))
        await asyncio.shield(self._closing)
        if self._watch is not None and self._watch is not asyncio.current_task():
            await asyncio.wait([self._watch])

    async def _close(self, ending: Ending, text: str) -> None:
        if self._watch is not None and not self._over_by_itself:
            self._watch.cancel()
        try:
            async with self._submitting:  # what is being accepted gets its place, and its end
                await self._sessions.close(ending, text)
        finally:
            try:
                if self._native is not None:
                    await self._native.close()
            finally:
                try:
                    if self._network is not None:
                        await self._network.close()
                finally:
                    await self._close_sandbox()

    async def _close_sandbox(self) -> None:
        try:
            await self._sandbox.close()
        except Exception:
            await asyncio.to_thread(kill_marked, self._token)
            raise
        finally:
            if self._use is not None:
                self._use.close()
            if self._files is not None:
                self._files.close()
            if self._content is not None:
                self._content.close()

    async def _watch_over(self) -> None:
        """Ends the runtime when its sandbox dies or nobody used it for long enough."""
        ending, text = await self._until_over()
        self._over_by_itself = True
        try:
            await self.close(ending, text)
        except Exception:
            _logger.exception("a runtime could not be closed well", runtime=str(self._name))
        self._on_gone(self._name)

    async def _until_over(self) -> tuple[Ending, str]:
        while True:
            due = self._sessions.next_look()
            done, _ = await asyncio.wait([self._sandbox.lost], timeout=max(0.01, due))
            if done:
                loss: SandboxLoss = self._sandbox.lost.result()
                return Ending.RUNTIME_LOST, f"the sandbox went away: {loss.text}"
            if self._sessions.all_idle:
                return Ending.DELETE_RUNTIME, f"the runtime was idle for {self._sessions.idle_seconds:g} s"
            await self._sessions.cull()

    def _check_active(self) -> None:
        if self._status is not RuntimeStatus.ACTIVE:
            raise NotFound(f"{self._name} is {self._status.value.lower()}", reason=CallReason.RUNTIME_DELETED)
