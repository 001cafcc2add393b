"""When a token ends, as people write it: `30d`, `12h`, or a moment."""

from datetime import datetime, timedelta
from typing import Final

from cellhouse.model import InvalidArgument, parse_rfc3339
from cellhouse.model.units import parse_duration

_RULE: Final = "takes a span of time, such as 30d or 12h, or a moment, such as 2030-01-31T12:00:00Z"


def parse_expires(text: str, now: datetime) -> datetime:
    """The moment that `text` means. InvalidArgument where it means none, or one that has passed."""
    text = text.strip()
    try:
        moment = _after(text, now) if text[-1:].isalpha() and text[-1:] not in "Zz" else parse_rfc3339(text)
    except (ValueError, OverflowError):
        raise InvalidArgument.of_field("expires", f"{text[:80]!a} is no end of a token; it {_RULE}") from None
    if moment <= now:
        raise InvalidArgument.of_field("expires", f"{text[:80]!a} has passed already; it {_RULE}")
    return moment


def _after(text: str, now: datetime) -> datetime:
    return now + timedelta(seconds=parse_duration(text))
