"""What a house is told once: where it keeps things, its limits, its defaults."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cellhouse.model import CaptureLimits, RetentionLimits, SessionLimits, WallLimits
from cellhouse.sandbox import UidRange


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything configurable of a house. `environments` are the places searched for kernel environments.

    `walls` is what a runtime may use where it doesn't say; what `named` in it is held for every runtime, or there is none.

    `uids` is where a service that is root takes each runtime's uid from. What is named here must be had; the usual range
    (60706-61183) is reported as absent where a container around the service does not have it.

    `start` is how native kernels come to be where a runtime doesn't say: forked from a zygote, which has imported
    `preload` (what is missing is passed over), or fresh. `spares` sessions of each zygote are forked ahead.
    """

    state_dir: Path
    isolation: str = "bubblewrap"
    durability: Literal["normal", "full"] = "normal"
    capture: CaptureLimits = field(default_factory=CaptureLimits)
    session: SessionLimits = field(default_factory=SessionLimits)
    retention: RetentionLimits = field(default_factory=RetentionLimits)
    walls: WallLimits = field(default_factory=WallLimits)
    environments: tuple[Path, ...] | None = None
    uids: UidRange | None = None
    max_runtimes: int = 64
    max_sessions: int = 64
    # Executions that run or wait, of all runtimes.
    max_executions: int = 1_024
    start: Literal["zygote", "fresh"] = "zygote"
    preload: tuple[str, ...] = (
        "numpy",
        "pandas",
        "matplotlib.pyplot",
        "matplotlib_inline.backend_inline",
    )
    spares: int = 1
