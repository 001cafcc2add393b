"""What the tests of zygotes share: a sandbox without walls, and inside it a kernel that does as it is told."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cellhouse.kernel import KernelProcess
from cellhouse.runtime import zygote
from cellhouse.sandbox import INSIDE_DIR, Sandbox, create_sandbox
from tests.sandbox.support import spec

# In place of the native kernel: says what it has imported of what was asked for, then ends with its socket.
HOST = """
import json, os, socket, sys

def prepare():
    pass

def fill_pools():
    pass

def run(sock):
    header = sock.recv(4096)
    sock.sendall(header + json.dumps(sorted(sys.modules)).encode())
    while sock.recv(4096):
        pass
    os._exit(7)
"""
KERNEL = """
import os, sys

NAME = "native"

def load():
    sys.path.append(os.path.dirname(__file__))
"""
MODULES = {
    "well": "",
    "talks": "print('hello from an import')",
    "raises": "raise ValueError('not today')",
    "leaves": "raise SystemExit(3)",
    "dies": "import os; os.write(2, b'no more'); os._exit(3)",
    "hangs": "import signal; signal.pause()",
    "threads": "import _thread, time; _thread.start_new_thread(time.sleep, (1000,))",
}


def stand_in(directory: Path, patch: pytest.MonkeyPatch, *, program: str = "") -> dict[str, str]:
    """Have zygotes started from `directory`; the variables with which they find MODULES. `program` is in their place."""
    inside = directory / "inside"
    (inside / "native").mkdir(parents=True)
    (inside / "native" / "__init__.py").touch()
    (inside / "native" / "host.py").write_text(HOST)
    (inside / "kernel.py").write_text(KERNEL)
    (inside / "zygote.py").write_text(program or (INSIDE_DIR / "zygote.py").read_text())
    (directory / "modules").mkdir()
    for name, code in MODULES.items():
        (directory / "modules" / f"{name}.py").write_text(code)
    patch.setattr(zygote, "INSIDE_DIR", inside)
    return {"PYTHONPATH": str(directory / "modules"), "PYTHONDONTWRITEBYTECODE": "1"}


@asynccontextmanager
async def open_sandbox(state: Path) -> AsyncIterator[Sandbox]:
    made = create_sandbox("none", spec(state))
    await made.start()
    try:
        yield made
    finally:
        await made.close()


class Ends:
    """What a session is given, and our end of its socket."""

    def __init__(self) -> None:
        self.ours, self._theirs = socket.socketpair()
        self.ours.setblocking(False)
        self._null = os.open(os.devnull, os.O_WRONLY)
        self.given = (self._theirs.fileno(), self._null, self._null)

    def give(self) -> None:
        self._theirs.close()
        os.close(self._null)

    async def modules(self) -> list[str]:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self.ours, b"")
        await loop.sock_sendall(self.ours, b"[")
        data = b""
        while not data.endswith(b"]"):
            data += await loop.sock_recv(self.ours, 1 << 16)
        found: list[str] = json.loads(data[1:])
        return found


class FakeNative:
    """A kernel as far as a nursery minds: it is launched, and closed."""

    def __init__(self, launch: object) -> None:
        self.launch = launch
        self.process: KernelProcess | None = None
        self.ends = Ends()

    async def start(self) -> None:
        try:
            self.process = await self.launch(*self.ends.given)  # type: ignore[operator]
        except BaseException:
            self.ends.ours.close()
            raise
        finally:
            self.ends.give()

    async def close(self) -> None:
        self.ends.ours.close()
        if self.process is not None:
            self.process.signal(signal.SIGKILL, True)
            await self.process.exited
