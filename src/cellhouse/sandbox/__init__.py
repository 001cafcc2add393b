"""The walls of a runtime: backends, each behind the same interface, with the same supervisor inside."""

from cellhouse.sandbox.base import (
    ABSENT,
    IN_FORCE,
    INSIDE_DIR,
    LAYERS,
    Sandbox,
    SandboxFactory,
    SandboxGone,
    SandboxLoss,
    SandboxSpec,
    SpawnFailed,
    TmpfsSizes,
    owner_of,
)
from cellhouse.sandbox.landlock import LEAST_ABI as LANDLOCK_LEAST_ABI, landlock_abi
from cellhouse.sandbox.leftovers import remove_leftovers
from cellhouse.sandbox.limits import discard_disk, require_limits
from cellhouse.sandbox.privileged import DEFAULT_UIDS, Privileged, UidRange
from cellhouse.sandbox.process import ProcessExit, SandboxProcess
from cellhouse.sandbox.registry import DEFAULT_LEVEL, create_sandbox, levels
from cellhouse.sandbox.usage import ProcessUsage, usage

__all__ = [
    "ABSENT",
    "DEFAULT_LEVEL",
    "DEFAULT_UIDS",
    "INSIDE_DIR",
    "IN_FORCE",
    "LANDLOCK_LEAST_ABI",
    "LAYERS",
    "Privileged",
    "ProcessExit",
    "ProcessUsage",
    "Sandbox",
    "SandboxFactory",
    "SandboxGone",
    "SandboxLoss",
    "SandboxProcess",
    "SandboxSpec",
    "SpawnFailed",
    "TmpfsSizes",
    "UidRange",
    "create_sandbox",
    "discard_disk",
    "landlock_abi",
    "levels",
    "owner_of",
    "remove_leftovers",
    "require_limits",
    "usage",
]
