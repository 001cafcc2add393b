"""Reading the log of an execution by sequence number, live or long after: what every subscriber does."""

from collections.abc import AsyncGenerator

from cellhouse.journal import ExecutionLog, LogState
from cellhouse.model import Event, FinishedEvent, InvalidArgument, TailFrame
from cellhouse.runtime.answering import answered
from cellhouse.runtime.once import no_end, unreadable

PAGE = 256
PAGE_BYTES = 4 << 20


class Follower:
    """One subscriber's place in a log: it takes what there is, and waits for more as long as it likes.

    With `late` it goes on after `finished` until the log is closed. With `tails` the unnumbered frames come too.
    Nothing is kept for a reader, neither here nor anywhere else: a slow one costs nobody anything.
    """

    def __init__(
        self,
        log: ExecutionLog,
        *,
        after: int = 0,
        late: bool = False,
        tails: bool = False,
        page_bytes: int = PAGE_BYTES,
    ) -> None:
        """`page_bytes` is about what `take` gives at once. InvalidArgument for a negative number."""
        if after < 0:
            raise InvalidArgument.of_field("after", f"{after} is no event number; it takes 0 or more")
        self.after = after
        self._log, self._late, self._tails = log, late, tails
        self._page_bytes = page_bytes
        self._shown: TailFrame | None = None
        self._over = False

    @property
    def over(self) -> bool:
        """Whether the last page ended with `finished`, and nothing comes behind it."""
        return self._over

    @property
    def done(self) -> bool:
        """Whether there is nothing to take, now or ever, without an error to tell of."""
        log = self._log
        return (
            log.last_seq <= self.after and log.state is LogState.FINISHED and (log.closed or not self._late)
        )

    def take(self) -> list[Event | TailFrame] | None:
        """The next events, none where there are none yet, None at the end. Raises the errors of a record that is gone."""
        if self._over:
            return None
        log = self._log
        with answered("events"):
            events = log.read(self.after, PAGE, self._page_bytes)
        if not self._late:
            for number, event in enumerate(events, 1):
                if isinstance(event, FinishedEvent):
                    self._over = True
                    del events[number:]
        if events:
            self.after = events[-1].seq
            return [*events]
        if log.last_seq > self.after:  # asking again would hold the loop for ever
            raise unreadable(log, self.after + 1)
        if self._tails and (frame := log.latest_tail) is not None and frame is not self._shown:
            self._shown = frame
            return [frame]
        if self.done:
            return None
        if log.closed:
            raise no_end(log)
        return []

    async def wait(self) -> None:
        """Until `take` may have something. To be broken off at any moment: the place in the log stays."""
        await self._log.wait(self.after)

    def close(self) -> None:
        """Nothing is taken any more. Here nothing is held; a follower of what is elsewhere lets go of it."""


async def follow(
    log: ExecutionLog, *, after: int = 0, late: bool = False, tails: bool = False
) -> AsyncGenerator[Event | TailFrame, None]:
    """The events numbered above `after`, then those that come; ends at `finished`, or with `late` with the log."""
    follower = Follower(log, after=after, late=late, tails=tails)
    while (page := follower.take()) is not None:
        for event in page:
            yield event
        if not page:
            await follower.wait()
