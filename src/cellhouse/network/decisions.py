"""What the proxy decides: the reasons, what a client is told, and the count of it all."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cellhouse.model import Clock, NetworkPolicy, NetworkRefusal, NetworkReport, NetworkSettings, rfc3339

REFUSALS: Final = 16  # told in a report; of the others only the count
PHRASE_CHARS: Final = 240
TARGET_CHARS: Final = 300


class Reason(StrEnum):
    """Why something was not let through, or was ended."""

    NOT_NAMED = "NOT_NAMED"
    NOT_PUBLIC = "NOT_PUBLIC"
    NOT_RESOLVED = "NOT_RESOLVED"
    NOT_REACHED = "NOT_REACHED"
    BAD_REQUEST = "BAD_REQUEST"
    BAD_RESPONSE = "BAD_RESPONSE"
    HEAD_TOO_LARGE = "HEAD_TOO_LARGE"
    TOO_MANY_CONNECTIONS = "TOO_MANY_CONNECTIONS"
    TOTAL_BYTES = "TOTAL_BYTES"
    REQUEST_TIMEOUT = "REQUEST_TIMEOUT"
    IDLE = "IDLE"
    HEADER_UNAVAILABLE = "HEADER_UNAVAILABLE"


class Refused(Exception):
    """A request is not let through. `text` is for the client, `detail` for the runtime's log alone."""

    def __init__(self, status: int, reason: Reason, text: str, *, detail: str = "") -> None:
        super().__init__(text)
        self.status, self.reason, self.text, self.detail = status, reason, text, detail

    def response(self) -> bytes:
        """A whole HTTP response. Clients show of a failed CONNECT the status line and nothing else, so it says it all."""
        phrase = "".join(each if " " <= each <= "~" else "?" for each in self.text)[:PHRASE_CHARS]
        body = f"cellhouse: {self.text}\n".encode()
        head = (
            f"HTTP/1.1 {self.status} {phrase}\r\n"
            "Content-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\n"
            f"Proxy-Status: cellhouse; error=http_request_denied; details={self.reason}\r\n"
            f"{'Retry-After: 1' + chr(13) + chr(10) if self.status == 503 else ''}"
            "Connection: close\r\n\r\n"
        )
        return head.encode("ascii") + body


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision, for the runtime's log. `target` is HOST:PORT as it was asked for; no path, no header, no body."""

    target: str
    reason: Reason | None
    """None: it was let through."""
    text: str

    @property
    def allowed(self) -> bool:
        return self.reason is None


class Book:
    """Counts every decision, remembers the last refusals, and tells each to whoever keeps the log."""

    def __init__(self, clock: Clock, tell: Callable[[Decision], None]) -> None:
        self._clock, self._tell = clock, tell
        self.allowed = self.refused = 0
        self.sent = self.received = 0
        self._refusals: OrderedDict[tuple[str, Reason], tuple[str, int, str]] = OrderedDict()

    def allow(self, target: str, detail: str) -> None:
        self.allowed += 1
        self._tell(Decision(target[:TARGET_CHARS], None, detail))

    def refuse(self, target: str, refused: Refused) -> None:
        self.refused += 1
        target = target[:TARGET_CHARS]
        _, count, _ = self._refusals.pop((target, refused.reason), ("", 0, ""))
        now = rfc3339(self._clock.now())
        self._refusals[target, refused.reason] = (refused.text, count + 1, now)
        if len(self._refusals) > REFUSALS:
            self._refusals.popitem(last=False)
        text = f"{refused.text} ({refused.detail})" if refused.detail else refused.text
        self._tell(Decision(target, refused.reason, text))

    def report(self, policy: NetworkPolicy, settings: NetworkSettings, connections: int) -> NetworkReport:
        return NetworkReport(
            policy=policy.policy,
            allow=policy.allow,
            allowed=self.allowed,
            refused=self.refused,
            bytes_sent=self.sent,
            bytes_received=self.received,
            limit_bytes=settings.total_bytes,
            connections=connections,
            limit_connections=settings.connections,
            refusals=tuple(
                NetworkRefusal(target=target, reason=reason, text=text, count=count, time=time)
                for (target, reason), (text, count, time) in self._refusals.items()
            ),
        )
