"""Client: a service's house, for programs with threads or none."""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cellhouse.client.address import Address, Tls
from cellhouse.client.artifacts import ArtifactCalls, Artifacts
from cellhouse.client.calls import Calls, OutputData, TextName
from cellhouse.client.executing import Executing, Started
from cellhouse.client.options import options_of
from cellhouse.client.outgoing import Progress, Source
from cellhouse.client.settings import ClientLimits, RetryPolicy, Timeouts
from cellhouse.client.sync_shell import SyncShell
from cellhouse.client.transfer import FilePart, Transfer
from cellhouse.model import (
    Clock,
    Event,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    ExecutionList,
    ExecutionName,
    FileList,
    FileWritten,
    RichOutput,
    Runtime,
    RuntimeList,
    RuntimeSpec,
    RuntimeSpecs,
    Session,
    SessionList,
    SessionLogEntry,
    SessionLogPage,
    StagedInput,
    TailFrame,
    TextPart,
)


class Client:
    """The methods of a House, over the network; a context manager. Any thread may call it; see docs/client.md.

    Without a URL it is that of CELLHOUSE_URL, without a token that of CELLHOUSE_TOKEN. Errors are those of a House, and
    TransportError and ResponseError for what goes wrong in between. `clock`, `rng` and `sleep` are for tests.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        tls: Tls | None = None,
        timeouts: Timeouts | None = None,
        retry: RetryPolicy | None = None,
        limits: ClientLimits | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """INVALID_ARGUMENT for a URL, a token or a certificate that can't be used. Connects to nothing yet."""
        address = Address.given(url)
        options = options_of(token, tls, timeouts, retry, limits, clock, rng)
        core = options.core(address)
        self.url = str(address)
        self._shell = SyncShell(address, options, sleep)
        self._calls = Calls(core)
        self._executing = Executing(core, self._calls)
        self._transfer = Transfer(core)
        self._artifact_calls = ArtifactCalls(core, self._transfer)
        self.artifacts = Artifacts(self._shell, self._artifact_calls)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def close(self) -> None:
        """Let go of all connections. Nothing that runs in the service ends by it. May be called twice."""
        self._shell.close()

    def execute(self, request: ExecuteCodeRequest) -> "ExecutionHandle":
        """Hand in code, at most once. Returns when the service has it on record; a repeat of an `executionId` attaches.

        Raises every error of the contract (section 6) that concerns the call; what the code does is in the result.
        """
        started = self._shell.run(self._executing.execute(request))
        return ExecutionHandle(self, started)

    def runtime_specs(self) -> RuntimeSpecs:
        """What may be created there."""
        return self._shell.run(self._calls.runtime_specs())

    def create_runtime(
        self, spec: RuntimeSpec | None = None, *, runtime_id: str | None = None, request_id: str | None = None
    ) -> Runtime:
        """A new runtime, ready. Never two, however often the connection breaks."""
        return self._shell.run(self._calls.create_runtime(spec, runtime_id, request_id))

    def get_runtime(self, name: str) -> Runtime:
        """The runtime as it is now."""
        return self._shell.run(self._calls.get_runtime(name))

    def list_runtimes(self) -> list[Runtime]:
        """All that live, page by page."""
        return self._shell.run(self._calls.list_runtimes())

    def page_runtimes(self, *, page_size: int = 0, page_token: str = "") -> RuntimeList:
        """A page of them, by name."""
        return self._shell.run(self._calls.page_runtimes(page_size, page_token))

    def keep_alive(self, name: str) -> Runtime:
        """Put off the runtime's `expireTime`."""
        return self._shell.run(self._calls.keep_alive(name))

    def delete_runtime(self, name: str) -> None:
        """End it and remove its files; the records of its executions stay."""
        self._shell.run(self._calls.delete_runtime(name))

    def create_session(self, runtime: str, *, session_id: str | None = None) -> Session:
        """A new session; one that has an id of the caller's is asked for once."""
        return self._shell.run(self._calls.create_session(runtime, session_id))

    def get_session(self, name: str) -> Session:
        """The session as it is now."""
        return self._shell.run(self._calls.get_session(name))

    def list_sessions(self, runtime: str) -> list[Session]:
        """All sessions of a runtime, page by page."""
        return self._shell.run(self._calls.list_sessions(runtime))

    def page_sessions(self, runtime: str, *, page_size: int = 0, page_token: str = "") -> SessionList:
        """A page of them, by name."""
        return self._shell.run(self._calls.page_sessions(runtime, page_size, page_token))

    def interrupt(self, session: str) -> bool:
        """Interrupt what runs in the session; False where nothing does. Sent once."""
        return self._shell.run(self._calls.interrupt(session))

    def restart(self, session: str) -> None:
        """End what runs and waits there; the next execution gets a fresh kernel. Sent once."""
        self._shell.run(self._calls.restart(session))

    def delete_session(self, session: str) -> None:
        """End it; /content stays."""
        self._shell.run(self._calls.delete_session(session))

    def session_log(self, session: str) -> list[SessionLogEntry]:
        """What the session's kernels said that belongs to no execution, oldest first, page by page."""
        return self._shell.run(self._calls.session_log(session))

    def page_session_log(self, session: str, *, page_size: int = 0, page_token: str = "") -> SessionLogPage:
        """A page of it."""
        return self._shell.run(self._calls.page_session_log(session, page_size, page_token))

    def network_log(self, runtime: str) -> list[SessionLogEntry]:
        """Each decision about the runtime's network, oldest first, page by page; empty without a policy `allow`."""
        return self._shell.run(self._calls.network_log(runtime))

    def page_network_log(self, runtime: str, *, page_size: int = 0, page_token: str = "") -> SessionLogPage:
        """A page of it."""
        return self._shell.run(self._calls.page_network_log(runtime, page_size, page_token))

    def get_execution(self, name: str) -> ExecuteCodeResult:
        """The snapshot while it runs, the result after, also of a runtime that is gone."""
        return self._shell.run(self._calls.get_execution(name))

    def get_code(self, name: str) -> str:
        """The code as it was handed in."""
        return self._shell.run(self._calls.get_code(name))

    def cancel(self, name: str) -> None:
        """Interrupt the execution, or end it where it still waits. Nothing happens where it has ended."""
        self._shell.run(self._calls.cancel(name))

    def provide_input(self, name: str, value: str) -> None:
        """Answer an `inputRequested`. FAILED_PRECONDITION where nothing is asked. Sent once."""
        self._shell.run(self._calls.provide_input(name, value))

    def list_executions(self, session: str, *, page_size: int = 100, page_token: str = "") -> ExecutionList:
        """A page of the session's executions, oldest first."""
        return self._shell.run(self._calls.list_executions(session, page_size, page_token))

    def read_text(self, name: str, which: TextName, *, offset: int = 0, limit: int = 65_536) -> TextPart:
        """A page of the whole raw text, by offsets in bytes of UTF-8, cut at characters."""
        return self._shell.run(self._calls.read_text(name, which, offset, limit))

    def get_rich_output(self, name: str, index: int) -> RichOutput:
        """The output as it is now: current size, `revision`, `modified`."""
        return self._shell.run(self._calls.get_rich_output(name, index))

    def get_bundle(self, name: str, index: int) -> dict[str, Any]:
        """The nbformat output. NOT_FOUND where it was dropped, removed, or the runtime deleted."""
        return self._shell.run(self._calls.get_bundle(name, index))

    def get_output_data(self, name: str, index: int, mime_type: str) -> OutputData:
        """One representation of a rich output, decoded."""
        return self._shell.run(self._calls.get_output_data(name, index, mime_type))

    def put_file(self, runtime: str, path: str, chunks: Source, *, progress: Progress | None = None) -> int:
        """Write a file of /content whole; returns its size in bytes."""
        return self.upload(runtime, path, chunks, progress=progress).bytes

    def upload(
        self, runtime: str, path: str, source: Source, *, progress: Progress | None = None
    ) -> FileWritten:
        """The same, from a Path, bytes or an iterable, checked by its SHA-256, which it tells.

        One that can be read only once is sent once.
        """
        return self._shell.run(self._transfer.put(runtime, path, source, progress))

    def download(
        self, runtime: str, path: str, target: Path | str, *, progress: Progress | None = None
    ) -> FileWritten:
        """Write a file of /content to `target`, whole and checked, or leave what is there as it is.

        Read on where the connection breaks. OSError where `target` can't be written.
        """
        return self._shell.run(self._transfer.get(runtime, path, Path(target), progress))

    def read_part(self, runtime: str, path: str, *, offset: int = 0, limit: int = 65_536) -> FilePart:
        """At most `limit` bytes of a file of /content from `offset` on, and how many it has. No digest is checked."""
        return self._shell.run(self._transfer.part(runtime, path, offset, limit))

    def stage_inputs(self, runtime: str, inputs: Mapping[str, StagedInput]) -> Mapping[str, str]:
        """Put inputs into a runtime: name to bytes, the Path of a file here, or the ref of an artifact (a `str`).

        Gives name to absolute path in the sandbox, which every later execution there finds in CELLHOUSE_INPUTS (JSON).
        """
        return self._shell.run(self._artifact_calls.stage_inputs(runtime, inputs))

    def list_files(self, runtime: str, path: str = "", *, recursive: bool = False) -> FileList:
        """What is in a directory of /content; at most 10,000 names, and it says so."""
        return self._shell.run(self._calls.list_files(runtime, path, recursive))

    def delete_file(self, runtime: str, path: str) -> None:
        """Remove a file of /content; NOT_FOUND, INVALID_ARGUMENT for a directory."""
        self._shell.run(self._calls.delete_file(runtime, path))

    def events(
        self, name: str, *, after: int = 0, late: bool = False, tails: bool = False
    ) -> Iterator[Event | TailFrame]:
        """The events above number `after`, live or long over, however often the connection breaks."""
        return self._shell.iterate(self._executing.events(name, after=after, late=late, tails=tails))

    def open_file(self, runtime: str, path: str, *, progress: Progress | None = None) -> Iterator[bytes]:
        """A file of /content, piece by piece; its SHA-256 is judged at the end (FAILED_PRECONDITION)."""
        return self._shell.iterate(self._transfer.pieces(runtime, path, progress))


