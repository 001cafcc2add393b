"""The interface of the walls: what a backend offers, who calls it and when, and what it says about an end."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from cellhouse.model import CallReason, FailedPrecondition, Isolation, LimitHit, LimitReport, WallLimits
from cellhouse.sandbox.privileged.giving import make_private as make_private
from cellhouse.sandbox.privileged.uids import UidRange
from cellhouse.sandbox.process import SandboxProcess

INSIDE_DIR: Final = Path(__file__).resolve().parent.parent / "inside"  # what runs in the sandbox

LAYERS: Final = (
    "mount",
    "pid",
    "network",
    "user",
    "ipc",
    "uid",
    "seccomp",
    "landlock",
    "limits",
)
IN_FORCE: Final = "in force"
ABSENT: Final = "absent"


class SandboxGone(Exception):
    """The sandbox was closed or lost, so nothing can be started in it; the message says which and why."""


class SpawnFailed(Exception):
    """The program could not be started (no such file, not executable, no process left, …); nothing runs."""


@dataclass(frozen=True, slots=True)
class SandboxLoss:
    """Why a sandbox ended unasked: a sentence, and how its outermost process ended where that is known.

    `limit_hit` is the limit of the runtime that ended the walls themselves, if it was one.
    """

    text: str
    exit_status: int | None = None
    signal: int | None = None
    limit_hit: LimitHit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TmpfsSizes:
    """Bytes of the private in-memory directories. They count as memory of the sandbox once they are filled."""

    tmp: int = 1024 * 1024 * 1024
    home: int = 256 * 1024 * 1024
    shm: int = 512 * 1024 * 1024
    run: int = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """What the walls of one runtime are to be.

    `state` is the runtime's own directory on the host (made with mode 0700 where it is missing): `content` in it is
    what the sandbox sees as /content and outlives it, `run` is private and goes with it.
    `python` runs the supervisor, and its directory comes first in the PATH inside. `read_only` are host directories
    that are seen inside under their own names: an environment's prefix and its base prefix.
    `required_layers` are names of LAYERS that must be in force; where one can't be had here, `start` fails and says
    so, instead of falling back to less. `limits` are what all that runs inside may use together; None is no limit at all.
    `uids` is where a service that is root takes the uid of this sandbox from; what is named must be had, and None is
    the usual range, without which the layer "uid" is absent. With `host_network` the sandbox is on the network of the
    host, and the layer "network" is absent.
    """

    state: Path
    python: Path
    read_only: tuple[Path, ...] = ()
    required_layers: tuple[str, ...] = ()
    tmpfs: TmpfsSizes = field(default_factory=TmpfsSizes)
    limits: WallLimits | None = None
    uids: UidRange | None = None
    host_network: bool = False
    supervisor: Path = INSIDE_DIR / "init.py"


class Sandbox(Protocol):
    """The walls of one runtime, and what lives inside. Modelled on `subprocess.Popen`, one level up.

    A backend is found by its level among the entry points of the group `cellhouse.sandboxes` and is called with one
    `SandboxSpec`; being made touches nothing. All methods belong to one event loop, and that loop's thread must
    outlive the sandbox: the kernel of the host ends a sandbox with the thread that started it.
    """

    @property
    def level(self) -> str:
        """The name by which this backend is asked for; `RuntimeSpec.isolation`."""
        ...

    @property
    def report(self) -> Isolation:
        """Layer by layer what is in force. Read by the runtime after `start`, and shown to whoever asks."""
        ...

    @property
    def limits(self) -> tuple[LimitReport, ...]:
        """Each limit, and how it is held, from `start` on; none where the spec has no limits."""
        ...

    @property
    def content(self) -> Path:
        """Host path of /content. The runtime opens it (as a hostile directory) once `start` has made it."""
        ...

    @property
    def runtime_dir(self) -> Path:
        """Host path of /run/cellhouse, where kernels meet the service. What is in it is the sandbox's: hostile."""
        ...

    @property
    def lost(self) -> asyncio.Future[SandboxLoss]:
        """Resolved when the sandbox ends unasked; the runtime then ends its sessions. Cancelled by `close`.

        It exists from `start` on, and is never an exception.
        """
        ...

    def inside_path(self, host: Path) -> str:
        """What a path of the host is called inside; asked when a kernel's command line is made.

        ValueError where it can't be seen from inside.
        """
        ...

    async def start(self) -> None:
        """Put the walls up and wait for the supervisor inside; called once, before anything else.

        FailedPrecondition says what could not be had and what would help, with what the supervisor had to say; OSError
        where the state directory can't be made. Nothing is left behind then.
        """
        ...

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        output: tuple[int, int] | None = None,
        descriptors: Sequence[int] = (),
    ) -> SandboxProcess:
        """Start one process inside; called for each kernel. `argv`, `env` and `cwd` are as seen from inside.

        It gets /dev/null as standard input, a session of its own, and nothing of the host's environment: `env` over
        PATH, HOME, LANG, TMPDIR and CELLHOUSE_PROCESS, the mark by which everything it starts is found and killed when
        it ends. `output` are the descriptors that become its standard output and error, instead of pipes made here;
        `descriptors`, at most 6, become 3, 4, … in it. All of them stay the caller's to close. InvalidArgument where
        argv and env together are too large, SpawnFailed where it can't be started, SandboxGone where there is no
        sandbox any more. Cancelled, it leaves no process.
        """
        ...

    def new_mark(self) -> str:
        """A mark (the value of CELLHOUSE_PROCESS) for a process that is about to be forked inside and adopted.

        All of one sandbox are of one length.
        """
        ...

    async def adopt(self, pid_inside: int, *, mark: str) -> SandboxProcess:
        """Take on an orphan: a process inside that what was spawned has forked, and whose parent there has ended.

        It must lead a session, and carry the mark itself, in its environment as /proc shows it. From here on it is
        as if it had been spawned, but that its descriptors 1 and 2 are what they are (`stdout_fd` and `stderr_fd` are
        -1). SpawnFailed where there is no such process, or not any more; SandboxGone as for `spawn`. Cancelled, the
        process is killed as soon as it has been taken on.
        """
        ...

    async def close(self) -> None:
        """End everything inside and wait until it has ended; called by the runtime when it goes. Repeatable.

        Nothing is left on the host but `content`.
        """
        ...


SandboxFactory = Callable[[SandboxSpec], Sandbox]


def unavailable(message: str, *, level: str, **metadata: str) -> FailedPrecondition:
    """The error of walls that can't be had: the message names the thing, the rule and the remedy."""
    return FailedPrecondition(
        message, reason=CallReason.ISOLATION_UNAVAILABLE, metadata={"isolation": level, **metadata}
    )


def require_layers(spec: SandboxSpec, report: Isolation) -> None:
    """FailedPrecondition where a layer that was asked for is not in force."""
    standing = {layer.name: layer for layer in report.layers}
    for name in spec.required_layers:
        layer = standing.get(name)
        if layer is None:
            raise unavailable(
                f"isolation layer {name!r} is not known; the layers are {', '.join(LAYERS)}",
                level=report.level,
                layer=name,
            )
        if layer.status != IN_FORCE:
            raise unavailable(
                f"isolation layer {name!r} can't be had with isolation {report.level!r}: {layer.detail}; "
                "ask for another isolation, or do not require this layer",
                level=report.level,
                layer=name,
            )


def owner_of(directory: Path) -> tuple[int, int] | None:
    """Whose the sandbox's own directory is, and what is made in it is to be, as uid and gid; None where that is us."""
    found = directory.stat()
    return None if found.st_uid == os.geteuid() else (found.st_uid, found.st_gid)
