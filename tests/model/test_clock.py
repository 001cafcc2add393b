"""Time on the wire, and the machine's clock."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from cellhouse.model import Clock, SystemClock, parse_rfc3339, rfc3339

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678_999, tzinfo=UTC)


def test_a_time_has_milliseconds_that_are_cut() -> None:
    assert rfc3339(MOMENT) == "2026-01-02T03:04:05.678Z"
    assert rfc3339(MOMENT.replace(microsecond=0)) == "2026-01-02T03:04:05.000Z"


def test_a_time_is_told_in_utc() -> None:
    assert rfc3339(MOMENT.astimezone(timezone(timedelta(hours=5, minutes=30)))) == "2026-01-02T03:04:05.678Z"


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no zone"):
        rfc3339(MOMENT.replace(tzinfo=None))
    with pytest.raises(ValueError, match="no zone"):
        parse_rfc3339("2026-01-02T03:04:05.678")


@given(st.datetimes(timezones=st.just(UTC)))
def test_times_round_trip_to_the_millisecond(moment: datetime) -> None:
    text = rfc3339(moment)
    assert len(text) == len("2026-01-02T03:04:05.678Z")
    assert parse_rfc3339(text) == moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def test_the_systems_clock_is_a_clock() -> None:
    clock: Clock = SystemClock()
    assert clock.now().tzinfo is UTC
    assert clock.monotonic() <= clock.monotonic()
