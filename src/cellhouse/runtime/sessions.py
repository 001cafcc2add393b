"""The sessions of one runtime: made, found by name, ended; and closed where nobody uses them any more."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta

from cellhouse.model import (
    AlreadyExists,
    CallReason,
    Clock,
    NotFound,
    ResourceExhausted,
    RuntimeName,
    Session as SessionDocument,
    SessionName,
    mint_id,
    rfc3339,
)
from cellhouse.runtime.outcome import Ending
from cellhouse.runtime.session import Session


class Sessions:
    """`make` makes a session of this name; `most` there can be. What nobody used for `idle_seconds` is over."""

    def __init__(
        self,
        runtime: RuntimeName,
        *,
        make: Callable[[SessionName], Session],
        most: int,
        idle_seconds: float,
        clock: Clock,
    ) -> None:
        self.idle_seconds = idle_seconds
        self._runtime, self._make, self._most = runtime, make, most
        self._clock = clock
        self._used = clock.monotonic()
        self._living: dict[str, Session] = {}
        self._culled: set[Session] = set()

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._living.values()))

    def find(self, session: str) -> Session | None:
        return self._living.get(session)

    def get(self, session: str) -> Session:
        """NotFound where there is none of this id."""
        found = self._living.get(session)
        if found is None:
            raise NotFound(
                f"there is no session {session!r} in {self._runtime}", reason=CallReason.NO_SUCH_SESSION
            )
        return found

    def create(self, session: str | None) -> Session:
        """A new one; AlreadyExists where the id is taken, ResourceExhausted where there are as many as there can be."""
        if session is not None and (taken := self._living.get(session)) is not None:
            raise AlreadyExists(f"{taken.name} exists", reason=CallReason.ID_TAKEN)
        if len(self._living) >= self._most:
            raise ResourceExhausted(
                f"{self._runtime} has {self._most} sessions, which is the limit (max_sessions); delete one",
                reason=CallReason.QUOTA_EXCEEDED,
                limit="max_sessions",
            )
        key = session or mint_id("s")
        made = self._living[key] = self._make(self._runtime.session(key))
        return made

    async def end(self, session: Session, ending: Ending, text: str) -> None:
        await session.close(ending, text)
        if self._living.get(session.name.session) is session:
            del self._living[session.name.session]

    async def close(self, ending: Ending, text: str) -> None:
        """End them all."""
        await asyncio.gather(*(each.close(ending, text) for each in (*self._living.values(), *self._culled)))
        self._living.clear()

    def describe(self, session: Session) -> SessionDocument:
        return session.describe(
            self.expire_time(self._clock.monotonic() if session.busy else session.last_used)
        )

    # how long they stay

    def keep_alive(self) -> None:
        self._used = self._clock.monotonic()
        for session in self._living.values():
            session.last_used = self._used

    @property
    def last_used(self) -> float:
        """When something last ran in any of them; now, while something does."""
        if any(session.busy for session in self._living.values()):
            return self._clock.monotonic()
        return max([self._used, *(session.last_used for session in self._living.values())])

    @property
    def all_idle(self) -> bool:
        """Whether nobody used any of them for so long that the runtime is over too."""
        return self.last_used + self.idle_seconds <= self._clock.monotonic()

    def next_look(self) -> float:
        """Seconds until the first of them, or the runtime, can have been idle for long enough."""
        idle = (session.last_used for session in self._living.values() if not session.busy)
        return min([self.last_used, *idle]) + self.idle_seconds - self._clock.monotonic()

    def expire_time(self, used: float) -> str:
        left = used + self.idle_seconds - self._clock.monotonic()
        return rfc3339(self._clock.now() + timedelta(seconds=max(0.0, left)))

    async def cull(self) -> None:
        """Close those that nobody used for long enough."""
        limit = self._clock.monotonic() - self.idle_seconds
        for session in self:
            if not session.busy and session.last_used <= limit:
                # Who comes from now on gets a new one, and is told so.
                del self._living[session.name.session]
                self._culled.add(session)
                await session.close(
                    Ending.DELETE_SESSION, f"the session was idle for {self.idle_seconds:g} s"
                )
                self._culled.discard(session)
