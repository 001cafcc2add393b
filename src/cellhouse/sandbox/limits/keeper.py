"""The limits of one sandbox: decides what holds each, has it in force before anything runs, and knows what it ended."""

import asyncio
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from cellhouse.model import (
    Enforcement,
    LimitHit,
    LimitName,
    LimitReport,
    WallLimits,
)
from cellhouse.sandbox.limits import rlimits
from cellhouse.sandbox.limits.base import Group, GroupUnavailable, LimitMaker, Seat
from cellhouse.sandbox.limits.census import is_dying
from cellhouse.sandbox.limits.content_disk import DiskUnavailable
from cellhouse.sandbox.limits.disk_use import can_measure
from cellhouse.sandbox.limits.machine import Machine, fit
from cellhouse.sandbox.limits.require import require_limits
from cellhouse.sandbox.limits.watchdog import Watchdog
from cellhouse.sandbox.process import ProcessExit, SandboxProcess

NAMES: Final[tuple[LimitName, ...]] = get_args(LimitName)
WATCHER: Final = "by a watcher outside, four times a second"
REMOVE_ROUNDS: Final = 100
REMOVE_SECONDS: Final = 0.01


@dataclass(slots=True)
class _Place:
    """A process, the seat it is in (none where it did not get in), and how many had been killed there at the last look."""

    process: SandboxProcess
    seat: Seat | None
    kills: int
    ended: LimitHit | None = None


