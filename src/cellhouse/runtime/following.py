"""Reading the log of an execution by sequence number, live or long after: what every subscriber does."""

from collections.abc import AsyncIterator

from cellhouse.journal import ExecutionLog, LogState
from cellhouse.model import Event, FinishedEvent, InvalidArgument, TailFrame
from cellhouse.runtime.answering import answered
from cellhouse.runtime.once import no_end, unreadable

PAGE = 256


async def follow(
    log: ExecutionLog, *, after: int = 0, late: bool = False, tails: bool = False
) -> AsyncIterator[Event | TailFrame]:
    """The events numbered above `after`, then those that come; ends at `finished`.

    With `late` it goes on after that until the log is closed. With `tails` the unnumbered frames come too.
    Nothing is kept for a reader: a slow one costs nobody anything.
    """
    if after < 0:
        raise InvalidArgument.of_field("after", f"{after} is no event number; it takes 0 or more")
    shown: TailFrame | None = None
    while True:
        with answered("events"):
            events = log.read(after, PAGE)
        for event in events:
            after = event.seq
            yield event
            if isinstance(event, FinishedEvent) and not late:
                return
        if log.last_seq > after:
            if not events:  # asking again would hold the loop for ever
                raise unreadable(log, after + 1)
            continue
        frame = log.latest_tail
        if tails and frame is not None and frame is not shown:
            shown = frame
            yield frame
            continue
        if log.state is LogState.FINISHED and (log.closed or not late):
            return
        if log.closed:
            raise no_end(log)
        await log.wait(after)
