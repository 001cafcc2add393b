"""What a kernel's process writes to its own descriptors 1 and 2."""

import asyncio
import os
from collections.abc import Callable
from typing import Literal

from cellhouse.messages import RawText

READ_BYTES = 65_536
DRAIN_BYTES = 1 << 20


class PipeReader:
    """Reads one non-blocking pipe end in the loop and hands on each piece; owns the descriptor."""

    def __init__(self, fd: int, name: Literal["stdout", "stderr"], put: Callable[[RawText], None]) -> None:
        self._fd = fd
        self._name = name
        self._put = put
        self._loop = asyncio.get_running_loop()
        self._watching = False
        self.ended = asyncio.Event()
        self.resume()

    def resume(self) -> None:
        if self._fd >= 0 and not self._watching:
            self._loop.add_reader(self._fd, self._read)
            self._watching = True

    def pause(self) -> None:
        if self._watching:
            self._loop.remove_reader(self._fd)
            self._watching = False

    def drain(self) -> None:
        """Read what stands in the pipe now, at most `DRAIN_BYTES` (a child may write for ever)."""
        for _ in range(DRAIN_BYTES // READ_BYTES):
            if not self._read():
                return

    def close(self) -> None:
        self.pause()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self.ended.set()

    def _read(self) -> bool:
        if self._fd < 0:
            return False
        try:
            data = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        self._put(RawText(self._name, data))
        return True
