"""What a caller of a house does, in few words."""

import asyncio
from dataclasses import dataclass

from cellhouse import ExecuteCodeRequest, ExecuteCodeResult, House
from cellhouse.model import StreamEvent
from cellhouse.runtime import ExecutionHandle

SECONDS = 60.0


@dataclass(frozen=True)
class Caller:
    """Runs code in one session, and waits for it as long as is decent."""

    house: House
    runtime: str
    session: str

    def in_session(self, name: str) -> "Caller":
        return Caller(self.house, self.runtime, f"{self.runtime}/sessions/{name}")

    async def start(self, code: str, **options: object) -> ExecutionHandle:
        return await self.house.execute(ExecuteCodeRequest(code=code, session=self.session, **options))  # type: ignore[arg-type]

    async def run(self, code: str, **options: object) -> ExecuteCodeResult:
        handle = await self.start(code, **options)
        async with asyncio.timeout(SECONDS):
            return await handle

    async def printing(self, code: str, text: str, **options: object) -> ExecutionHandle:
        """Hand code in, and return once it has printed this."""
        handle = await self.start(code, **options)
        printed = ""
        async with asyncio.timeout(SECONDS):
            async for event in handle.events():
                if isinstance(event, StreamEvent):
                    printed += event.text
                    if text in printed:
                        return handle
        raise AssertionError(f"it ended and printed only {printed!r}")

    def file(self, name: str) -> str:
        """What a file of /content holds."""
        with self.house.open_content(self.runtime) as content:
            return content.read(name, 1 << 20).decode()
