"""A child process and all that it starts: run to its end, read with bounds, killed wholly."""

import asyncio
import codecs
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from cellhouse.excerpt import Excerpt, Shortened
from cellhouse.files.threads import in_thread
from cellhouse.model import mint_uid
from cellhouse.runtime.store import MARK, kill_marked
from cellhouse.sandbox.pidfd import pidfd_open

_READ_BYTES: Final = 65_536
_DRAIN_READS: Final = 64
"""Reads of what a pipe still holds when all are dead: more than any pipe holds."""


class Pipe:
    """One output of the child: its head and its tail in whole characters, and how many there were."""

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = Excerpt(max_chars, max(1, max_chars // 2))
        self._loop = asyncio.get_running_loop()
        self.read_end, self.write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.read_end, False)
        self._loop.add_reader(self.read_end, self._readable)

    def _readable(self) -> None:
        if not self._read():
            self._loop.remove_reader(self.read_end)

    def _read(self) -> bool:
        """Take in what is there; False at the end, or where nothing is there now."""
        try:
            data = os.read(self.read_end, _READ_BYTES)
        except BlockingIOError:
            return False
        self._text.add(self._decoder.decode(data, final=not data))
        return bool(data)

    def started(self) -> None:
        """The child has the other end, and nobody else."""
        os.close(self.write_end)
        self.write_end = -1

    def close(self) -> None:
        """Take what is left, and wait for nobody: whoever still holds the other end is not listened to."""
        self._loop.remove_reader(self.read_end)
        for _ in range(_DRAIN_READS):
            if not self._read():
                break
        os.close(self.read_end)
        if self.write_end >= 0:
            os.close(self.write_end)
        self._text.add(self._decoder.decode(b"", final=True))

    @property
    def chars(self) -> int:
        """How many characters there were."""
        return self._text.chars

    def shown(self) -> Shortened:
        return self._text.render(self._max_chars, "")


@dataclass(frozen=True, slots=True)
class Ran:
    """How it went. `status` is the exit status, negative for a signal."""

    status: int
    stdout: Pipe
    stderr: Pipe
    # "interrupt" or "kill", where it had to be ended.
    ended_by: str | None
    # Processes besides the first that were still there at its end, and were killed.
    left: int


@dataclass(frozen=True, slots=True)
class Order:
    """What to run. `timeout` and `grace` (from the interrupt to the kill) are seconds."""

    argv: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]
    max_chars: int
    timeout: float | None
    grace: float


async def run_child(order: Order, stop: asyncio.Event) -> Ran:
    """Run to the end, to `timeout`, or until `stop` is set. OSError where it can't be started.

    The child leads a session and a process group of its own. With it end all of its group, and all that carry its mark in
    their environment wherever they have gone, before this returns or raises.
    """
    mark = f"local-{mint_uid()}"
    stdout, stderr = Pipe(order.max_chars), Pipe(order.max_chars)
    try:
        process = await in_thread(
            subprocess.Popen,
            list(order.argv),
            cwd=order.cwd,
            env={**order.environment, MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=stdout.write_end,
            stderr=stderr.write_end,
            start_new_session=True,
        )
    except BaseException:
        stdout.close()
        stderr.close()
        await in_thread(kill_marked, mark)  # started in the moment in which the caller went away
        raise
    stdout.started()
    stderr.started()
    left, ended_by = 0, None
    try:
        with _End(process) as end:
            ended_by = await _wait(end, process, order, stop)
    finally:
        _signal_group(process, signal.SIGKILL)
        process.wait()
        left = await in_thread(kill_marked, mark)
        stdout.close()
        stderr.close()
    return Ran(process.returncode, stdout, stderr, ended_by, left)


async def _wait(
    end: "_End", process: "subprocess.Popen[bytes]", order: Order, stop: asyncio.Event
) -> str | None:
    if await end.within(order.timeout, stop):
        return None
    _signal_group(process, signal.SIGINT)
    return "interrupt" if await end.within(order.grace) else "kill"


class _End:
    """The end of the process, seen by the loop."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._ended = asyncio.Event()

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._pidfd = pidfd_open(self._process.pid)
        self._loop.add_reader(self._pidfd, self._ended.set)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)

    async def within(self, seconds: float | None, stop: asyncio.Event | None = None) -> bool:
        """Whether it ended in that time, and before `stop` was set."""
        waits = [asyncio.ensure_future(self._ended.wait())]
        if stop is not None:
            waits.append(asyncio.ensure_future(stop.wait()))
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return self._ended.is_set()


def _signal_group(process: "subprocess.Popen[bytes]", number: int) -> None:
    """Its number can be nobody else's: the process is a child that was not waited for yet, and led the group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
