"""Executing code: handing it in at most once, then waiting for its result or following its events."""

from dataclasses import replace
from typing import Final

import pydantic_core

from cellhouse.client.calls import Calls
from cellhouse.client.core import JSON, Call, Core
from cellhouse.client.steps import Flow, shut
from cellhouse.client.streams import (
    NDJSON,
    Emit,
    Expired,
    Follower,
    Position,
    Unread,
    checked_after,
    hand_over,
    keep_to_oneself,
    without_tails,
)
from cellhouse.model import (
    CallReason,
    DeadlineExceeded,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    ExecutionName,
    ExecutionState,
    InvalidArgument,
    SessionLimits,
    mint_uid,
)

EXECUTION: Final = "cellhouse-execution"
ATTACHED: Final = "cellhouse-attached"
WAIT_TIMEOUT: Final = SessionLimits().wait_timeout
# How much is too much the service says; what is malformed is refused here already.
_UNBOUNDED: Final = replace(
    SessionLimits(), code_bytes=1 << 62, environment_variables=1 << 62, environment_bytes=1 << 62
)


class Started:
    """An execution as the caller that handed it in holds it."""

    def __init__(self, name: ExecutionName, *, attached: bool, wait_timeout: float) -> None:
        self.name, self.attached, self.wait_timeout = name, attached, wait_timeout
        self.result: ExecuteCodeResult | None = None
        # The number up to which events have been read while the result was waited for.
        self.seen = 0


class Executing:
    """The flows behind `execute`, `events` and the handles."""

    def __init__(self, core: Core, calls: Calls) -> None:
        self._core, self._calls = core, calls
        self._unread = Unread(core)

    def execute(self, request: ExecuteCodeRequest) -> Flow[Started]:
        """Returns once the service has it on record. Repeated under one executionId, so that it never runs twice."""
        target = request.check(_UNBOUNDED)
        given = bool(request.execution_id)
        body = request.to_wire() | {"executionId": request.execution_id or mint_uid()}
        for field in ("session", "runtime"):
            body.pop(field, None)
        call = Call(
            "POST",
            f"/v1/{target}:executeCode",
            headers={"accept": NDJSON, "content-type": JSON},
            body=pydantic_core.to_json(body),
            read_seconds=self._core.timeouts.idle,
        )
        reply = yield from self._core.open(call, self._core.attempts())
        try:
            name = ExecutionName.parse(reply.headers.get(EXECUTION, ""))
        except InvalidArgument as error:
            yield from shut(reply)
            raise self._core.malformed(reply.request, "it does not say which execution it began") from error
        # Under an id that was made here, whoever attaches is this client coming back.
        attached = given and reply.headers.get(ATTACHED) == "true"
        started = Started(name, attached=attached, wait_timeout=request.wait_timeout or WAIT_TIMEOUT)
        yield from self._unread.put(started, reply)
        return started

    def result(self, started: Started) -> Flow[ExecuteCodeResult]:
        """The result, or DeadlineExceeded with what there is after `wait_timeout` seconds."""
        if started.result is not None:
            return started.result
        until = self._core.clock.monotonic() + started.wait_timeout
        first = self._unread.take(started)
        position = Position(0 if first is not None else started.seen)
        follower = Follower(self._core, started.name, position, keep_to_oneself, until=until)
        try:
            yield from follower.follow(first)
        except Expired:
            partial = yield from self._calls.get_execution(str(started.name))
            if partial.state is not ExecutionState.FINISHED:  # not in the last moment
                raise _deadline(started, partial) from None
            result = partial
        else:
            if position.finished is not None:
                result = position.finished.result
            else:
                result = yield from self._calls.get_execution(str(started.name))
        finally:
            started.seen = max(started.seen, position.seq)
        started.result = result
        return result

    def events_of(self, started: Started, *, after: int, late: bool, tails: bool) -> Flow[None]:
        """Gives the events; the stream that answered `execute` serves whoever asks first."""
        first = self._unread.take(started) if after == 0 and not late else None
        position = Position(checked_after(after))
        return self._follower(started.name, position, late=late, tails=tails).follow(first)

    def events(self, name: str, *, after: int, late: bool, tails: bool) -> Flow[None]:
        """Gives the events above a number."""
        position = Position(checked_after(after))
        return self._follower(ExecutionName.parse(name), position, late=late, tails=tails).follow()

    def _follower(self, name: ExecutionName, position: Position, *, late: bool, tails: bool) -> Follower:
        emit: Emit = hand_over if tails else without_tails
        return Follower(self._core, name, position, emit, late=late)


def _deadline(started: Started, partial: ExecuteCodeResult) -> DeadlineExceeded:
    return DeadlineExceeded(
        f"{started.name} did not end within waitTimeout of {started.wait_timeout:g} s; it runs on. "
        "Ask for the result again to go on waiting",
        reason=CallReason.WAIT_TIMEOUT,
        execution=str(started.name),
        partial_result=partial,
    )
