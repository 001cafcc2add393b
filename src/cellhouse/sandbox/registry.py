"""Which isolation levels there are, and the making of a sandbox of one of them."""

from importlib.metadata import entry_points
from typing import Final

from cellhouse.sandbox.base import Sandbox, SandboxFactory, SandboxSpec, unavailable
from cellhouse.sandbox.bubblewrap import BubblewrapSandbox
from cellhouse.sandbox.none import NoneSandbox
from cellhouse.sandbox.privileged import Privileged

ENTRY_POINTS: Final = "cellhouse.sandboxes"
DEFAULT_LEVEL: Final = "bubblewrap"
SHOWN: Final = 80  # characters of a level that nobody knows

# Ours are not to be replaced by a package that happens to be installed.
_OURS: Final[dict[str, type[NoneSandbox] | type[BubblewrapSandbox]]] = {
    NoneSandbox.level: NoneSandbox,
    BubblewrapSandbox.level: BubblewrapSandbox,
}


def levels() -> tuple[str, ...]:
    """The isolation levels that can be asked for; whether one can be had here is told when it is started."""
    others = sorted({point.name for point in entry_points(group=ENTRY_POINTS)} - set(_OURS))
    return (*_OURS, *others)


def create_sandbox(level: str, spec: SandboxSpec, privileged: Privileged | None = None) -> Sandbox:
    """A sandbox of this isolation level, not started yet. FailedPrecondition where there is no such level.

    `privileged` does for it what this process can't, or is not to, such as a broker; a package's own backend has no use for it.
    """
    if level in _OURS:
        return _OURS[level](spec, privileged)
    for point in entry_points(group=ENTRY_POINTS, name=level):
        factory: SandboxFactory = point.load()
        return factory(spec)
    raise unavailable(
        f"isolation {level[:SHOWN]!r} is not known here; known are {', '.join(levels())}. A package adds one by an entry "
        f"point in the group {ENTRY_POINTS!r}",
        level=level[:SHOWN],
    )
