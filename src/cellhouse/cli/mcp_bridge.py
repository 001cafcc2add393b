"""A service as the place of MCP's tools: `cellhouse mcp --url`."""

from collections.abc import AsyncIterator

from cellhouse.client import AsyncClient
from cellhouse.doors.mcp.place import FilePart, TextName
from cellhouse.model import Event, FileWritten, TailFrame, TextPart


class ClientPlace:
    """A client's methods under the names that the tools call."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self.runtime_specs = client.runtime_specs
        self.create_runtime = client.create_runtime
        self.page_runtimes = client.page_runtimes
        self.delete_runtime = client.delete_runtime
        self.page_sessions = client.page_sessions
        self.delete_session = client.delete_session
        self.interrupt = client.interrupt
        self.restart = client.restart
        self.execute = client.execute
        self.get_execution = client.get_execution
        self.get_rich_output = client.get_rich_output
        self.get_output_data = client.get_output_data
        self.list_files = client.list_files

    def watch(self, name: str) -> AsyncIterator[Event | TailFrame]:
        return self._client.events(name, tails=True)

    async def read_text(self, name: str, which: TextName, *, offset: int, limit: int) -> TextPart:
        return await self._client.read_text(name, which, offset=offset, limit=limit)

    async def read_file(self, runtime: str, path: str, *, offset: int, limit: int) -> FilePart:
        part = await self._client.read_part(runtime, path, offset=offset, limit=limit)
        return FilePart(part.data, part.total)

    async def write_file(self, runtime: str, path: str, data: bytes) -> FileWritten:
        return await self._client.upload(runtime, path, data)
