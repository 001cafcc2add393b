"""Following an execution that is recorded in another process: the pages come over the connection, or from its journal."""

import weakref
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from cellhouse.keepers.calls import EVENTS, decode_page
from cellhouse.keepers.frames import ProtocolError, decode_json
from cellhouse.keepers.link import Link
from cellhouse.keepers.pieces import WINDOW, Incoming, LinkLost
from cellhouse.model import Event, FinishedEvent, InvalidArgument, TailFrame
from cellhouse.runtime.following import Follower

LEAST_PAGE: Final = 4_096


@dataclass(frozen=True, slots=True)
class Recorded:
    """The record of a keeper that is over: what follows it from a number on, and what lets go of it."""

    follower: Callable[[int], Follower]
    let_go: Callable[[], None]


class Source(Protocol):
    """Says where the events of an execution are to be had at this moment."""

    async def where(self, name: str, *, late: bool, page_bytes: int) -> Link | Recorded:
        """The keeper's connection, where it lives. Raises the errors of an execution that is not there."""


class KeptFollower(Follower):
    """A place in a log that a keeper writes. When the keeper is gone it reads on in the record, from the number it had.

    The keeper sends ahead what the window of the connection lets through (256 KiB, and one event), and no more.
    """

    def __init__(
        self, source: Source, name: str, *, after: int, late: bool, tails: bool, page_bytes: int
    ) -> None:
        # Nothing of the base's own: its log is elsewhere.
        if after < 0:
            raise InvalidArgument.of_field("after", f"{after} is no event number; it takes 0 or more")
        self.after = after
        self._source, self._name = source, name
        self._late, self._tails = late, tails
        self._page_bytes = max(LEAST_PAGE, min(page_bytes, WINDOW))
        self._over = False
        self._begun = self._done = False
        self._incoming: Incoming | None = None
        self._recorded: Follower | None = None
        self._error: Exception | None = None
        self._let_go: weakref.finalize[Any, Any] | None = None

    @property
    def over(self) -> bool:
        return self._over

    @property
    def done(self) -> bool:
        """As it was when reading began."""
        return self._recorded.done if self._recorded is not None else self._done

    async def begin(self) -> None:
        """Until it is known whether there is anything to be read. Raises what reading would."""
        while not self._begun:
            await self.wait()
            if not self._begun:
                self._look()
            if self._error is not None:
                raise self._error

    def take(self) -> list[Event | TailFrame] | None:
        if self._over:
            return None
        if self._recorded is not None:
            page = self._recorded.take()
            self.after, self._over = self._recorded.after, self._recorded.over
            return page
        if self._error is not None:
            raise self._error
        return self._look()

    def _look(self) -> list[Event | TailFrame] | None:
        """What has come; the head of the stream is not for the caller."""
        incoming = self._incoming
        if incoming is None:
            return []
        try:
            data = incoming.take()
            if data is None:
                self._over = self._begun = True
                return None
            if not data:
                return []
            if not self._begun:
                head = decode_json(data)
                self._begun, self._done = True, bool(head["done"])
                return []
            page = decode_page(data)
        except LinkLost:
            self._drop()
            return []
        except (ProtocolError, ValueError, TypeError, KeyError, AttributeError) as error:
            self._drop()
            raise RuntimeError(f"a keeper sends events that are none: {error}") from error
        return self._passed(page)

    def _passed(self, page: list[Event | TailFrame]) -> list[Event | TailFrame]:
        for event in page:
            if not isinstance(event, TailFrame):
                self.after = event.seq
        if page and not self._late and isinstance(page[-1], FinishedEvent):
            self._over = True
        return page

    async def wait(self) -> None:
        if self._recorded is not None:
            await self._recorded.wait()
        elif self._error is None and not self._over:
            if self._incoming is None:
                await self._connect()
            if self._incoming is not None:
                await self._incoming.wait()

    async def _connect(self) -> None:
        try:
            found = await self._source.where(self._name, late=self._late, page_bytes=self._page_bytes)
            if isinstance(found, Link):
                self._open(found)
            else:
                self._hold(found)
        except LinkLost:
            return  # it is looked for again
        except Exception as error:
            self._error = error

    def _hold(self, recorded: Recorded) -> None:
        self._let_go = self._finally(recorded.let_go)
        self._recorded, self._begun = recorded.follower(self.after), True

    def _finally(self, let_go: Callable[..., None], *arguments: int) -> "weakref.finalize[Any, Any]":
        """A reader that goes away often does no more than drop this."""
        made = weakref.finalize(self, let_go, *arguments)
        made.atexit = False
        return made

    def _open(self, link: Link) -> None:
        arguments = {
            "name": self._name,
            "after": self.after,
            "late": self._late,
            "tails": self._tails,
            "pageBytes": self._page_bytes,
        }
        number, self._incoming = link.stream(EVENTS, arguments)
        self._let_go = self._finally(link.cancel, number)
        self._begun = False

    def _drop(self) -> None:
        self._incoming = None
        if self._let_go is not None:
            self._let_go.detach()

    def close(self) -> None:
        if self._let_go is not None:
            self._let_go()
        self._incoming = self._recorded = None
        self._over = True


async def read_all(follower: Follower) -> AsyncGenerator[Event | TailFrame, None]:
    """The events of a follower, one by one, as `runtime.following.follow` gives them."""
    try:
        while (page := follower.take()) is not None:
            for event in page:
                yield event
            if not page:
                await follower.wait()
    finally:
        follower.close()
