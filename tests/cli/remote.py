"""The command line against a service of the test's own: the service here, the command in a process."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.doors.support import Door
from tests.runtime.support import within


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Commands:
    """Runs commands with a service's URL in the environment."""

    door: Door
    directory: Path
    quick: list[str]
    """What a forked one begins with."""

    async def start(self, *args: str) -> asyncio.subprocess.Process:
        """One that is started, and left running."""
        return await self._begin(sys.executable, "-m", "cellhouse", *args)

    async def _begin(self, *command: str, stdin: bool = False) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *command,
            cwd=self.directory, env={**os.environ, "CELLHOUSE_URL": self.door.service.url},
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip

    async def __call__(self, *args: str, stdin: str | None = None) -> Ended:
        process = await self._begin(*self.quick, *args, stdin=stdin is not None)
        return await self.end(process, stdin)

    async def end(self, process: asyncio.subprocess.Process, stdin: str | None = None) -> Ended:
        out, err = await within(process.communicate(None if stdin is None else stdin.encode()))
        assert process.returncode is not None
        return Ended(process.returncode, out.decode(), err.decode())
