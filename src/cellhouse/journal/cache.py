"""The newest events of all logs, in memory within one bound, so that who follows live seldom reads the file."""

from collections import OrderedDict

from cellhouse.model import Event

CACHE_BYTES = 4 << 20
_OVERHEAD = 500


class EventCache:
    """Least recently written first out. An event counts with its bytes on disk and what Python adds."""

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._limit = limit
        self._size = 0
        self._events: OrderedDict[tuple[str, int], tuple[Event, int]] = OrderedDict()

    def put(self, uid: str, event: Event, size: int) -> None:
        size += _OVERHEAD
        if size > self._limit // 4:
            return
        self._events[uid, event.seq] = (event, size)
        self._size += size
        while self._size > self._limit:
            _, (_, freed) = self._events.popitem(last=False)
            self._size -= freed

    def get(self, uid: str, seq: int) -> Event | None:
        found = self._events.get((uid, seq))
        return None if found is None else found[0]

    def after(self, uid: str, seq: int, limit: int, size: int) -> list[Event]:
        """The events above `seq` without a gap: at most `limit`, and about `size` bytes, of them."""
        events: list[Event] = []
        while len(events) < limit and size > 0:
            found = self._events.get((uid, seq + 1 + len(events)))
            if found is None:
                break
            events.append(found[0])
            size -= found[1]
        return events
