"""A house of this process as the tools' place."""

from collections.abc import AsyncIterator, Awaitable, Callable

from cellhouse.doors.mcp.place import FilePart, TextName
from cellhouse.keepers import AnyHouse
from cellhouse.model import Event, ExecuteCodeRequest, FileWritten, TailFrame, TextPart
from cellhouse.runtime import ExecutionHandle


class HousePlace:
    """`execute` accepts code: the house's own method, or that of a tenant, who sees it through to its end."""

    def __init__(
        self,
        house: AnyHouse,
        *,
        execute: Callable[[ExecuteCodeRequest], Awaitable[ExecutionHandle]] | None = None,
        file_bytes: int,
    ) -> None:
        self._house, self._execute, self._file_bytes = house, execute or house.execute, file_bytes
        self.runtime_specs = house.runtime_specs
        self.create_runtime = house.create_runtime
        self.page_runtimes = house.page_runtimes
        self.delete_runtime = house.delete_runtime
        self.page_sessions = house.page_sessions
        self.delete_session = house.delete_session
        self.interrupt = house.interrupt
        self.restart = house.restart
        self.get_execution = house.get_execution
        self.get_rich_output = house.get_rich_output
        self.get_output_data = house.get_output_data
        self.list_files = house.list_files

    async def execute(self, request: ExecuteCodeRequest) -> ExecutionHandle:
        return await self._execute(request)

    def watch(self, name: str) -> AsyncIterator[Event | TailFrame]:
        return self._house.events(name, tails=True)

    async def read_text(self, name: str, which: TextName, *, offset: int, limit: int) -> TextPart:
        page = await self._house.read_text(name, which, offset=offset, limit=limit)
        return TextPart(
            text=page.text,
            offset=page.offset,
            next_offset=page.next_offset,
            total_bytes=page.total_bytes,
            eof=page.eof,
        )

    async def read_file(self, runtime: str, path: str, *, offset: int, limit: int) -> FilePart:
        with self._house.open_file(runtime, path) as file:
            return FilePart(await file.read(min(offset, file.size), limit), file.size)

    async def write_file(self, runtime: str, path: str, data: bytes) -> FileWritten:
        async def whole() -> AsyncIterator[bytes]:
            yield data

        return await self._house.receive_file(runtime, path, whole(), limit=self._file_bytes)
