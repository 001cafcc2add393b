"""The seam between what takes a privilege and what doesn't: a few typed calls, made for one sandbox and no other.

Behind it is all that root is needed for where the service is started by root; in front of it is all that reads what
hostile code says. What is handed over are numbers, names, descriptors and `WallLimits`: nothing that could not go through
a socket. See `Here`, which serves the calls in this process.
"""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from cellhouse.sandbox.limits.base import LimitMaker
from cellhouse.sandbox.privileged.uids import Identity

NOWHERE: Final = subprocess.DEVNULL


@dataclass(frozen=True, slots=True)
class Seen:
    """A path of the host, and where it stands for a program that is started in a view of its own."""

    host: Path
    place: Path
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """A program to be started: as `identity` and within `view` where there is one, else as this service.

    `enter` are the files by which it goes into its groups. `descriptors` are handed on, and stay
    the caller's: under their numbers, or where there is an identity under those of `places`, of which none is below 3. It has no environment, and a session of its own.
    """

    argv: Sequence[str]
    cwd: Path
    stderr: int
    stdout: int = NOWHERE
    descriptors: Sequence[int] = ()
    places: Sequence[int] = ()
    enter: Sequence[Path] = ()
    identity: Identity | None = None
    view: Sequence[Seen] = field(default=())


class Started(Protocol):
    """A program that runs. `pidfd` is the caller's to close."""

    pid: int
    pidfd: int

    def ended(self) -> int | None:
        """Its exit status, or the negative number of a signal, once it has ended; None before. Never waits."""


class Privileged(LimitMaker, Protocol):
    """The calls. All but `start` and `signal` may block for some milliseconds, a mounted disk for longer."""

    def claim(self) -> Identity | None:
        """Who the sandbox's processes are on the host, for as long as it lives; None where they are this service.

        FailedPrecondition where what was asked for can't be had. `no_identity` says why there is none.
        """

    @property
    def no_identity(self) -> str:
        """Why there is no identity of its own, as the end of a sentence, and what would help."""

    @property
    def reader(self) -> int:
        """The uid of the process that reads what the sandbox's kernels say: that of whoever asks."""

    def make(self, directory: Path) -> None:
        """The sandbox's own directory, or one in it: private, made where it is missing; once there is an identity, what is
        in it becomes that identity's. OSError."""

    def give_pipe(self, descriptor: int) -> None:
        """A pipe that a process inside is handed becomes its own: else it could not open /dev/stdout. No pipe: nothing."""

    def start(self, start: Start) -> Started:
        """Start a program, of which the caller's thread is the parent that it doesn't outlive. OSError."""

    def expose(self, pid: int) -> None:
        """Have a process inside, and what it starts from now on, ended before the walls where memory is short.

        Done where it may be. With CAP_SYS_RESOURCE the process can't undo it.
        """

    def signal(self, pidfd: int, number: int, *, group: bool = False, pid: int = 0) -> bool:
        """Signal a process of the sandbox, or the group that it leads; False where it has ended."""

    def settle(self) -> None:
        """Everything has ended: remove what was made on the host, but for /content. OSError where a disk resists."""

    def discard(self) -> None:
        """The same where nothing of /content is wanted either, and there may be no room to take it off its disk. OSError."""

    def give_back(self) -> None:
        """Nothing is left: somebody else may be who its processes were. Calling it again does nothing."""
