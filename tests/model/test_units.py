"""Sizes and spans of time, as people write them."""

import pytest

from cellhouse.model.units import in_units, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1024", 1024),
        ("512M", 512 << 20),
        ("512m", 512 << 20),
        ("1.5G", 3 << 29),
        ("2GiB", 2 << 30),
        ("64kB", 64 << 10),
        ("512MB", 512 << 20),
        ("100b", 100),
        (" 1T ", 1 << 40),
        ("9007199254740993", 9_007_199_254_740_993),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "M", "-1", "1 M", "1e3", "1P", "0x10", "٣", "1.G", "9" * 1000])
def test_what_is_no_size_names_the_rule(text: str) -> None:
    with pytest.raises(ValueError, match="512M"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0s", 0.0), ("90s", 90.0), ("2m", 120.0), ("12h", 43_200.0), ("1.5d", 129_600.0), ("1w", 604_800.0)],
)
def test_spans(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "30", "s", "-1s", "1y", "1D", "1 d", "inf", "٣s", "1ms", "9" * 1000 + "s"]
)
def test_what_is_no_span_names_the_rule(text: str) -> None:
    with pytest.raises(ValueError, match="12h"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("size", "text"), [(1, "1"), (1024, "1K"), (1536 * (1 << 20), "1536M"), (1 << 40, "1T")]
)
def test_sizes_are_told_as_they_may_be_written(size: int, text: str) -> None:
    assert in_units(size) == text
