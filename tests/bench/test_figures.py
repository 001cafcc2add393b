"""Medians, percentiles, and how figures are written."""

import pytest

from bench.figures import Both, Figures, mebibytes, percentile, seconds, times


def test_figures_of_many_values() -> None:
    assert Figures.of([float(value) for value in range(100, 0, -1)]) == Figures(100, 50.5, 95.0, 100.0)


def test_figures_of_one_value() -> None:
    assert Figures.of([3.0]) == Figures(1, 3.0, 3.0, 3.0)


@pytest.mark.parametrize(("part", "value"), [(0.0, 1.0), (0.25, 1.0), (0.26, 2.0), (0.95, 4.0), (1.0, 4.0)])
def test_a_percentile_is_one_of_the_values(part: float, value: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], part) == value


def test_there_is_no_percentile_of_nothing() -> None:
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 0.5)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.00 ms"), (0.00123, "1.23 ms"), (0.5, "500 ms"), (0.9999, "1000 ms"), (12.345, "12.35 s")],
)
def test_seconds_are_written_in_the_unit_that_fits(value: float, text: str) -> None:
    assert seconds(value) == text


def test_mebibytes_are_written_with_one_digit() -> None:
    assert mebibytes(1.25 * 2**20) == "1.2 MiB"


def test_a_ratio_is_of_the_medians() -> None:
    assert Both(Figures.of([1.0, 2.0, 9.0]), Figures.of([8.0])).ratio == 0.25


@pytest.mark.parametrize(("ratio", "text"), [(1.256, "1.26"), (0.2, "0.20"), (0.0416, "0.042")])
def test_a_small_ratio_is_written_with_more_digits(ratio: float, text: str) -> None:
    assert times(ratio) == text
