"""What would bring about a layer that is absent."""

import os
from collections.abc import Iterable
from typing import Final

from cellhouse.model import FailedPrecondition, LimitName, LimitReport, WallLimits
from cellhouse.sandbox import DEFAULT_LEVEL, LANDLOCK_LEAST_ABI, landlock_abi, require_limits
from cellhouse.sandbox.seccomp import MACHINES

OTHER_LEVEL: Final = f"ask for isolation {DEFAULT_LEVEL!r}"


def for_layer(name: str, level: str) -> str | None:
    """What to do about a layer that this level does not have here; None where nothing is known to help."""
    if level == "none":
        return OTHER_LEVEL
    match name:
        case "uid":
            return "run the service as root" if os.geteuid() != 0 else None
        case "seccomp":
            return f"use a machine that filters are made for: {', '.join(MACHINES)}"
        case "landlock":
            if landlock_abi() < LANDLOCK_LEAST_ABI:
                return (
                    f"use Linux 6.12 or later with Landlock on (ABI {LANDLOCK_LEAST_ABI}; `landlock` in "
                    "/sys/kernel/security/lsm)"
                )
            return "use the native kernel: install ipython 8.18 or later into the environment"
        case _:
            return OTHER_LEVEL if level != DEFAULT_LEVEL else None


def for_limit(name: LimitName, reports: Iterable[LimitReport]) -> str | None:
    """What to do about a limit that is not held exactly, in the words of the call that would be refused for it."""
    wanted = WallLimits(named=frozenset((name,)), exact=frozenset((name,)))
    try:
        require_limits(wanted, reports)
    except FailedPrecondition as error:
        return error.message.partition("To have it, ")[2].partition("; or do not")[0] or error.message
    return None
