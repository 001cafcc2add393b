"""Whether who called may still call, looked at again and again while the request is open."""

import asyncio
from typing import Final

from starlette.types import Message, Receive

from cellhouse.doors.callers import Authenticator
from cellhouse.model import CellhouseError

_GONE: Final = {"type": "http.disconnect"}


class Watch:
    """Stands before a request's `receive`; to the application a caller who may no longer call is one who went away.

    So a stream, a wait and an upload of a token that was revoked or has expired end within `seconds`, by the way that has
    to work anyway, and what runs runs on. `refusal` is why, from then on.
    """

    def __init__(
        self, authenticator: Authenticator, authorization: str | None, receive: Receive, seconds: float
    ) -> None:
        self._authenticator, self._authorization = authenticator, authorization
        self._receive, self._seconds = receive, seconds
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.time() + seconds
        self.refusal: CellhouseError | None = None

    async def receive(self) -> Message:
        """What the caller sends next, or that it is gone."""
        while self.refusal is None:
            if self._loop.time() >= self._next:
                self._look()
                continue
            try:
                async with asyncio.timeout_at(self._next):
                    return await self._receive()
            except TimeoutError:
                continue
        return dict(_GONE)

    def _look(self) -> None:
        self._next = self._loop.time() + self._seconds
        try:
            self._authenticator.authenticate(self._authorization)
        except CellhouseError as error:
            self.refusal = error