class ExecutionHandle:
    """One caller's view of an execution, as a House gives it. Letting go of it interrupts nothing.

    `handle.result()` gives the result, or raises DeadlineExceeded with the partial result after `wait_timeout` seconds;
    asking again waits again. `for event in handle` gives the events from number 1 on, as often as wanted.
    """

    def __init__(self, client: Client, started: Started) -> None:
        self._client, self._started = client, started

    @property
    def name(self) -> ExecutionName:
        return self._started.name

    @property
    def attached(self) -> bool:
        """Whether the execution was there already when it was asked for under an `executionId` of the caller's."""
        return self._started.attached

    @property
    def wait_timeout(self) -> float:
        """Seconds; that of the request, else 600."""
        return self._started.wait_timeout

    def __repr__(self) -> str:
        return f"ExecutionHandle({str(self.name)!r})"

    def result(self) -> ExecuteCodeResult:
        """The whole result, once there is one."""
        client = self._client
        return client._shell.run(client._executing.result(self._started))

    def __iter__(self) -> Iterator[Event]:
        return self.events()

    def events(self, *, after: int = 0, late: bool = False) -> Iterator[Event]:
        """The numbered events above `after`; ends at `finished`, or with `late` when the runtime ends."""
        client = self._client
        flow = client._executing.events_of(self._started, after=after, late=late, tails=False)
        return client._shell.iterate(flow)

    def live(self) -> Iterator[Event | TailFrame]:
        """The events and, past what is logged, the unnumbered tail frames: for watching."""
        client = self._client
        flow = client._executing.events_of(self._started, after=0, late=False, tails=True)
        return client._shell.iterate(flow)

    def snapshot(self) -> ExecuteCodeResult:
        """What there is now; never waits for the code."""
        return self._client.get_execution(str(self.name))

    def cancel(self) -> bool:
        """Interrupt it, or end it where it still waits. From a caller that only attached, it merely detaches: False."""
        if self.attached:
            return False
        self._client.cancel(str(self.name))
        return True

    def provide_input(self, value: str) -> None:
        """Answer the open input request. FailedPrecondition where there is none."""
        self._client.provide_input(str(self.name), value)
