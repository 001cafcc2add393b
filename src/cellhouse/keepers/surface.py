"""What a door asks of a house, wherever its runtimes live: in this process, or each in a keeper of its own."""

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from cellhouse.artifacts import BoundStore
from cellhouse.files import HostileDir
from cellhouse.house import House, TextName
from cellhouse.journal import Page, TextPage
from cellhouse.model import (
    Event,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    FileList,
    FileWritten,
    RichOutput,
    Runtime,
    RuntimeList,
    RuntimeSpec,
    RuntimeSpecs,
    Session,
    SessionList,
    SessionLogPage,
    StagedInput,
    TailFrame,
)
from cellhouse.runtime import ContentFile, ExecutionHandle, OutputData
from cellhouse.runtime.following import PAGE_BYTES, Follower
from cellhouse.runtime.host import NetworkCounts

NO_NETWORK: Final = NetworkCounts()


@dataclass(frozen=True, slots=True)
class Census:
    """How much there is: runtimes that live, executions that run or wait, kernels of sessions and such as wait for one.

    `keepers` are the processes that have the runtimes, where those are not in this one.
    """

    runtimes: int
    unfinished: int
    kernels: int = 0
    ahead: int = 0
    keepers: tuple[int, ...] = ()
    network: NetworkCounts = NO_NETWORK


class AnyHouse(Protocol):
    """The public methods of `House`; see there. Whatever has to be asked for is awaited.

    What is only looked up on the disk of this machine (`open_content`, `open_file`) and what begins a stream is not.
    """

    @property
    def state_dir(self) -> Path: ...

    async def census(self) -> Census: ...

    async def close(self) -> None: ...

    async def leave(self) -> bool:
        """Let go without ending what can go on without us; False where that is nothing, and the house is to be closed."""

    async def drain(self, *, seconds: float, grace: float) -> None: ...

    async def runtime_specs(self) -> RuntimeSpecs: ...

    async def create_runtime(
        self, spec: RuntimeSpec | None = None, *, runtime_id: str | None = None, request_id: str | None = None
    ) -> Runtime: ...

    async def get_runtime(self, name: str) -> Runtime: ...

    async def list_runtimes(self) -> list[Runtime]: ...

    async def page_runtimes(self, *, page_size: int = 0, page_token: str = "") -> RuntimeList: ...

    async def keep_alive(self, name: str) -> Runtime: ...

    async def delete_runtime(self, name: str) -> None: ...

    async def create_session(self, runtime: str, *, session_id: str | None = None) -> Session: ...

    async def get_session(self, name: str) -> Session: ...

    async def list_sessions(self, runtime: str) -> list[Session]: ...

    async def page_sessions(
        self, runtime: str, *, page_size: int = 0, page_token: str = ""
    ) -> SessionList: ...

    async def interrupt(self, session: str) -> bool: ...

    async def restart(self, session: str) -> None: ...

    async def delete_session(self, session: str) -> None: ...

    async def session_log(self, session: str) -> list[dict[str, str]]: ...

    async def page_session_log(
        self, session: str, *, page_size: int = 0, page_token: str = ""
    ) -> SessionLogPage: ...

    async def network_log(self, runtime: str) -> list[dict[str, str]]: ...

    async def page_network_log(
        self, runtime: str, *, page_size: int = 0, page_token: str = ""
    ) -> SessionLogPage: ...

    async def execute(self, request: ExecuteCodeRequest) -> ExecutionHandle: ...

    async def get_execution(self, name: str) -> ExecuteCodeResult: ...

    async def get_code(self, name: str) -> str: ...

    def events(
        self, name: str, *, after: int = 0, late: bool = False, tails: bool = False
    ) -> AsyncGenerator[Event | TailFrame, None]: ...

    async def follower(
        self,
        name: str,
        *,
        after: int = 0,
        late: bool = False,
        tails: bool = False,
        page_bytes: int = PAGE_BYTES,
    ) -> Follower: ...

    async def cancel(self, name: str) -> None: ...

    async def provide_input(self, name: str, value: str) -> None: ...

    async def list_executions(self, session: str, *, page_size: int = 100, page_token: str = "") -> Page: ...

    async def read_text(
        self, name: str, which: TextName, *, offset: int = 0, limit: int = 65_536
    ) -> TextPage: ...

    async def get_rich_output(self, name: str, index: int) -> RichOutput: ...

    async def get_bundle(self, name: str, index: int) -> dict[str, Any]: ...

    async def get_output_data(self, name: str, index: int, mime_type: str) -> OutputData: ...

    async def put_file(self, runtime: str, path: str, chunks: Iterable[bytes]) -> int: ...

    async def receive_file(
        self, runtime: str, path: str, chunks: AsyncIterable[bytes], *, limit: int, sha256: str = ""
    ) -> FileWritten: ...

    @property
    def artifacts(self) -> BoundStore: ...

    async def stage_inputs(self, runtime: str, inputs: Mapping[str, StagedInput]) -> Mapping[str, str]: ...

    async def stage_input(
        self, runtime: str, name: str, chunks: AsyncIterable[bytes], *, limit: int, sha256: str = ""
    ) -> str: ...

    def open_content(self, runtime: str) -> HostileDir: ...

    def open_file(self, runtime: str, path: str) -> ContentFile: ...

    async def list_files(self, runtime: str, path: str = "", *, recursive: bool = False) -> FileList: ...

    async def delete_file(self, runtime: str, path: str) -> None: ...


