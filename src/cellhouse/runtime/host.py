"""The seam between a House and one runtime: what a runtime can be asked, wherever it lives."""

from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from dataclasses import dataclass
from typing import Protocol

from cellhouse.model import (
    Event,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    ExecutionName,
    FileWritten,
    Runtime,
    RuntimeName,
    Session,
    TailFrame,
)
from cellhouse.runtime.following import Follower
from cellhouse.runtime.outcome import Ending


@dataclass(frozen=True, slots=True)
class Submitted:
    """An execution that was accepted: its name, and whether it was there before (then the call attached)."""

    name: ExecutionName
    attached: bool


@dataclass(frozen=True, slots=True)
class Kernels:
    """How many live: those of sessions, and those that were forked ahead and have none yet."""

    living: int
    ahead: int


@dataclass(frozen=True, slots=True)
class NetworkCounts:
    """What came of the network policies of runtimes that live: requests let through and not, bytes both ways."""

    allowed: int = 0
    refused: int = 0
    bytes: int = 0

    def __add__(self, other: "NetworkCounts") -> "NetworkCounts":
        return NetworkCounts(
            self.allowed + other.allowed, self.refused + other.refused, self.bytes + other.bytes
        )


class ExecutionReader(Protocol):
    """What a caller may do with an execution that exists, wherever its record is."""

    def follow(
        self, name: ExecutionName, *, after: int = 0, late: bool = False, tails: bool = False
    ) -> AsyncGenerator[Event | TailFrame, None]:
        """Its events above number `after`; see `runtime.following`."""

    def follower(
        self, name: ExecutionName, *, after: int = 0, late: bool = False, tails: bool = False, page_bytes: int
    ) -> Follower:
        """The same by pages of about so many bytes."""

    async def snapshot(self, name: ExecutionName) -> ExecuteCodeResult:
        """What there is now."""

    async def wait(self, name: ExecutionName) -> ExecuteCodeResult:
        """The result, once there is one."""

    async def cancel(self, name: ExecutionName) -> None:
        """Interrupt it, or end it where it waits; nothing where it has ended."""

    async def provide_input(self, name: ExecutionName, value: str) -> None:
        """Answer its open input request. FAILED_PRECONDITION where there is none."""


class RuntimeHost(ExecutionReader, Protocol):
    """One runtime: a sandbox, its /content, its sessions and their executions.

    All arguments and results are model documents or plain values, so that an implementation may keep the
    runtime in another process or on another machine. Errors are those of CONTRACT §6.
    """

    @property
    def name(self) -> RuntimeName: ...

    async def start(self) -> None:
        """Put the walls up. FailedPrecondition where what was asked for can't be had; nothing is left then."""

    def describe(self) -> Runtime: ...

    async def execute(self, request: ExecuteCodeRequest) -> Submitted:
        """Accept a checked request; returns once its record exists and it is in its session's queue."""

    async def create_session(self, session: str | None) -> Session: ...

    def get_session(self, session: str) -> Session: ...

    def list_sessions(self) -> list[Session]: ...

    def kernels(self) -> Kernels: ...

    async def interrupt(self, session: str) -> bool: ...

    async def restart(self, session: str) -> None: ...

    async def delete_session(self, session: str) -> None: ...

    async def keep_alive(self) -> None: ...

    async def put_file(self, path: str, chunks: Iterable[bytes]) -> int:
        """Write a file of /content as a whole, replacing one of that name; returns its size."""

    async def receive_file(
        self, path: str, chunks: AsyncIterable[bytes], *, limit: int, sha256: str
    ) -> FileWritten:
        """The same as the pieces come, at most `limit` bytes, and of this digest where one is given."""

    async def stage_input(self, name: str, chunks: AsyncIterable[bytes], *, limit: int, sha256: str) -> str:
        """Put an input where every later execution finds it by its name; its absolute path inside."""

    async def delete_file(self, path: str) -> None:
        """Remove a file of /content; a directory is refused."""

    async def close(self, ending: Ending, text: str) -> None:
        """End everything inside. What was recorded stays; /content is the caller's to remove."""
