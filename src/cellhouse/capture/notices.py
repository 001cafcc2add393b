"""Notices of one execution: each said once, as an event and in the result, and never so many that they drown each other."""

from collections.abc import Callable

from cellhouse.excerpt import shorten
from cellhouse.model import CaptureLimits, Notice, NoticeReason


class Notices:
    """Half of the room is kept for what the house itself has to say: hostile code can make any number of the others."""

    __slots__ = ("_caused", "_full", "_limits", "_say", "_seen", "said")

    def __init__(self, limits: CaptureLimits, say: Callable[[Notice], None]) -> None:
        self._limits = limits
        self._say = say
        self._seen: set[tuple[str, str]] = set()
        self._caused = 0
        self._full = False
        self.said: list[Notice] = []

    def add(self, reason: str, text: str, *, caused: bool = False) -> None:
        """Says it, unless it was said. `caused`: by what the kernel sent, which is bounded more narrowly."""
        text = shorten(text, self._limits.notice_chars, "the events").text
        if (reason, text) in self._seen or self._full:
            return
        room = self._limits.notices
        if len(self.said) >= room - 1 or (caused and self._caused >= room // 2):
            if caused and len(self.said) < room - 1:
                self._caused_full()
                return
            self._full = True
            reason, text = NoticeReason.NOTICE_LIMIT, f"further notices are left out; {room} are kept"
        self._caused += caused
        self._keep(reason, text)

    def _caused_full(self) -> None:
        text = f"further notices about what the kernel sent are left out; {self._caused} are kept"
        if (NoticeReason.NOTICE_LIMIT, text) not in self._seen:
            self._keep(NoticeReason.NOTICE_LIMIT, text)

    def _keep(self, reason: str, text: str) -> None:
        self._seen.add((reason, text))
        notice = Notice(reason=reason, text=text)
        self.said.append(notice)
        self._say(notice)