class DirectHouse:
    """A `House` in this process with the face that all have: what it knows at once is awaited like the rest."""

    def __init__(self, house: House) -> None:
        """`house` is open, and is closed through this."""
        self.house = house
        self.state_dir = house.state_dir
        self.close = house.close
        self.drain = house.drain
        self.runtime_specs = house.runtime_specs
        self.create_runtime = house.create_runtime
        self.keep_alive = house.keep_alive
        self.delete_runtime = house.delete_runtime
        self.create_session = house.create_session
        self.interrupt = house.interrupt
        self.restart = house.restart
        self.delete_session = house.delete_session
        self.execute = house.execute
        self.get_execution = house.get_execution
        self.events = house.events
        self.cancel = house.cancel
        self.provide_input = house.provide_input
        self.get_rich_output = house.get_rich_output
        self.get_bundle = house.get_bundle
        self.get_output_data = house.get_output_data
        self.put_file = house.put_file
        self.receive_file = house.receive_file
        self.stage_inputs = house.stage_inputs
        self.stage_input = house.stage_input
        self.open_content = house.open_content
        self.open_file = house.open_file
        self.list_files = house.list_files
        self.delete_file = house.delete_file

    @property
    def artifacts(self) -> BoundStore:
        return self.house.artifacts

    async def census(self) -> Census:
        kernels = self.house.kernels()
        return Census(
            len(self.house.list_runtimes()),
            len(self.house.unfinished),
            kernels.living,
            kernels.ahead,
            network=self.house.network_counts(),
        )

    async def leave(self) -> bool:
        return False

    async def get_runtime(self, name: str) -> Runtime:
        return self.house.get_runtime(name)

    async def list_runtimes(self) -> list[Runtime]:
        return self.house.list_runtimes()

    async def page_runtimes(self, *, page_size: int = 0, page_token: str = "") -> RuntimeList:
        return self.house.page_runtimes(page_size=page_size, page_token=page_token)

    async def get_session(self, name: str) -> Session:
        return self.house.get_session(name)

    async def list_sessions(self, runtime: str) -> list[Session]:
        return self.house.list_sessions(runtime)

    async def page_sessions(self, runtime: str, *, page_size: int = 0, page_token: str = "") -> SessionList:
        return self.house.page_sessions(runtime, page_size=page_size, page_token=page_token)

    async def session_log(self, session: str) -> list[dict[str, str]]:
        return self.house.session_log(session)

    async def page_session_log(
        self, session: str, *, page_size: int = 0, page_token: str = ""
    ) -> SessionLogPage:
        return self.house.page_session_log(session, page_size=page_size, page_token=page_token)

    async def network_log(self, runtime: str) -> list[dict[str, str]]:
        return self.house.network_log(runtime)

    async def page_network_log(
        self, runtime: str, *, page_size: int = 0, page_token: str = ""
    ) -> SessionLogPage:
        return self.house.page_network_log(runtime, page_size=page_size, page_token=page_token)

    async def get_code(self, name: str) -> str:
        return self.house.get_code(name)

    async def follower(
        self,
        name: str,
        *,
        after: int = 0,
        late: bool = False,
        tails: bool = False,
        page_bytes: int = PAGE_BYTES,
    ) -> Follower:
        return self.house.follower(name, after=after, late=late, tails=tails, page_bytes=page_bytes)

    async def list_executions(self, session: str, *, page_size: int = 100, page_token: str = "") -> Page:
        return self.house.list_executions(session, page_size=page_size, page_token=page_token)

    async def read_text(
        self, name: str, which: TextName, *, offset: int = 0, limit: int = 65_536
    ) -> TextPage:
        return self.house.read_text(name, which, offset=offset, limit=limit)
