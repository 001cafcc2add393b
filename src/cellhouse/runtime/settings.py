"""What a house is told once: where it keeps things, its limits, its defaults."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, get_args

from cellhouse.model import (
    ArtifactLimits,
    CaptureLimits,
    InvalidArgument,
    NetworkSettings,
    RetentionLimits,
    SessionLimits,
    WallLimits,
)
from cellhouse.sandbox import UidRange

Durability = Literal["normal", "full"]
Start = Literal["zygote", "fresh"]


def _whole(least: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and value >= least


def _names(value: Any) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(each, str) and each for each in value)


# Of the fields that are not checked by what they are made of: whether a value fits, and the rule.
_RULES: Final[tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...]] = (
    (("max_runtimes", "max_sessions", "max_executions"), _whole(1), "a whole number of at least 1"),
    (("spares",), _whole(0), "a whole number of at least 0"),
    (("tenant",), lambda value: isinstance(value, str) and bool(value), "the id of a tenant"),
    (("durability",), lambda value: value in get_args(Durability), "'normal' or 'full'"),
    (("start",), lambda value: value in get_args(Start), "'zygote' or 'fresh'"),
    (
        ("isolation",),
        lambda value: isinstance(value, str) and bool(value),
        "the name of a level, such as 'bubblewrap'",
    ),
    (("preload",), _names, "names of modules, one by one"),
    (("uids",), lambda value: value is None or isinstance(value, UidRange), "a UidRange or nothing"),
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything configurable of a house; InvalidArgument names what can't be. `environments` are the places searched for kernel environments.

    `walls` is what a runtime may use where it doesn't say; what `named` in it is held for every runtime, or there is none.

    `network` is what a runtime may ask for of the network; unasked it has none.

    `uids` is where a service that is root takes each runtime's uid from. What is named here must be had; the usual range
    (60706-61183) is reported as absent where a container around the service does not have it.

    `start` is how native kernels come to be where a runtime doesn't say: forked from a zygote, which has imported
    `preload` (what is missing is passed over), or fresh. `spares` sessions of each zygote are forked ahead.
    """

    state_dir: Path
    isolation: str = "bubblewrap"
    durability: Durability = "normal"
    capture: CaptureLimits = field(default_factory=CaptureLimits)
    session: SessionLimits = field(default_factory=SessionLimits)
    retention: RetentionLimits = field(default_factory=RetentionLimits)
    artifacts: ArtifactLimits = field(default_factory=ArtifactLimits)
    walls: WallLimits = field(default_factory=WallLimits)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    environments: tuple[Path, ...] | None = None
    uids: UidRange | None = None
    max_runtimes: int = 64
    max_sessions: int = 64
    # Executions that run or wait, of all runtimes.
    max_executions: int = 1_024
    start: Start = "zygote"
    preload: tuple[str, ...] = (
        "numpy",
        "pandas",
        "matplotlib.pyplot",
        "matplotlib_inline.backend_inline",
    )
    spares: int = 1
    # Whose artifacts are seen, and where they are kept; in the state directory.
    tenant: str = "local"
    artifacts_dir: Path | None = None
    # The file by whose lock zygotes that nobody waits for get warm one after the other; one in the state directory.
    turns_file: Path | None = None

    def __post_init__(self) -> None:
        for names, fits, rule in _RULES:
            for name in names:
                value: Any = getattr(self, name)
                if not fits(value):
                    raise InvalidArgument.of_field(name, f"{value!r} can't be; it takes {rule}")
