"""What the tools need of a house: the part of its methods that they call, wherever it is."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol

from cellhouse.model import (
    Event,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    ExecutionName,
    FileList,
    FileWritten,
    RichOutput,
    Runtime,
    RuntimeList,
    RuntimeSpec,
    RuntimeSpecs,
    SessionList,
    TailFrame,
    TextPart,
)

TextName = Literal["stdout", "stderr", "result", "traceback"]


class Watched(Protocol):
    """One execution that the house owns and a call watches: a house's handle, or a client's."""

    @property
    def name(self) -> ExecutionName: ...
    @property
    def attached(self) -> bool: ...
    def live(self) -> AsyncIterator[Event | TailFrame]: ...
    async def result(self) -> ExecuteCodeResult: ...
    async def cancel(self) -> bool: ...


class Data(Protocol):
    """One representation of a rich output, decoded."""

    @property
    def mime_type(self) -> str: ...
    @property
    def data(self) -> bytes: ...
    @property
    def modified(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class FilePart:
    """Some bytes of a file of /content, and how many it has."""

    data: bytes
    total: int


class Place(Protocol):
    """A house in this process, one whose runtimes are in keepers, or a client of a service. See `House` for each method."""

    async def runtime_specs(self) -> RuntimeSpecs: ...
    async def create_runtime(
        self, spec: RuntimeSpec | None = None, *, runtime_id: str | None = None, request_id: str | None = None
    ) -> Runtime: ...
    async def page_runtimes(self, *, page_size: int = 0, page_token: str = "") -> RuntimeList: ...
    async def delete_runtime(self, name: str) -> None: ...
    async def page_sessions(
        self, runtime: str, *, page_size: int = 0, page_token: str = ""
    ) -> SessionList: ...
    async def delete_session(self, session: str) -> None: ...
    async def interrupt(self, session: str) -> bool: ...
    async def restart(self, session: str) -> None: ...
    async def execute(self, request: ExecuteCodeRequest) -> Watched: ...
    async def get_execution(self, name: str) -> ExecuteCodeResult: ...
    def watch(self, name: str) -> AsyncIterator[Event | TailFrame]:
        """Its events from the first on, and tail frames, until it has finished."""
        ...

    async def read_text(self, name: str, which: TextName, *, offset: int, limit: int) -> TextPart: ...
    async def get_rich_output(self, name: str, index: int) -> RichOutput: ...
    async def get_output_data(self, name: str, index: int, mime_type: str) -> Data: ...
    async def list_files(self, runtime: str, path: str = "", *, recursive: bool = False) -> FileList: ...
    async def read_file(self, runtime: str, path: str, *, offset: int, limit: int) -> FilePart:
        """At most `limit` bytes from `offset` on."""
        ...

    async def write_file(self, runtime: str, path: str, data: bytes) -> FileWritten: ...
