"""Following an execution: every event once and in order, however often the connection breaks."""

from collections import OrderedDict
from collections.abc import Callable
from enum import Enum, auto
from typing import Final, TypeAlias

from cellhouse.client.core import Attempts, Call, Core
from cellhouse.client.errors import ClientReason, IncompleteStreamError, TransportError
from cellhouse.client.lines import Lines, LineTooLong, Unknown, parse_frame
from cellhouse.client.steps import Flow, Reply, give, pause, read, shut
from cellhouse.model import (
    CallReason,
    CellhouseError,
    DeadlineExceeded,
    Event,
    ExecutionName,
    FinishedEvent,
    InvalidArgument,
    TailFrame,
)

NDJSON: Final = "application/x-ndjson"

Emit: TypeAlias = Callable[[Event | TailFrame], Flow[None]]


class Expired(Exception):
    """The moment has come until which something was to be waited for."""


class _End(Enum):
    """How one connection ended: with all there is, too early, or because another one serves better."""

    WHOLE = auto()
    CUT = auto()
    AGAIN = auto()


class Position:
    """How far somebody has read: the number of the last event, and `finished` once that has come."""

    def __init__(self, after: int = 0) -> None:
        self.seq = after
        self.finished: FinishedEvent | None = None


class Unread:
    """Streams that answered an execute and wait for their first reader, at most so many; the oldest is let go first.

    What is let go is lost to nobody: its reader asks for the events by their numbers.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._held: OrderedDict[object, Reply] = OrderedDict()

    def put(self, key: object, reply: Reply) -> Flow[None]:
        with self._core.lock:
            self._held[key] = reply
            over = len(self._held) > self._core.limits.unread_streams
            evicted = self._held.popitem(last=False)[1] if over else None
        if evicted is not None:
            yield from shut(evicted)

    def take(self, key: object) -> Reply | None:
        with self._core.lock:
            return self._held.pop(key, None)


def hand_over(event: Event | TailFrame) -> Flow[None]:
    """Everything goes to whoever iterates."""
    return give(event)


def without_tails(event: Event | TailFrame) -> Flow[None]:
    if not isinstance(event, TailFrame):
        yield from give(event)


def keep_to_oneself(event: Event | TailFrame) -> Flow[None]:
    yield from ()


class Follower:
    """Follows one execution from a position, over as many connections as it takes."""

    def __init__(
        self,
        core: Core,
        name: ExecutionName,
        position: Position,
        emit: Emit,
        *,
        late: bool = False,
        until: float | None = None,
    ) -> None:
        """`until`: a moment of the clock at which Expired is raised."""
        self._core, self._name, self._position, self._emit = core, name, position, emit
        self._late, self._until = late, until
        self._begun = False

    def follow(self, first: Reply | None = None) -> Flow[None]:
        """Until `finished`; with `late` until the runtime ends. `first` is a stream that is open already."""
        attempts, reply = self._core.attempts(), first
        while True:
            try:
                if reply is None:
                    reply = yield from self._core.open(self._call(), attempts)
                self._begun = True
                end = yield from self._read(reply, attempts)
                if end is _End.WHOLE:
                    return
                if end is _End.AGAIN:
                    reply = None
                    continue
                error = TransportError(
                    f"the events of {self._name} ended after number {self._position.seq}, without `finished`",
                    reason=ClientReason.CONNECTION_LOST,
                    may_have_arrived=True,
                )
                seconds = attempts.wait_after(error)
            except TransportError as error:
                self._check_time()
                if reply is None or "notRepeated" in error.metadata:
                    raise (self._incomplete(error) if self._begun else error) from error
                try:
                    seconds = attempts.wait_after(error)
                except TransportError as last:
                    raise self._incomplete(last) from error
            reply = None
            yield from pause(seconds)

    def _read(self, reply: Reply, attempts: Attempts) -> Flow[_End]:
        """Until this connection ends, which it shuts."""
        core, position = self._core, self._position
        try:
            if reply.status == 204:  # it has finished, and there is nothing more
                return _End.WHOLE
            core.check_plain(reply)
            if reply.headers.get("content-type", "").partition(";")[0].strip() != NDJSON:
                raise core.malformed(reply.request, "it is no stream of events")
            lines = Lines(core.limits.event_bytes)
            while piece := (yield from read(reply, self._left())):
                for line in self._cut(lines, piece, reply):
                    if not line:
                        continue
                    try:
                        frame = parse_frame(line)
                    except ValueError as error:
                        raise core.malformed(reply.request, f"{str(error)[:300]}") from error
                    if isinstance(frame, DeadlineExceeded) and frame.reason == CallReason.WAIT_TIMEOUT:
                        # Of the call that began it; who reads on decides anew how long to wait.
                        return _End.AGAIN
                    if isinstance(frame, CellhouseError):
                        raise frame
                    if isinstance(frame, str):  # a sign of life
                        continue
                    if isinstance(frame, TailFrame):
                        yield from self._emit(frame)
                        continue
                    if frame.seq != position.seq + 1:
                        raise core.malformed(
                            reply.request, f"event {frame.seq} follows on number {position.seq}"
                        )
                    position.seq = frame.seq
                    attempts.progress()
                    if isinstance(frame, Unknown):
                        continue
                    if isinstance(frame, FinishedEvent):
                        position.finished = frame
                    yield from self._emit(frame)
                    if position.finished is not None and not self._late:
                        return _End.WHOLE
                if self._is_too_patient(reply):
                    return _End.AGAIN
            return _End.CUT if position.finished is None else _End.WHOLE
        finally:
            yield from shut(reply)

    def _is_too_patient(self, reply: Reply) -> bool:
        """Whether silence would be noticed only long after the moment until which is waited."""
        left = self._left()
        return left is not None and reply.request.method == "GET" and left < reply.request.read_seconds / 2

    def _cut(self, lines: Lines, piece: bytes, reply: Reply) -> list[bytes]:
        try:
            return lines.feed(piece)
        except LineTooLong:
            limit = self._core.limits.event_bytes
            raise self._core.too_large(reply.request, limit + 1, limit, "event_bytes") from None

    def _call(self) -> Call:
        params = {"follow": "late"} if self._late else {}
        seconds = self._core.timeouts.idle
        if (left := self._left()) is not None:
            seconds = min(seconds, left)
        return Call(
            "GET",
            f"/v1/{path_of(self._name)}/events",
            params=params,
            headers={"accept": NDJSON, "last-event-id": str(self._position.seq)},
            read_seconds=seconds,
        )

    def _left(self) -> float | None:
        self._check_time()
        return None if self._until is None else self._until - self._core.clock.monotonic()

    def _check_time(self) -> None:
        if self._until is not None and self._core.clock.monotonic() >= self._until:
            raise Expired

    def _incomplete(self, cause: TransportError) -> TransportError:
        if self._position.finished is not None:  # only what comes late is missing
            return cause
        last = self._position.seq
        return IncompleteStreamError(
            f"the events of {self._name} broke off after number {last}, without `finished`: {cause.message}. "
            f"It may run on; events(name, after={last}) reads on",
            execution=str(self._name),
            last_seq=last,
            cause=cause,
        )


def path_of(name: object) -> str:
    """A resource name as a path. An id of nothing but dots is escaped: it would be taken for a step up or none."""
    return "/".join("%2E" * len(part) if part in (".", "..") else part for part in str(name).split("/"))


def checked_after(after: int) -> int:
    if after < 0:
        raise InvalidArgument.of_field("after", f"{after} is no event number; it takes 0 or more")
    return after
