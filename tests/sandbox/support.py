"""What the tests of the sandboxes share: a spec for this interpreter, output read to its end, a look at the host."""

import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cellhouse.sandbox import ProcessExit, SandboxProcess, SandboxSpec
from cellhouse.sandbox.protocol import TOKEN
from cellhouse.sandbox.supervised import SupervisedSandbox

SECONDS = 20.0  # after which a test that waits for something has failed
PYTHON = Path(sys.executable)
ROOT = Path(__file__).resolve().parents[2]
PREFIXES = tuple(dict.fromkeys(Path(prefix) for prefix in (sys.prefix, sys.base_prefix)))


def spec(state: Path, **changes: Any) -> SandboxSpec:
    return SandboxSpec(**{"state": state, "python": PYTHON, "read_only": PREFIXES, **changes})


@dataclass(frozen=True)
class Done:
    out: str
    err: str
    how: ProcessExit


async def read_to_end(descriptor: int) -> bytes:
    """Everything until nobody holds the other end any more; closes the descriptor."""
    loop = asyncio.get_running_loop()
    parts: list[bytes] = []
    ended: asyncio.Future[None] = loop.create_future()

    def read() -> None:
        data = os.read(descriptor, 65536)
        parts.append(data)
        if not data and not ended.done():
            ended.set_result(None)

    loop.add_reader(descriptor, read)
    try:
        async with asyncio.timeout(SECONDS):
            await ended
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    return b"".join(parts)


async def read_line(descriptor: int) -> str:
    """One line that is written in one piece; leaves the descriptor open."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        if not line.done():
            line.set_result(os.read(descriptor, 4096))

    loop.add_reader(descriptor, read)
    try:
        async with asyncio.timeout(SECONDS):
            return (await line).decode().strip()
    finally:
        loop.remove_reader(descriptor)


def hush(process: SandboxProcess) -> None:
    """Close the pipes of a process whose output nobody wants."""
    os.close(process.stdout_fd)
    os.close(process.stderr_fd)


async def ended(process: SandboxProcess) -> ProcessExit:
    async with asyncio.timeout(SECONDS):
        return await process.wait()


async def run(
    sandbox: SupervisedSandbox, *argv: str, env: dict[str, str] | None = None, cwd: str = ""
) -> Done:
    """Run a program inside, in /content, to its end."""
    process = await sandbox.spawn(argv, env=env or {}, cwd=cwd or sandbox.inside_path(sandbox.content))
    out, err, how = await asyncio.gather(
        read_to_end(process.stdout_fd), read_to_end(process.stderr_fd), ended(process)
    )
    return Done(out.decode(), err.decode(), how)


async def run_python(sandbox: SupervisedSandbox, code: str, **options: Any) -> Done:
    return await run(sandbox, str(PYTHON), "-I", "-S", "-c", code, **options)


async def until(condition: Callable[[], object]) -> None:
    """Wait for what is told by no event."""
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - /proc tells of no change
            await asyncio.sleep(0.002)


def marked(mark: str) -> list[int]:
    """The processes of the host that carry a mark that begins so."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                environ = (directory / "environ").read_bytes()
            except OSError:
                continue
            if f"{TOKEN}={mark}".encode() in environ:
                found.append(int(directory.name))
    return found


def descriptors() -> dict[str, str]:
    """This process's descriptors and what they are of."""
    found = {}
    for entry in list(Path("/proc/self/fd").iterdir()):
        try:
            found[entry.name] = str(entry.readlink())
        except OSError:
            continue  # the listing's own
    return found


def command_of(pid: int) -> list[str]:
    """The command line of a process of the host; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    except FileNotFoundError:
        return []
