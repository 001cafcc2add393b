"""A clock that is moved by hand, and short words for tests of tokens."""

from datetime import UTC, datetime, timedelta

from cellhouse.tokens import Scope

READ = frozenset({Scope.READ})
START = datetime(2031, 1, 1, tzinfo=UTC)


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds
