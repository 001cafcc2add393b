"""Limits by cgroups of version 1: a hierarchy for each controller, of which those are used that can be written."""

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
OOM_COUNT: Final = "memory.oom_control"
"""The file of a group that counts its dead."""


class GroupV1:
    """One group in each hierarchy."""

    name = "cgroup v1"

    def __init__(self, name: str, limits: WallLimits, *, process: Path = Path("/proc/self")) -> None:
        self._made: dict[str, Path] = {}
        why = []
        found = mounts(process)
        for controller in CONTROLLERS:
            try:
                path = own_path(process, controller)
                mount = next((m for m in found if m.kind == "cgroup" and controller in m.options), None)
                if mount is None or path is None:
                    raise GroupUnavailable(f"there is no hierarchy for {controller}")
                self._make(controller, below(mount, path) / name, limits)
            except (GroupUnavailable, OSError) as error:
                why.append(f"{controller}: {error}")
        if not self._made:
            raise GroupUnavailable("; ".join(why))

    def _make(self, controller: str, directory: Path, limits: WallLimits) -> None:
        directory.mkdir()
        try:
            match controller:
                case "memory":
                    # Without it the seats' memory would count for nothing here.
                    if read_number(directory / "memory.use_hierarchy") == 0:
                        write(directory / "memory.use_hierarchy", "1")
                    write(directory / "memory.limit_in_bytes", str(limits.memory))
                    if (swap := directory / "memory.memsw.limit_in_bytes").exists():
                        write(swap, str(limits.memory))
                case "pids":
                    write(directory / "pids.max", str(limits.processes))
                case _:
                    write(directory / "cpu.cfs_period_us", str(PERIOD))
                    write(directory / "cpu.cfs_quota_us", str(max(1000, int(limits.cpus * PERIOD))))
        except BaseException:
            remove_group(directory)
            raise
        self._made[controller] = directory

    @property
    def held(self) -> frozenset[LimitName]:
        return frozenset(CONTROLLERS[controller] for controller in self._made)

    @property
    def entrances(self) -> tuple[Path, ...]:
        return tuple(directory / "cgroup.procs" for directory in self._made.values())

    @property
    def directories(self) -> tuple[Path, ...]:
        return tuple(self._made.values())

    def seat(self, name: str) -> GroupSeat:
        directory = self._made["memory"] / name
        directory.mkdir()
        return GroupSeat(directory, OOM_COUNT)

    def kills(self) -> int:
        memory = self._made.get("memory")
        return 0 if memory is None else read_number(memory / OOM_COUNT, KILLS) or 0

    def peak(self) -> int | None:
        memory = self._made.get("memory")
        return None if memory is None else read_number(memory / "memory.max_usage_in_bytes")

    def close(self) -> bool:
        return sum(not remove_group(directory) for directory in self._made.values()) == 0
