"""What the machine has: no limit can be more than that."""

import math
import os
import resource
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from cellhouse.model import InvalidArgument, LimitName, WallLimits

_FIELDS: dict[LimitName, str] = {
    "memory": "memory",
    "cpus": "cpus",
    "processes": "processes",
    "content": "content",
    "openFiles": "open_files",
    "fileSize": "file_size",
}


@dataclass(frozen=True, slots=True)
class Machine:
    """The most that there is to give, in the units of `WallLimits`."""

    memory: int
    cpus: int
    processes: int
    content: int
    open_files: int

    @classmethod
    def here(cls, directory: Path) -> Self:
        """This machine, with the disk that `directory` lies on (or its nearest parent that exists)."""
        while not directory.exists():
            directory = directory.parent
        disk = os.statvfs(directory)
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return cls(
            memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            cpus=len(os.sched_getaffinity(0)),
            processes=int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii")),
            content=disk.f_blocks * disk.f_frsize,
            open_files=2**31 - 1 if hard == resource.RLIM_INFINITY else hard,
        )

    def most(self, name: LimitName) -> int:
        return self.content if name == "fileSize" else int(getattr(self, _FIELDS[name]))


def fit(limits: WallLimits, machine: Machine) -> WallLimits:
    """The limits on this machine: InvalidArgument where one that was named is more than there is; a default becomes less."""
    less: dict[str, Any] = {}
    for name, field in _FIELDS.items():
        value, most = limits.value(name), machine.most(name)
        if value <= most:
            continue
        if name in limits.named:
            given = f"{value:g}" if isinstance(value, float) and not math.isinf(value) else f"{value}"
            raise InvalidArgument.of_field(
                f"limits.{name}", f"{given} is more than this machine has; it takes at most {most}"
            )
        less[field] = most
    if limits.file_size is None:
        less.pop("file_size", None)  # it follows /content
    return replace(limits, **less) if less else limits
