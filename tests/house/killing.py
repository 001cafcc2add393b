"""Killing a process that has a House, in the middle of an execution."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cellhouse.environments import Environment
from cellhouse.model import SystemClock
from cellhouse.runtime.store import MARK, RuntimeStore

SECONDS = 60.0


@dataclass(frozen=True)
class Victim:
    """A living process, and what it runs: names of an execution that runs and of one that waits behind it."""

    process: asyncio.subprocess.Process
    state: Path
    running: str
    waiting: str
    events: int

    async def kill(self) -> None:
        """No time to tidy up."""
        self.process.kill()
        async with asyncio.timeout(SECONDS):
            await self.process.wait()

    def token(self) -> str:
        record = RuntimeStore(self.state / "runtimes", SystemClock()).read("victim")
        assert record is not None
        return record.token


@asynccontextmanager
async def victim(state: Path, environment: Environment, isolation: str) -> AsyncIterator[Victim]:
    script = Path(__file__).with_name("victim.py")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        str(state),
        str(environment.prefix.parent),
        isolation,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONWARNINGS": "default"},
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(SECONDS):
            line = await process.stdout.readline()
        running, waiting, events = json.loads(line)
        yield Victim(process, state, running, waiting, events)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def living(token: str) -> list[int]:
    """The processes that carry the mark of a runtime."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                environ = (directory / "environ").read_bytes()
            except OSError:
                continue
            if f"{MARK}={token}".encode() in environ.split(b"\0"):
                found.append(int(directory.name))
    return found
