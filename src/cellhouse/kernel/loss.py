"""Losses below us, seen by the counter at the end of a kernel's message ids."""

import re

MAX_GAPS = 1024

_COUNTED = re.compile(r"(.{1,200})_(\d{1,15})")


class LossDetector:
    """Counts messages that a kernel numbered and that never came.

    Jupyter clients of the reference family number all messages of a process in one sequence, whatever
    the channel: `{session}_{pid}_{counter}`. Another process (a fork that talks on the same sockets)
    has another prefix and is not counted. Ids without a counter are no evidence of anything.
    """

    def __init__(self) -> None:
        self._prefix = ""
        self._next = 0
        self._missing: set[int] = set()
        self._uncounted = 0

    def see(self, msg_id: str) -> None:
        """Take note of one message's id."""
        match = _COUNTED.fullmatch(msg_id)
        if match is None:
            return
        prefix, number = match[1], int(match[2])
        if not self._prefix:
            self._prefix, self._next = prefix, number
        if prefix != self._prefix:
            return
        if number < self._next:
            self._missing.discard(number)
            return
        gap = number - self._next
        room = MAX_GAPS - len(self._missing)
        self._missing.update(range(number - min(gap, room), number))
        self._uncounted += max(0, gap - room)
        self._next = number + 1

    @property
    def suspected(self) -> int:
        """How many numbers have been passed over so far; stragglers may still come."""
        return len(self._missing) + self._uncounted

    def take(self) -> int:
        """The losses since the last call; they are then accounted for."""
        lost = self.suspected
        self._missing.clear()
        self._uncounted = 0
        return lost
