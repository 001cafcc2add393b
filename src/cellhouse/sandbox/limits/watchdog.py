"""The watcher outside: looks four times a second whether a sandbox keeps to its limits, and ends what does not."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cellhouse.model import LimitHit, LimitName, WallLimits
from cellhouse.sandbox.limits.census import Census, count, in_memory, measure_memory, measure_writes
from cellhouse.sandbox.limits.disk_use import Unmeasurable, disk_use
from cellhouse.sandbox.pidfd import parent_of, pidfd_open, send_signal
from cellhouse.sandbox.process import SandboxProcess

TICK_SECONDS: Final = 0.25
KILL_SECONDS: Final = 2.0  # for what was killed to be gone before there is another look
DISK_SHARE: Final = 10  # a look at the disk is at most one part in so many of the time


@dataclass(frozen=True, slots=True)
class Found:
    """A limit that is exceeded, and by whom most."""

    hit: LimitHit
    pid: int


class Watchdog:
    """Watches what of `names` it can. Started in the sandbox's loop, and stopped by `close`."""

    def __init__(
        self,
        names: Iterable[LimitName],
        limits: WallLimits,
        *,
        content: Path,
        sessions: Callable[[], dict[int, SandboxProcess]],
        told: Callable[[SandboxProcess, LimitHit], None],
        at_tick: Callable[[], None],
    ) -> None:
        self._names, self._limits, self._content = frozenset(names), limits, content
        self._sessions, self._told, self._at_tick = sessions, told, at_tick
        self._task: asyncio.Task[None] | None = None
        self._supervisor = 0
        self._written: dict[int, int] = {}
        self._disk_due = 0.0
        self._disk_over = 0
        self._ended_for_disk = False

    def begin(self, launcher: int, supervisor: int) -> None:
        self._supervisor = supervisor
        self._task = asyncio.get_running_loop().create_task(self._watch(launcher, supervisor))

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _watch(self, launcher: int, supervisor: int) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._at_tick()
            sessions = self._sessions()
            if not self._names or not sessions:
                continue
            found = await asyncio.to_thread(self.look, launcher, supervisor, frozenset(sessions))
            if found is not None:
                await self._end(found)

    def look(self, launcher: int, supervisor: int, sessions: frozenset[int]) -> Found | None:
        """Blocks for some milliseconds; asked in a thread."""
        census = count(launcher, supervisor, sessions)
        return self._tasks(census) or self._memory(census) or self._disk(census)

    def _tasks(self, census: Census) -> Found | None:
        if "processes" not in self._names or census.tasks <= self._limits.processes or not census.shares:
            return None
        most = max(census.shares, key=lambda pid: census.shares[pid].tasks)
        return Found(LimitHit("processes", self._limits.processes, census.tasks), most)

    def _memory(self, census: Census) -> Found | None:
        if "memory" not in self._names or not census.shares:
            return None
        # Resident pages count once for each process that maps them: where even they are few, there is nothing to measure.
        if census.resident + in_memory(census) <= self._limits.memory:
            return None
        used = measure_memory(census)
        if used <= self._limits.memory:
            return None
        most = max(census.shares, key=lambda pid: census.shares[pid].resident)
        return Found(LimitHit("memory", self._limits.memory, used), most)

    def _disk(self, census: Census) -> Found | None:
        """Who has written most since the last look, once there is too much. What stands there is no later one's fault."""
        if "content" not in self._names or not census.shares or time.monotonic() < self._disk_due:
            return None
        began = time.monotonic()
        detail = ""
        try:
            used = disk_use(self._content)
        except Unmeasurable as error:
            # Whatever hides there counts as too much: else hiding would be the way round the limit.
            used, detail = max(self._limits.content, self._disk_over) + 1, str(error)
        ended = time.monotonic()
        self._disk_due = ended + DISK_SHARE * (ended - began) - TICK_SECONDS
        before, self._written = self._written, {}
        measure_writes(census)
        for pid, share in census.shares.items():
            self._written[pid] = share.written
        if self._ended_for_disk:
            # It may have written on until it was dead: what stands there now is what the others are measured against.
            self._ended_for_disk, self._disk_over = False, used
            return None
        if used <= max(self._limits.content, self._disk_over):
            self._disk_over = self._disk_over if used > self._limits.content else 0
            return None
        self._ended_for_disk = True
        most = max(census.shares, key=lambda pid: self._written[pid] - before.get(pid, 0))
        return Found(LimitHit("content", self._limits.content, None if detail else used, detail), most)

    async def _end(self, found: Found) -> None:
        watched = self._sessions().get(found.pid)
        if watched is None:  # an orphan that nobody answers for
            with contextlib.suppress(OSError):
                pidfd = pidfd_open(found.pid)
                try:
                    if parent_of(found.pid) == self._supervisor:
                        send_signal(pidfd, signal.SIGKILL)
                finally:
                    os.close(pidfd)
            return
        self._told(watched, found.hit)
        watched.signal(signal.SIGKILL, group=True)
        await asyncio.wait([watched.exited], timeout=KILL_SECONDS)
