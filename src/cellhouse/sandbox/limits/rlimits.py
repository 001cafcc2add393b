"""Limits that each process carries along, and that the supervisor inside takes on before it starts anything."""

import os
import platform
from typing import Final

from cellhouse.model import LimitName, WallLimits

NAMESPACED: Final = (5, 14)
"""Since this Linux, processes of a user namespace are counted apart from the others of the same user."""
CAP_SYS_RESOURCE: Final = 24


def counts_processes(*, own_users: bool, own_uid: bool = False) -> bool:
    """Whether RLIMIT_NPROC counts the sandbox's processes only, and holds: never for the host's root."""
    return own_users and (own_uid or (os.geteuid() != 0 and _release() >= NAMESPACED))


def holds_files(*, own_users: bool) -> bool:
    """Whether the code can't lift a limit again: it could with a capability, where it has this service's."""
    if own_users:
        return True
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith("CapEff:"):
                return not int(line.split()[1], 16) >> CAP_SYS_RESOURCE & 1
    return False


def argument(limits: WallLimits, *, processes: bool) -> str:
    """How the supervisor is told, such as "nofile=1024,fsize=4294967296".

    No limit of address space: numpy and every thread reserve far more than they use, so it would hit those who use little.
    """
    given = {"nofile": limits.open_files, "fsize": limits.one_file}
    if processes:
        given["nproc"] = limits.processes
    return ",".join(f"{name}={value}" for name, value in given.items())


def held(*, own_users: bool, own_uid: bool = False) -> frozenset[LimitName]:
    names: set[LimitName] = set()
    if holds_files(own_users=own_users):
        names |= {"openFiles", "fileSize"}
    if counts_processes(own_users=own_users, own_uid=own_uid):
        names.add("processes")
    return frozenset(names)


def _release() -> tuple[int, ...]:
    numbers = platform.release().split("-")[0].split(".")[:2]
    return tuple(int(number) if number.isdigit() else 0 for number in numbers)
