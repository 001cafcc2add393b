"""When a token ends: spans, moments, and what is neither."""

from datetime import UTC, datetime, timedelta

import pytest

from cellhouse.model import InvalidArgument
from cellhouse.tokens import parse_expires
from tests.tokens.support import START


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("90s", timedelta(seconds=90)),
        ("15m", timedelta(minutes=15)),
        ("12h", timedelta(hours=12)),
        ("30d", timedelta(days=30)),
        ("2w", timedelta(weeks=2)),
        ("1.5h", timedelta(minutes=90)),
        (" 1d ", timedelta(days=1)),
    ],
)
def test_a_span_is_from_now(text: str, span: timedelta) -> None:
    assert parse_expires(text, START) == START + span


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2031-06-01T12:00:00Z", datetime(2031, 6, 1, 12, tzinfo=UTC)),
        ("2031-06-01T12:00:00.5+02:00", datetime(2031, 6, 1, 10, 0, 0, 500_000, tzinfo=UTC)),
    ],
)
def test_a_moment_is_that_moment(text: str, moment: datetime) -> None:
    assert parse_expires(text, START) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "30",
        "d",
        "-1d",
        "3y",
        "1d12h",
        "tomorrow",
        "2031-06-01",
        "2031-06-01T12:00:00",
        "999999999w",
        "١d",
        "1e5d",
        "d" * 10_000,
    ],
)
def test_what_is_neither_is_refused_with_what_would_do(text: str) -> None:
    with pytest.raises(InvalidArgument, match="30d or 12h") as caught:
        parse_expires(text, START)
    assert caught.value.metadata["field"] == "expires"
    assert len(caught.value.message) < 400


@pytest.mark.parametrize("text", ["0s", "2030-12-31T23:59:59Z", "2031-01-01T00:00:00Z"])
def test_what_has_passed_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="passed"):
        parse_expires(text, START)
