"""One process inside a sandbox, held by its pidfd: the pidfd says that it ended, the supervisor only says how."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from cellhouse.model import LimitHit
from cellhouse.sandbox.pidfd import has_ended, send_signal
from cellhouse.sandbox.usage import ProcessUsage, cpu_seconds, open_stat, usage

EXPLAIN_SECONDS: Final = (
    0.3  # from a process's end to the supervisor's word on it, else the cause is not known
)


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How a process ended: by exit, by a signal, or (both None) in a way that could not be learnt.

    `cpu_seconds` and `peak_memory_bytes` include the children it waited for (the peak is that of the largest one
    process); None where not measured. `limit_hit` is the limit that it was ended by, if it was one.
    """

    exit_status: int | None = None
    signal: int | None = None
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    limit_hit: LimitHit | None = None


UNKNOWN_EXIT: Final = ProcessExit()


class SandboxProcess:
    """A process that `Sandbox.spawn` started or `Sandbox.adopt` took on.

    `pid` is its number on the host (0 where it had ended before that could be learnt). `stdout_fd` and `stderr_fd` are
    our ends of its two pipes, non-blocking, and the caller's to read and to close; -1 where its output is another's.
    """

    def __init__(self, *, pid: int, pidfd: int, stdout_fd: int, stderr_fd: int) -> None:
        self.pid = pid
        self.stdout_fd = stdout_fd
        self.stderr_fd = stderr_fd
        # Set by who keeps the limits: asked at the end, and told when nothing is being asked of the process.
        self.judge: Callable[[ProcessExit], LimitHit | None] = lambda _: None
        self.at_rest: Callable[[], None] = lambda: None
        self._pidfd = pidfd
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[ProcessExit] = self._loop.create_future()
        self._explanation: ProcessExit | None = None
        self._ended = False
        self._stat = -1
        self._waiting: asyncio.TimerHandle | None = None
        self._loop.add_reader(pidfd, self._on_end)

    def signal(self, sig: int, group: bool = False) -> None:
        """Send a signal to the process, or to the process group it leads; nothing happens where it has ended."""
        if self._ended or (group and send_signal(self._pidfd, sig, group=True, pid=self.pid)):
            return
        # Also where it leads no group, as it should have.
        send_signal(self._pidfd, sig)

    def usage(self) -> ProcessUsage | None:
        """What it uses now; None where it has ended."""
        if self._ended or not self.pid:
            return None
        found = usage(self.pid)
        # Looked at afterwards: while it had not ended, its number was its own.
        return None if has_ended(self._pidfd) else found

    def cpu_seconds(self) -> float | None:
        """Seconds of CPU so far, its children's that it waited for too; None where it has ended."""
        if self._ended or not self.pid:
            return None
        self.at_rest()  # this is asked between executions
        return cpu_seconds(self._stat) if self._stat >= 0 else self._first_cpu_seconds()

    def _first_cpu_seconds(self) -> float | None:
        try:
            self._stat = open_stat(self.pid)
        except OSError:
            return None
        # Looked at afterwards: while it had not ended, its number was its own.
        return None if has_ended(self._pidfd) else cpu_seconds(self._stat)

    async def wait(self) -> ProcessExit:
        """How it ended, once it has; cancelling this leaves the process alone."""
        return await asyncio.shield(self.exited)

    @property
    def explained(self) -> bool:
        """Whether the supervisor's word on the end is there, or will never come."""
        return self._explanation is not None

    def explain(self, how: ProcessExit | None) -> None:
        """Called by the sandbox with the supervisor's word; None says that no word will come any more.

        A word about a process that has not ended is kept until it has: only the pidfd decides that.
        """
        if self._explanation is None:
            self._explanation = UNKNOWN_EXIT if how is None else how
        if self._ended:
            self._resolve()

    def _on_end(self) -> None:
        self._ended = True
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        if self._stat >= 0:
            os.close(self._stat)
        if self._explanation is None:
            self._waiting = self._loop.call_later(EXPLAIN_SECONDS, self._resolve)
        else:
            self._resolve()

    def _resolve(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        if not self.exited.done():
            how = self._explanation or UNKNOWN_EXIT
            self.exited.set_result(replace(how, limit_hit=self.judge(how)))
