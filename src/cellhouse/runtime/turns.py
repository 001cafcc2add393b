"""Turns at something that takes the whole machine for a while, over all processes that have agreed on a file."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

TURNS_FILE: Final = "warming.lock"
LOOK_SECONDS: Final = 0.1


class Turns:
    """One turn at a time. Who holds one is known by a lock (flock), so that nobody's death keeps the others waiting."""

    def __init__(self, path: Path) -> None:
        """The file is made where there is none, with the first turn."""
        self._path = path

    @asynccontextmanager
    async def turn(self, unless: asyncio.Event) -> AsyncIterator[None]:
        """Wait for it, or until the event says that there is no waiting any more. Raises OSError."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            while not unless.is_set() and not _lock(fd):
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        await unless.wait()
                except TimeoutError:
                    continue
            yield
        finally:
            os.close(fd)


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
