"""Limits by cgroups of version 2, below the group that this service has been delegated."""

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from cellhouse.model import LimitName, WallLimits
from cellhouse.sandbox.limits.base import (
    KILLS,
    GroupSeat,
    GroupUnavailable,
    below,
    mounts,
    own_path,
    read_number,
    remove_group,
    write,
)

PERIOD: Final = 100_000  # microseconds, the usual
CONTROLLERS: Final[dict[str, LimitName]] = {"memory": "memory", "pids": "processes", "cpu": "cpus"}
OOM_COUNT: Final = "memory.events"
"""The file of a group that counts its dead."""
SERVICE: Final = "cellhouse.service-processes"
"""Where this service goes itself: a group whose own groups have controllers can hold no process."""
MAIN: Final = "main"
"""The seat of what has no other."""

_delegating = threading.Lock()


def delegated(process: Path = Path("/proc/self")) -> Path:
    """The group below which groups with controllers can be made; this service moves out of the way for it.

    GroupUnavailable where there is no such group, or others' processes are in it.
    """
    mount = next((m for m in mounts(process) if m.kind == "cgroup2"), None)
    path = own_path(process, "")
    if mount is None or path is None:
        raise GroupUnavailable("there is no cgroup v2")
    own = below(mount, path)
    if own.name == SERVICE:
        own = own.parent
    controllers = set((own / "cgroup.controllers").read_text(encoding="ascii").split())
    wanted = [controller for controller in CONTROLLERS if controller in controllers]
    if not wanted:
        raise GroupUnavailable(f"the group {own} has none of the controllers {', '.join(CONTROLLERS)}")
    if not os.access(own, os.W_OK) or not os.access(own / "cgroup.subtree_control", os.W_OK):
        raise GroupUnavailable(f"the group {own} is not this user's to divide")
    with _delegating:
        enabled = set((own / "cgroup.subtree_control").read_text(encoding="ascii").split())
        if missing := [controller for controller in wanted if controller not in enabled]:
            _make_way(own)
            write(own / "cgroup.subtree_control", " ".join(f"+{controller}" for controller in missing))
    return own


def _make_way(own: Path) -> None:
    here = (own / "cgroup.procs").read_text(encoding="ascii").split()
    if others := [pid for pid in here if int(pid) != os.getpid()]:
        raise GroupUnavailable(
            f"the group {own} holds other processes than this service ({', '.join(others[:5])}); "
            "start it in a group of its own"
        )
    if here:
        (own / SERVICE).mkdir(exist_ok=True)
        write(own / SERVICE / "cgroup.procs", str(os.getpid()))


class GroupV2:
    """One group for all controllers, with a seat in it for what has no other."""

    name = "cgroup v2"

    def __init__(self, name: str, limits: WallLimits, *, process: Path = Path("/proc/self")) -> None:
        try:
            self._directory = delegated(process) / name
            self._directory.mkdir()
        except OSError as error:
            raise GroupUnavailable(str(error)) from error
        self._held: set[LimitName] = set()
        try:
            controllers = (self._directory / "cgroup.controllers").read_text(encoding="ascii").split()
            for controller in CONTROLLERS:
                if controller in controllers:
                    self._hold(controller, limits)
            if "memory" in self._held:
                write(self._directory / "cgroup.subtree_control", "+memory")
            self._main = self._directory / MAIN
            self._main.mkdir()
        except OSError as error:
            remove_group(self._directory)
            raise GroupUnavailable(str(error)) from error

    def _hold(self, controller: str, limits: WallLimits) -> None:
        match controller:
            case "memory":
                write(self._directory / "memory.max", str(limits.memory))
                with suppress(FileNotFoundError):  # no swap here
                    write(self._directory / "memory.swap.max", "0")
            case "pids":
                write(self._directory / "pids.max", str(limits.processes))
            case _:
                write(self._directory / "cpu.max", f"{max(1000, int(limits.cpus * PERIOD))} {PERIOD}")
        self._held.add(CONTROLLERS[controller])

    @property
    def held(self) -> frozenset[LimitName]:
        return frozenset(self._held)

    @property
    def entrances(self) -> tuple[Path, ...]:
        return (self._main / "cgroup.procs",)

    @property
    def directories(self) -> tuple[Path, ...]:
        return (self._directory,)

    def seat(self, name: str) -> GroupSeat:
        directory = self._directory / name
        directory.mkdir()
        return GroupSeat(directory, OOM_COUNT)

    def kills(self) -> int:
        return read_number(self._main / OOM_COUNT, KILLS) or 0

    def peak(self) -> int | None:
        return read_number(self._directory / "memory.peak")

    def close(self) -> bool:
        with suppress(OSError):  # Linux 5.14; what was in it has ended in another way by now
            write(self._directory / "cgroup.kill", "1")
        return remove_group(self._directory)
