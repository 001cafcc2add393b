"""Losses below us, seen by the counter at the end of a kernel's message ids."""

MAX_GAPS = 1024
MAX_PREFIX_CHARS = 200
MAX_DIGITS = 15


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
        prefix, _, counter = msg_id.rpartition("_")
        if not (0 < len(prefix) <= MAX_PREFIX_CHARS and counter.isdecimal() and len(counter) <= MAX_DIGITS):
            return
        number = int(counter)
        if prefix == self._prefix and number == self._next:
            self._next += 1
            return
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
