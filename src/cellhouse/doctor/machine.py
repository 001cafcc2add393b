"""What this machine has that walls are made of; each is tried, not looked up."""

import os
import platform
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from cellhouse.doctor.report import CgroupReport, FindingReport, MachineReport
from cellhouse.doctor.running import Answer, Told
from cellhouse.model import FailedPrecondition
from cellhouse.sandbox import landlock_abi
from cellhouse.sandbox.bwrap import INSTALL, find_bwrap, remedy_for
from cellhouse.sandbox.limits.base import GroupUnavailable, Mount, below, mounts, own_path

CONTROLLERS: Final[tuple[str, ...]] = ("memory", "pids", "cpu")
"""Those that limits are held by."""
PREFIX: Final = "cellhouse-doctor-"


def look_at_machine(user_namespaces: Told) -> MachineReport:
    """Blocks for some milliseconds. `user_namespaces` is what an attempt to make one has said."""
    return MachineReport(
        linux=platform.release(),
        machine=platform.machine(),
        uid=os.geteuid(),
        root=os.geteuid() == 0,
        landlock_abi=landlock_abi(),
        cgroups=look_at_cgroups(),
        user_namespaces=_user_namespaces(user_namespaces),
        bubblewrap=_bubblewrap(),
    )


def look_at_cgroups(process: Path = Path("/proc/self")) -> CgroupReport:
    """Which hierarchies there are, and in which of them this user can make a group: one is made, and removed."""
    try:
        found = mounts(process)
    except OSError as error:
        return CgroupReport(version="none", controllers=(), writable=(), detail=f"{error}")
    kinds = {mount.kind for mount in found}
    version = {0: "none", 2: "v1 and v2"}.get(len(kinds)) or ("v2" if "cgroup2" in kinds else "v1")
    controllers: list[str] = []
    writable: list[str] = []
    details: list[str] = []
    for mount, names, path in _hierarchies(process, found):
        controllers += names
        try:
            _make_group(mount, below(mount, path))
        except (GroupUnavailable, OSError) as error:
            details.append(f"{', '.join(names)}: {error}")
        else:
            writable += names
    detail = "; ".join(details) or (None if controllers else "no controller that limits are held by")
    return CgroupReport(
        version=version, controllers=tuple(controllers), writable=tuple(writable), detail=detail
    )


def _hierarchies(process: Path, found: list[Mount]) -> Iterator[tuple[Mount, list[str], str]]:
    """Each one that has a controller of interest, these, and which group of it this process is in."""
    for mount in found:
        unified = mount.kind == "cgroup2"
        names = [name for name in CONTROLLERS if name in mount.options]
        path = own_path(process, "" if unified else names[0]) if unified or names else None
        if path is None:
            continue
        if unified:
            with suppress(OSError, GroupUnavailable):  # not seen here, or without any
                listed = (below(mount, path) / "cgroup.controllers").read_text(encoding="ascii").split()
                names = [name for name in CONTROLLERS if name in listed]
        if names:
            yield mount, names, path


def _make_group(mount: Mount, own: Path) -> None:
    if mount.kind == "cgroup2" and not os.access(own / "cgroup.subtree_control", os.W_OK):
        raise GroupUnavailable(f"the group {own} is not this user's to divide")
    made = own / f"{PREFIX}{secrets.token_hex(8)}"
    made.mkdir()
    made.rmdir()


def _user_namespaces(told: Told) -> FindingReport:
    """Root makes them also where others may not, so for root this says nothing about others."""
    if isinstance(told, Answer) and told.reached:
        who = "root" if os.geteuid() == 0 else "this user"
        return FindingReport(
            found=True, detail=f"{who} can make one, and do in it what it takes to put walls up"
        )
    why = told.text if isinstance(told, Answer) else f"not shown: {told}"
    remedy = remedy_for("namespace") if isinstance(told, Answer) else None
    return FindingReport(found=False, detail=f"one with a host name of its own: {why}", remedy=remedy)


def _bubblewrap() -> FindingReport:
    try:
        return FindingReport(found=True, detail=str(find_bwrap()))
    except FailedPrecondition as error:
        return FindingReport(found=False, detail=error.message, remedy=INSTALL)
