"""The event loop of processes that are ours: a service and its keepers. A House that is embedded runs on any loop."""

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, on libuv's loop, whose turns and sockets cost about half of what asyncio's own do."""
    import uvloop  # not for those who embed a house

    return uvloop.run(main)
