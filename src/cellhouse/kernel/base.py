"""What every kernel is to the rest of the house: a stream of items, a way to send, a life that can end."""

from asyncio import Future
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from cellhouse.messages import Message, RawText
from cellhouse.model import LimitHit


class ExitStatus(Protocol):
    """How a process ended; both None where the cause could not be learnt."""

    @property
    def exit_status(self) -> int | None: ...
    @property
    def signal(self) -> int | None: ...
    @property
    def cpu_seconds(self) -> float | None: ...
    @property
    def peak_memory_bytes(self) -> int | None: ...
    @property
    def limit_hit(self) -> LimitHit | None: ...


class KernelProcess(Protocol):
    """A started process, as the walls hand it over. The two descriptors are ours: non-blocking pipe ends."""

    @property
    def pid(self) -> int: ...
    @property
    def stdout_fd(self) -> int: ...
    @property
    def stderr_fd(self) -> int: ...
    @property
    def exited(self) -> "Future[Any]": ...
    def signal(self, sig: int, group: bool = False) -> None: ...
    def cpu_seconds(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Died:
    """The kernel's process has ended; everything it handed over before has been delivered before this."""

    exit_status: int | None
    signal: int | None
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    walls_gone: str = ""
    """Not empty where the process went with the walls round it: what is known of that."""
    limit_hit: LimitHit | None = None
    """The limit of its runtime that it was ended by, if it was one."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something a kernel must not do, or a channel that is gone. A `fatal` one means the kernel can't be used."""

    reason: str
    text: str
    fatal: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)


KernelItem = Message | RawText | Died | Trouble


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """What the kernel said of itself in kernel_info_reply; empty strings where it said nothing usable."""

    implementation: str = ""
    language: str = ""
    language_version: str = ""
    protocol_version: str = ""
    banner: str = ""


class KernelStartFailed(Exception):
    """The kernel did not come up. `log` is the end of what its process wrote, at most 8,192 characters."""

    def __init__(
        self, message: str, *, log: str = "", exit_status: int | None = None, signal: int | None = None
    ):
        super().__init__(message)
        self.log = log
        self.exit_status = exit_status
        self.signal = signal


class KernelGone(Exception):
    """Something was to be sent to a kernel that no longer takes anything."""


class Kernel(Protocol):
    """One live kernel. A single task reads it; anyone may interrupt or kill it."""

    info: KernelInfo

    async def start(self) -> None:
        """Called once by the session, before anything else. Raises KernelStartFailed; nothing is left then."""

    async def receive(self, timeout: float | None = None) -> KernelItem | None:
        """The next item, or None after `timeout` seconds. After `Died` nothing follows."""

    def wake(self) -> None:
        """Make a waiting `receive` return None now."""

    def send(self, channel: str, msg_type: str, content: Mapping[str, Any], *, msg_id: str = "") -> str:
        """Send a request on `shell`, `control` or `stdin`; returns its msg_id. Raises KernelGone."""

    def drain(self) -> None:
        """Bring in what already stands in the process's pipes, so that it comes before what is sent next."""

    def lost_messages(self, *, take: bool = False) -> int:
        """Messages the kernel numbered that never came; with `take` they count as told."""

    def interrupt(self) -> None:
        """Ask the running code to stop, the way the kernelspec says: by signal or by message."""

    @property
    def interrupting(self) -> bool:
        """Whether an interrupt that was sent as a message has not been answered: it may still hit what runs."""

    @property
    def distrusted(self) -> str:
        """Why it must have no further execution; empty where it may."""

    def kill(self) -> None:
        """End the process at once; `Died` follows within 0.2 s."""

    def cpu_seconds(self) -> float | None:
        """CPU time of the process and the children it waited for; None where it can't be told."""

    async def close(self) -> None:
        """Kill what is left and give back every descriptor, socket and file. May be called twice."""
