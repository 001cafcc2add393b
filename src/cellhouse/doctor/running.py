"""Runs one program inside a sandbox to its answer, within a time and within bounds: what it says is hostile."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cellhouse.doctor.programs import REACHED
from cellhouse.model import LimitHit
from cellhouse.model.wire import plain_text
from cellhouse.sandbox import Sandbox, SandboxGone, SandboxProcess, SpawnFailed

VARIABLE: Final = "CELLHOUSE_PROBE"
OUTPUT_BYTES: Final = 65_536
ANSWER_CHARS: Final = 200
FLAGS: Final = ("-I", "-S", "-B", "-c")


class NoAnswer(Exception):
    """The program came to no answer; the message says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program said, or by which signal it was ended; `hit` is the limit that ended it, if it was one."""

    text: str
    hit: LimitHit | None = None

    @property
    def reached(self) -> bool:
        return self.text == REACHED


@contextlib.asynccontextmanager
async def spawned(
    sandbox: Sandbox, python: str, source: str, args: Mapping[str, Any]
) -> AsyncIterator[SandboxProcess]:
    """The program running in /content, killed at the end. NoAnswer where it can't be started."""
    try:
        process = await sandbox.spawn(
            [python, *FLAGS, source],
            env={VARIABLE: json.dumps(dict(args))},
            cwd=sandbox.inside_path(sandbox.content),
        )
    except (SpawnFailed, SandboxGone) as error:
        raise NoAnswer(f"it could not be started: {error}") from None
    try:
        yield process
    finally:
        process.signal(signal.SIGKILL, group=True)
        for descriptor in (process.stdout_fd, process.stderr_fd):
            os.close(descriptor)
        await process.wait()


async def ask(
    sandbox: Sandbox, python: str, source: str, args: Mapping[str, Any], *, seconds: float
) -> Answer:
    """Run the program to its end. NoAnswer where it says nothing, or nothing within the time."""
    try:
        async with asyncio.timeout(seconds), spawned(sandbox, python, source, args) as process:
            out, err, how = await asyncio.gather(
                read_to_end(process.stdout_fd), read_to_end(process.stderr_fd), process.wait()
            )
    except TimeoutError:
        raise NoAnswer(f"it was not through after {seconds:g} s") from None
    if how.limit_hit is not None:
        return Answer("SIGKILL", how.limit_hit)
    if how.signal is not None:
        return Answer(_signal_name(how.signal))
    try:
        return answered(out.decode("utf-8", "replace"))
    except NoAnswer as error:
        last = (err.decode("utf-8", "replace").strip().splitlines() or ["nothing"])[-1]
        raise NoAnswer(f"{error}: it ended with status {how.exit_status} and said {_short(last)}") from None


def answered(out: str) -> Answer:
    """The answer on the last line that a program has printed. NoAnswer where there is none."""
    try:
        said = json.loads(out.splitlines()[-1])
    except (IndexError, ValueError, RecursionError):
        said = None
    if not isinstance(said, str):
        raise NoAnswer("it came to no answer")
    return Answer(_short(said))


async def read_line(descriptor: int) -> bytes:
    """The first line, which is short and written in one piece; empty where there is none."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        if not line.done():
            line.set_result(os.read(descriptor, OUTPUT_BYTES))

    loop.add_reader(descriptor, read)
    try:
        return await line
    finally:
        loop.remove_reader(descriptor)


async def read_to_end(descriptor: int) -> bytes:
    """Everything until nobody holds the other end any more; the last `OUTPUT_BYTES` of it."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    kept = b""

    def read() -> None:
        nonlocal kept
        try:
            data = os.read(descriptor, OUTPUT_BYTES)
        except BlockingIOError:
            return
        kept = (kept + data)[-OUTPUT_BYTES:]
        if not data and not ended.done():
            ended.set_result(None)

    loop.add_reader(descriptor, read)
    try:
        await ended
    finally:
        loop.remove_reader(descriptor)
    return kept


def _short(text: str) -> str:
    return plain_text(text)[:ANSWER_CHARS]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
