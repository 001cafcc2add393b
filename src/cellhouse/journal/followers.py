"""Who follows a log live: woken, never fed; the newest passing frame is all that is held for them."""

import asyncio

from cellhouse.model import TailFrame


class Followers:
    """Those who wait for more of one log, on the event loop's thread."""

    __slots__ = ("_waiting", "tail")

    def __init__(self) -> None:
        self.tail: TailFrame | None = None
        self._waiting: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def show(self, frame: TailFrame) -> None:
        """The newest frame; the one before is gone."""
        self.tail = frame
        self.wake()

    def wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self) -> None:
        """Until the next `wake`."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)
