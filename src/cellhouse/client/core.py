"""One call to its answer: sent, repeated where that is safe, read within a bound, its errors those of the model."""

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import pydantic_core

from cellhouse.client.errors import ClientReason, ResponseError, TransportError
from cellhouse.client.settings import ClientLimits, RetryPolicy, Timeouts
from cellhouse.client.steps import Flow, Reply, Request, pause, read, send, shut
from cellhouse.model import (
    CallReason,
    CellhouseError,
    Clock,
    InvalidArgument,
    ResourceExhausted,
    Unavailable,
    error_from_wire,
)

T = TypeVar("T")

JSON: Final = "application/json"
ERROR_BYTES: Final = 8 << 20
"""Of an error's body; the partial result of an execution may be in it."""
_GATEWAY: Final = frozenset((502, 503, 504))


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the service. `not_repeatable` says why it may not be sent twice; empty: it may."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    read_seconds: float = 60.0
    not_repeatable: str = ""
    # Parameters besides, once an earlier attempt may have arrived.
    again: Mapping[str, str] = field(default_factory=dict)

    def request(self, *, repeated: bool = False) -> Request:
        params = {**self.params, **self.again} if repeated else self.params
        query = f"?{urlencode(params, quote_via=quote)}" if params else ""
        return Request(self.method, f"{self.path}{query}", self.headers, self.body, self.read_seconds)


class Attempts:
    """Counts the failures in a row of one call or stream, and says how long to wait before the next attempt."""

    def __init__(
        self, policy: RetryPolicy, clock: Clock, rng: random.Random, contacted: Callable[[], bool]
    ) -> None:
        self._policy, self._clock, self._rng, self._contacted = policy, clock, rng, contacted
        self._failures = 0
        self._since: float | None = None

    def progress(self) -> None:
        """Something came that was not there before: all patience is there again."""
        self._failures, self._since = 0, None

    def wait_after(self, error: CellhouseError, not_repeatable: str = "") -> float:
        """Seconds until the next attempt. Raises the error, with what was tried, where there is to be none."""
        now = self._clock.monotonic()
        if self._since is None:
            self._since = now
        self._failures += 1
        policy, elapsed = self._policy, now - self._since
        total = policy.total if self._contacted() else min(policy.total, policy.first_contact)
        seconds = policy.wait(self._failures, self._rng)
        if not_repeatable:
            why = not_repeatable
        elif isinstance(error, TransportError) and error.hopeless:
            why = error.hopeless
        elif self._failures >= policy.attempts:
            why = f"{policy.attempts} attempts in a row failed, which is the limit (attempts)"
        elif elapsed + seconds > total:
            name = "total" if self._contacted() else "first_contact"
            why = f"another one would come after {total:g} s, which is the limit ({name})"
        else:
            return seconds
        error.metadata.update(attempts=str(self._failures), elapsedSeconds=f"{elapsed:.3f}", notRepeated=why)
        if isinstance(error, TransportError):
            error.message = f"{error.message}; not repeated: {why}"
            error.args = (error.message,)
        raise error