class LimitKeeper:
    """Used by the sandbox: `prepare`, then start it with `entrances` and `argument`, `begin`, `take` each process, `close`."""

    def __init__(
        self,
        limits: WallLimits,
        *,
        state: Path,
        content: Path,
        own_users: bool,
        maker: LimitMaker,
        own_uid: bool = False,
    ) -> None:
        """`own_users` says whether what runs is in a user namespace of its own, `own_uid` whether it has a uid of its own."""
        self.limits = fit(limits, Machine.here(state))
        self._state, self._content = state, content
        self._own_users, self._own_uid = own_users, own_uid
        self._maker = maker
        self._group: Group | None = None
        self._reports: dict[LimitName, LimitReport] = {}
        self._watchdog: Watchdog | None = None
        self._places: dict[SandboxProcess, _Place] = {}
        self._entering: set[asyncio.Future[None]] = set()
        self._preparing: asyncio.Future[None] | None = None
        self._seats = 0
        self._main_kills = 0
        self._outside: tuple[int, ...] = ()
        self._walls: LimitHit | None = None

    @property
    def reports(self) -> tuple[LimitReport, ...]:
        """Each limit, as it is held."""
        return tuple(self._reports[name] for name in NAMES if name in self._reports)

    # Before anything runs.

    async def prepare(self) -> None:
        """Have everything in force. FailedPrecondition where what the caller named can't be held here."""
        # Seen through also where nobody waits any more: `close` has to know what there is.
        self._preparing = asyncio.ensure_future(asyncio.to_thread(self._prepare))
        await asyncio.shield(self._preparing)

    def _prepare(self) -> None:
        no_group = no_disk = ""
        try:
            self._group = self._maker.make_group(self.limits)
        except GroupUnavailable as error:
            no_group = str(error)
        try:
            self._maker.mount_content(self.limits.content)
        except DiskUnavailable as error:
            no_disk = str(error)
        group = self._group.held if self._group is not None else frozenset()
        by_process = rlimits.held(own_users=self._own_users, own_uid=self._own_uid)
        for name in NAMES:
            if name in group:
                assert self._group is not None
                undone = "" if self._own_users else ", which hostile code without walls could leave"
                self._report(name, Enforcement.EXACT, f"by {self._group.name}{undone}")
            elif name in by_process:
                self._report(name, Enforcement.EXACT, "by a limit that each process carries along")
            elif name == "content":
                self._report_content(no_disk)
            elif name == "cpus" and self.limits.cpus >= Machine.here(self._state).cpus:
                self._report(name, Enforcement.EXACT, "this machine has no more")
            elif name in ("memory", "processes"):
                self._report(name, Enforcement.WATCHED, f"{WATCHER}; no cgroup: {no_group}")
            elif name == "cpus":
                self._report(name, Enforcement.NONE, f"no cgroup: {no_group}")
            else:
                self._report(
                    name, Enforcement.NONE, "the code could lift it, having a capability of the service's"
                )
        require_limits(self.limits, self.reports)

    def _report_content(self, no_disk: str) -> None:
        if not no_disk:
            self._report(
                "content", Enforcement.EXACT, "by a disk of its own, what the file system needs included"
            )
        elif can_measure():
            self._report("content", Enforcement.WATCHED, f"{WATCHER}; no disk of its own: {no_disk}")
        else:
            self._report("content", Enforcement.NONE, f"no disk of its own: {no_disk}; no du to watch with")

    def _report(self, name: LimitName, enforcement: Enforcement, detail: str) -> None:
        value = self.limits.value(name)
        self._reports[name] = LimitReport(name=name, value=value, enforcement=enforcement, detail=detail)

    @property
    def entrances(self) -> tuple[Path, ...]:
        """What is to be written into for being within the limits."""
        return self._group.entrances if self._group is not None else ()

    @property
    def argument(self) -> str:
        """The limits that the supervisor is to take on."""
        processes = rlimits.counts_processes(own_users=self._own_users, own_uid=self._own_uid)
        return rlimits.argument(self.limits, processes=processes)

    # While it lives.

    def begin(self, launcher: int, supervisor: int) -> None:
        self._outside = (launcher, supervisor)
        watched = [r.name for r in self.reports if r.enforcement is Enforcement.WATCHED]
        self._watchdog = Watchdog(
            [name for name in NAMES if name in watched],
            self.limits,
            content=self._content,
            sessions=lambda: {p.pid: p for p in self._places if p.pid and not p.exited.done()},
            told=self._told,
            at_tick=self._look,
        )
        self._watchdog.begin(launcher, supervisor)

    def take(self, process: SandboxProcess) -> None:
        """Answer for this process: whether it ends by a limit, and which."""
        place = _Place(process, None, 0)
        self._places[process] = place
        process.judge = lambda how: self._judge(place, how)
        process.at_rest = lambda: self._look_at(place)
        process.exited.add_done_callback(lambda _: self._leave(place))
        if self._group is None or "memory" not in self._group.held or not process.pid:
            return
        self._seats += 1
        with suppress(OSError):  # it is counted with the rest then
            seat = self._group.seat(f"s{self._seats}")
            # It can take the kernel of the host some milliseconds, for which nobody has to wait.
            entering = asyncio.get_running_loop().run_in_executor(None, self._enter, seat, process.pid)
            self._entering.add(entering)
            entering.add_done_callback(lambda done: self._entered(place, seat, done))

    def _enter(self, seat: Seat, pid: int) -> None:
        seat.enter(pid)

    def _entered(self, place: _Place, seat: Seat, done: "asyncio.Future[None]") -> None:
        self._entering.discard(done)
        if done.cancelled() or done.exception() is not None or place.process.exited.done():
            seat.leave()
        else:
            place.seat = seat

    def _leave(self, place: _Place) -> None:
        self._places.pop(place.process, None)
        if place.seat is not None:
            place.seat.leave()

    def _told(self, process: SandboxProcess, hit: LimitHit) -> None:
        if (place := self._places.get(process)) is not None:
            place.ended = hit

    def _look(self) -> None:
        for place in list(self._places.values()):
            self._look_at(place)
        if self._group is None or (kills := self._group.kills()) == self._main_kills:
            return
        if not any(map(is_dying, (*self._outside, *(process.pid for process in self._places)))):
            self._main_kills = kills

    def _look_at(self, place: _Place) -> None:
        """Whom the kernel of the host has killed here before now was not this process, as long as that lives."""
        if place.seat is None or (kills := place.seat.kills()) == place.kills:
            return
        if not is_dying(place.process.pid):  # asked afterwards: else it could have been killed in between
            place.kills = kills

    def lose(self) -> LimitHit | None:
        """The supervisor or what put the walls up has ended, unasked: the limit that it was ended by, if it was one."""
        group = self._group
        if group is not None and "memory" in group.held and group.kills() > self._main_kills:
            self._walls = LimitHit("memory", self.limits.memory, group.peak(), walls=True)
        return self._walls

    def _judge(self, place: _Place, how: ProcessExit) -> LimitHit | None:
        """Which limit ended it, if one did: nothing else ends by SIGKILL, or in a way that can't be learnt, there."""
        if how.exit_status is not None or how.signal not in (None, signal.SIGKILL):
            return None
        if place.ended is not None:
            return place.ended
        if self._walls is not None:
            return self._walls
        if self._group is None:
            return None
        killed = place.seat is not None and place.seat.kills() > place.kills
        if place.seat is None and self._group.kills() > self._main_kills:
            self._main_kills, killed = self._group.kills(), True
        return LimitHit("memory", self.limits.memory, self._group.peak()) if killed else None

    # The end.

    async def close(self) -> None:
        """All processes have ended. What is on the disk of /content is left to `remove_limit_leftovers`."""
        if self._preparing is not None:
            await asyncio.wait([self._preparing])
            if not self._preparing.cancelled():
                self._preparing.exception()  # told already, where anybody waited for it
        if self._watchdog is not None:
            await self._watchdog.close()
        if self._entering:
            await asyncio.wait(self._entering)
        for _ in range(REMOVE_ROUNDS):
            if self._group is None or self._group.close():
                break
            await asyncio.sleep(REMOVE_SECONDS)  # the last to end is not quite out yet
