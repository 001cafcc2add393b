"""What the client's logic asks of whoever does its input and output: steps, and flows that are made of them.

A flow is a generator: it yields steps, is sent what each of them gave, or has thrown into it what went wrong. It knows
nothing of sockets, threads or event loops; a shell carries it out (`async_shell.py`, `sync_shell.py`).
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from cellhouse.client.outgoing import Outgoing

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. `target` is the path with its query, percent-encoded, below the service's address."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Outgoing | None = None
    # Seconds until an answer begins, and from each piece of it to the next.
    read_seconds: float = 60.0

    def __str__(self) -> str:
        return f"{self.method} {self.target.partition('?')[0][:200]}"


@dataclass(eq=False, slots=True)
class Reply:
    """The head of a response whose body is still to be read. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    request: Request
    # The shell's own.
    response: Any
    pieces: Any


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request; gives the Reply. TransportError."""

    request: Request


@dataclass(frozen=True, slots=True)
class Read:
    """The next piece of a body, empty at its end. TransportError, also where nothing came for so many seconds."""

    reply: Reply
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Shut:
    """Let go of a reply, read to its end or not."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class Pause:
    """Let so many seconds pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Work:
    """Do what may block, such as writing a file; gives what it gives."""

    work: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Give:
    """Hand a value to whoever iterates."""

    value: Any


class Left(BaseException):
    """Thrown into a flow whose values nobody takes any more, so that it lets go of what it holds.

    Not GeneratorExit: thrown at a `yield from`, that one ends the inner flow before it can ask for anything.
    """


Step: TypeAlias = Send | Read | Shut | Pause | Work | Give
Flow: TypeAlias = Generator[Step, Any, T]


def send(request: Request) -> Flow[Reply]:
    reply: Reply = yield Send(request)
    return reply


def read(reply: Reply, seconds: float | None = None) -> Flow[bytes]:
    piece: bytes = yield Read(reply, seconds)
    return piece


def shut(reply: Reply) -> Flow[None]:
    yield Shut(reply)


def pause(seconds: float) -> Flow[None]:
    yield Pause(seconds)


def work(what: Callable[[], T]) -> Flow[T]:
    done: T = yield Work(what)
    return done


def give(value: Any) -> Flow[None]:
    yield Give(value)
