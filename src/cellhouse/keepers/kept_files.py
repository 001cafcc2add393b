"""Rich outputs and files of a house with keepers: the service reads /content itself, as a house does."""

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Final

from cellhouse.artifacts import BoundStore
from cellhouse.files import HostileDir
from cellhouse.keepers import calls
from cellhouse.keepers.part import KeptPart
from cellhouse.model import (
    FileWritten,
    RuntimeName,
    check_input_name,
)
from cellhouse.runtime.answering import answering
from cellhouse.runtime.contents import ReadableContents
from cellhouse.runtime.inputs import STAGED_BYTES

UPLOAD_BYTES: Final = 1 << 62
"""No limit of its own for a file that a program puts: /content has one."""


class KeptFiles(ReadableContents, KeptPart):
    """The part of `KeptHouse` that is about what lies in /content, and about artifacts; see House."""

    async def _latest(self, name: str, index: int) -> tuple[int, str]:
        return await self._of_execution(name, calls.LATEST_OUTPUT, index=index)

    @answering
    async def put_file(self, runtime: str, path: str, chunks: Iterable[bytes]) -> int:
        async def each() -> AsyncIterator[bytes]:
            for chunk in chunks:
                yield chunk

        return (await self.receive_file(runtime, path, each(), limit=UPLOAD_BYTES)).bytes

    @answering
    async def receive_file(
        self, runtime: str, path: str, chunks: AsyncIterable[bytes], *, limit: int, sha256: str = ""
    ) -> FileWritten:
        self._check_open()
        name = RuntimeName.parse(runtime)
        arguments = {"name": str(name), "path": path, "limit": limit, "sha256": sha256}
        written = await self._router.upload(name.runtime, calls.RECEIVE_FILE, arguments, chunks)
        return FileWritten.from_wire(written)

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
        self._check_open()
        parsed = RuntimeName.parse(runtime)
        arguments = {"name": str(parsed), "input": check_input_name(name), "limit": limit, "sha256": sha256}
        staged = await self._router.upload(parsed.runtime, calls.STAGE_INPUT, arguments, chunks)
        return str(staged["path"])

    @property
    def artifacts(self) -> BoundStore:
        self._check_open()
        return self._router.artifacts

    @answering
    def open_content(self, runtime: str) -> HostileDir:
        self._check_open()
        name = RuntimeName.parse(runtime).runtime
        place = self._router.place(name)
        if not place.exists():
            return self._root.open_content(runtime)
        return place.store().content(name)

    @answering
    async def delete_file(self, runtime: str, path: str) -> None:
        await self._of_runtime(runtime, calls.DELETE_FILE, path=path)
