"""What a session runner asks of a house, in this process, kept, or far away."""

from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Protocol

from cellhouse.model import (
    ExecuteCodeRequest,
    ExecuteCodeResult,
    Runtime,
    RuntimeSpec,
    Session,
    StagedInput,
)
from cellhouse.runtime import ContentFile


class Handle(Protocol):
    """One execution: a house's handle, or a client's."""

    async def result(self) -> ExecuteCodeResult: ...


class AnyHouse(Protocol):
    """`House`, `KeptHouse`, `AsyncClient`: the methods that all have."""

    async def create_runtime(
        self, spec: RuntimeSpec | None = None, *, runtime_id: str | None = None
    ) -> Runtime: ...

    async def create_session(self, runtime: str, *, session_id: str | None = None) -> Session: ...

    async def delete_runtime(self, name: str) -> None: ...

    async def cancel(self, name: str) -> None: ...

    async def restart(self, session: str) -> None: ...

    async def stage_inputs(self, runtime: str, inputs: Mapping[str, StagedInput]) -> Mapping[str, str]: ...

    def execute(self, request: ExecuteCodeRequest) -> Awaitable[Handle]: ...

    def open_file(self, runtime: str, path: str) -> ContentFile | AsyncIterator[bytes]: ...


class FileChanged(Exception):
    """A file is no longer as it was reported."""


async def read_file(house: AnyHouse, runtime: str, path: str, size: int) -> bytes:
    """A file of /content that is reported to have `size` bytes. FileChanged where it has others."""
    opened = house.open_file(runtime, path)
    read = bytearray()
    if isinstance(opened, ContentFile):
        with opened:
            while len(read) <= size and (block := await opened.read(len(read), size + 1 - len(read))):
                read += block
    else:
        async for block in opened:
            read += block
            if len(read) > size:
                break
    if len(read) != size:
        raise FileChanged(path)
    return bytes(read)