class Core:
    """What every call of one client shares."""

    def __init__(
        self,
        service: str,
        *,
        limits: ClientLimits,
        timeouts: Timeouts,
        retry: RetryPolicy,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        """`service` names it in messages."""
        self.service, self.limits, self.timeouts, self.retry = service, limits, timeouts, retry
        self.clock, self.rng = clock, rng
        self.lock = threading.Lock()  # held for moments only
        self._contacted = False

    def attempts(self) -> Attempts:
        return Attempts(self.retry, self.clock, self.rng, lambda: self._contacted)

    def ask(self, call: Call, take: Callable[[Reply], Flow[T]], attempts: Attempts | None = None) -> Flow[T]:
        """What `take` makes of the reply; the call is repeated where it did not get through and that is safe."""
        attempts = attempts or self.attempts()
        arrived = False
        while True:
            try:
                reply = yield from send(call.request(repeated=arrived))
                self._contacted = True
                if reply.status < 300:
                    return (yield from take(reply))
                raise (yield from self._refusal(reply))
            except TransportError as error:
                arrived = arrived or error.may_have_arrived
                unsafe = call.not_repeatable if error.may_have_arrived else ""
                seconds = attempts.wait_after(error, unsafe)
            except Unavailable as error:
                seconds = attempts.wait_after(error, call.not_repeatable)
            except ResourceExhausted as error:
                if error.reason != CallReason.RATE_EXCEEDED:  # refused before anybody looked at it
                    raise
                seconds = attempts.wait_after(error)
            yield from pause(seconds)

    def document(self, call: Call, make: Callable[[Any], T], *, limit: int = 0) -> Flow[T]:
        """The JSON of the answer, as what `make` makes of it. ResponseError where that is impossible."""

        def take(reply: Reply) -> Flow[T]:
            body = yield from self.whole(reply, limit or self.limits.document_bytes, "document_bytes")
            return self.made(reply.request, body, make)

        return (yield from self.ask(call, take))

    def made(self, request: Request, body: bytes, make: Callable[[Any], T]) -> T:
        """What is made of the JSON of an answer."""
        try:
            return make(pydantic_core.from_json(body, allow_inf_nan=False))
        except (ValueError, KeyError, TypeError, AttributeError, InvalidArgument) as error:
            raise self.malformed(request, f"the answer does not fit: {str(error)[:300]}") from error

    def open(self, call: Call, attempts: Attempts) -> Flow[Reply]:
        """The reply itself, its body unread; to be shut by whoever asked."""
        return (yield from self.ask(call, _as_it_is, attempts))

    def whole(self, reply: Reply, limit: int, name: str) -> Flow[bytes]:
        """The body of a reply, at most so many bytes of it; shuts it."""
        try:
            self.check_plain(reply)
            announced = reply.headers.get("content-length", "")
            pieces, size = [], int(announced) if announced.isdigit() and len(announced) < 19 else 0
            if size > limit:
                raise self.too_large(reply.request, size, limit, name)
            size = 0
            while piece := (yield from read(reply)):
                size += len(piece)
                if size > limit:
                    raise self.too_large(reply.request, size, limit, name)
                pieces.append(piece)
            return b"".join(pieces)
        finally:
            yield from shut(reply)

    def check_plain(self, reply: Reply) -> None:
        """ResponseError where the body is encoded: none was asked for, and a small one may be a huge one then."""
        coding = reply.headers.get("content-encoding", "identity").strip().lower()
        if coding != "identity":
            raise self.malformed(reply.request, f"Content-Encoding: {coding[:80]!a}, which was not asked for")

    def malformed(self, request: Request, what: str) -> ResponseError:
        return ResponseError(
            f"{request} at {self.service}: {what}; check that a Cellhouse service of this version is at that URL",
            reason=ClientReason.MALFORMED_RESPONSE,
        )

    def too_large(self, request: Request, size: int, limit: int, name: str) -> ResponseError:
        return ResponseError(
            f"{request} at {self.service}: the answer has {size} bytes or more, {limit} is the limit ({name}); "
            "ask for less, or raise it in ClientLimits",
            reason=ClientReason.RESPONSE_TOO_LARGE,
            metadata={"limit": name, "limitBytes": str(limit)},
        )

    def _refusal(self, reply: Reply) -> Flow[CellhouseError]:
        """The error that a reply stands for; reads and shuts it."""
        status, request = reply.status, reply.request
        if 300 <= status < 400:
            yield from shut(reply)
            where = reply.headers.get("location", "")[:200]
            return ResponseError(
                f"{request} at {self.service}: it answers HTTP {status} and points to {where!a}, where no token is sent; "
                "if that is the service, give its URL",
                reason=ClientReason.REDIRECTED,
            )
        body = yield from self.whole(reply, ERROR_BYTES, "error")
        try:
            return error_from_wire(pydantic_core.from_json(body, allow_inf_nan=False))
        except (ValueError, CellhouseError):
            if status in _GATEWAY:
                return TransportError(
                    f"{request} at {self.service}: HTTP {status} by something in between that could not reach the service",
                    reason=ClientReason.GATEWAY,
                    may_have_arrived=status != 503,
                    metadata={"httpStatus": str(status)},
                )
            return self.malformed(request, f"HTTP {status} without an error that Cellhouse knows")


def _as_it_is(reply: Reply) -> Flow[Reply]:
    yield from ()
    return reply
