"""Where the channels of one kernel meet: bounded in bytes, read by one task."""

import asyncio
from collections import deque
from collections.abc import Callable

from cellhouse.kernel.base import KernelItem

HIGH_BYTES = 1 << 20
LOW_BYTES = 1 << 18
ITEM_BYTES = 256
"""What any item counts at least, so that a flood of empty ones is bounded too."""


class Inbox:
    """A queue that holds its sources back: `on_high` above `HIGH_BYTES`, `on_low` once it has emptied.

    A single item larger than the bound is always taken: the sources bound their own items.
    """

    def __init__(self, *, on_high: Callable[[], None], on_low: Callable[[], None]) -> None:
        self._items: deque[tuple[KernelItem, int]] = deque()
        self._bytes = 0
        self._on_high, self._on_low = on_high, on_low
        self._held = False
        self._waiter: asyncio.Future[None] | None = None

    @property
    def held(self) -> bool:
        """Whether the sources are being held back now."""
        return self._held

    def put(self, item: KernelItem, size: int) -> None:
        self._items.append((item, size + ITEM_BYTES))
        self._bytes += size + ITEM_BYTES
        if self._bytes > HIGH_BYTES and not self._held:
            self._held = True
            self._on_high()
        self.wake()

    def wake(self) -> None:
        """Make a waiting `get` return, with nothing where there is nothing."""
        if self._waiter is not None:
            _wake(self._waiter)

    def get_nowait(self) -> KernelItem | None:
        if not self._items:
            return None
        item, size = self._items.popleft()
        self._bytes -= size
        if self._held and self._bytes < LOW_BYTES:
            self._held = False
            self._on_low()
        return item

    async def get(self, timeout: float | None) -> KernelItem | None:
        """The next item, or None once `timeout` seconds have passed without one. One reader at a time."""
        if self._items or timeout == 0:
            return self.get_nowait()
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = None if timeout is None else loop.call_later(max(0.0, timeout), _wake, self._waiter)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
        return self.get_nowait()


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
