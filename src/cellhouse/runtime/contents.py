"""What lies in /content, as a house hands it out: rich outputs of executions, and files in and out."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Iterable, Mapping
from contextlib import aclosing
from typing import Any

from cellhouse.artifacts import BoundStore
from cellhouse.files import HostileDir
from cellhouse.files.threads import in_thread
from cellhouse.journal import ExecutionLog
from cellhouse.model import (
    ExecuteCodeResult,
    ExecutionName,
    FileList,
    FileWritten,
    RichOutput,
    RuntimeName,
    StagedInput,
    check_input_name,
)
from cellhouse.runtime import outputs
from cellhouse.runtime.answering import answering
from cellhouse.runtime.host import RuntimeHost
from cellhouse.runtime.inputs import STAGED_BYTES, checked_inputs, pieces_of
from cellhouse.runtime.outputs import OutputData
from cellhouse.runtime.store import RuntimeStore
from cellhouse.runtime.transfer import ContentFile, listing


class ReadableContents(ABC):
    """The part of a house that reads what its runtimes have in /content, living or closed, wherever their records are."""

    @abstractmethod
    async def get_execution(self, name: str) -> ExecuteCodeResult: ...

    @property
    @abstractmethod
    def artifacts(self) -> BoundStore:
        """The artifact store, as this house's tenant sees it. What is in it outlives runtimes."""

    @abstractmethod
    async def stage_input(
        self,
        runtime: str,
        name: str,
        chunks: AsyncIterable[bytes],
        *,
        limit: int = STAGED_BYTES,
        sha256: str = "",
    ) -> str: ...

    @answering
    async def stage_inputs(self, runtime: str, inputs: Mapping[str, StagedInput]) -> Mapping[str, str]:
        """Put inputs into a runtime: name to bytes, the Path of a local file, or the ref of an artifact (a `str`).

        Gives name to absolute path in the sandbox, which every later execution there finds in CELLHOUSE_INPUTS, a JSON
        object of all that was staged so far. An input of a name that was staged before takes its place. INVALID_ARGUMENT
        before anything is staged, NOT_FOUND (artifact, runtime), RESOURCE_EXHAUSTED; what came before the one that
        failed stays staged.
        """
        checked = checked_inputs(inputs)
        staged = {}
        for name, value in checked.items():
            async with aclosing(pieces_of(name, value, self.artifacts)) as pieces:
                staged[name] = await self.stage_input(runtime, name, pieces)
        return staged

    @abstractmethod
    def open_content(self, runtime: str) -> HostileDir: ...

    @abstractmethod
    async def _latest(self, name: str, index: int) -> tuple[int, str]:
        """The newest revision and digest of an output that the journal knows of; 0 and empty where it knows none."""

    @answering
    async def get_rich_output(self, name: str, index: int) -> RichOutput:
        """The output as it is now: current size, `revision`, `modified`."""
        result = await self.get_execution(name)
        latest = await self._latest(name, index)
        with self._content_of(name) as content:
            return await in_thread(outputs.rich_output, result, latest, content, index)

    @answering
    async def get_bundle(self, name: str, index: int) -> dict[str, Any]:
        """The nbformat output. NOT_FOUND where it was dropped, removed, or the runtime deleted."""
        result = await self.get_execution(name)
        with self._content_of(name) as content:
            return await in_thread(outputs.bundle, result, content, index)

    @answering
    async def get_output_data(self, name: str, index: int, mime_type: str) -> OutputData:
        """One representation of a rich output, decoded."""
        result = await self.get_execution(name)
        latest = await self._latest(name, index)
        with self._content_of(name) as content:
            return await in_thread(outputs.output_data, result, latest, content, index, mime_type)

    @answering
    def open_file(self, runtime: str, path: str) -> ContentFile:
        """A file of /content, also of a closed runtime; to be closed by the caller. NOT_FOUND, INVALID_ARGUMENT."""
        with self.open_content(runtime) as content:
            return ContentFile.open(content, path)

    @answering
    async def list_files(self, runtime: str, path: str = "", *, recursive: bool = False) -> FileList:
        """What is in a directory of /content, without what executions displayed; at most 10,000 names, and it says so."""
        with self.open_content(runtime) as content:
            return await in_thread(listing, content, path, recursive=recursive)

    def _content_of(self, name: str) -> contextlib.closing[HostileDir]:
        return contextlib.closing(self.open_content(str(ExecutionName.parse(name).runtime_name)))


class Contents(ReadableContents):
    """The same of a house that has the records and the runtimes itself; and what is written there."""

    _store: RuntimeStore

    @abstractmethod
    def _log(self, execution: ExecutionName) -> ExecutionLog: ...

    @abstractmethod
    def _host(self, name: RuntimeName) -> RuntimeHost: ...

    @answering
    def latest_output(self, name: str, index: int) -> tuple[int, str]:
        """The newest revision and digest of an output that the journal knows of; 0 and empty where it knows none."""
        return outputs.latest_of(self._log(ExecutionName.parse(name)), index)

    async def _latest(self, name: str, index: int) -> tuple[int, str]:
        return self.latest_output(name, index)

    @answering
    async def put_file(self, runtime: str, path: str, chunks: Iterable[bytes]) -> int:
        """Write a file of /content whole; returns its size in bytes."""
        return await self._host(RuntimeName.parse(runtime)).put_file(path, chunks)

    @answering
    def open_content(self, runtime: str) -> HostileDir:
        """/content of a runtime, living or closed; to be closed by the caller. NOT_FOUND, RUNTIME_DELETED."""
        return self._store.content(RuntimeName.parse(runtime).runtime)

    @answering
    async def receive_file(
        self, runtime: str, path: str, chunks: AsyncIterable[bytes], *, limit: int, sha256: str = ""
    ) -> FileWritten:
        """Write a file of /content whole, as its pieces come; what stood there is replaced when all has come."""
        host = self._host(RuntimeName.parse(runtime))
        return await host.receive_file(path, chunks, limit=limit, sha256=sha256)

    @answering
    async def stage_input(
        self,
        runtime: str,
        name: str,
        chunks: AsyncIterable[bytes],
        *,
        limit: int = STAGED_BYTES,
        sha256: str = "",
    ) -> str:
        """Put one input into a runtime, as its pieces come; its absolute path in the sandbox. See `stage_inputs`."""
        check_input_name(name)
        host = self._host(RuntimeName.parse(runtime))
        return await host.stage_input(name, chunks, limit=limit, sha256=sha256)

    @answering
    async def delete_file(self, runtime: str, path: str) -> None:
        """Remove a file of /content; NOT_FOUND, INVALID_ARGUMENT for a directory."""
        await self._host(RuntimeName.parse(runtime)).delete_file(path)
