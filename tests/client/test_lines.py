"""Lines of a stream: the same however they are cut into pieces, and never longer than is taken."""

import random

import pytest
from hypothesis import given, strategies as st

from cellhouse.client import RetryPolicy
from cellhouse.client.lines import Lines, LineTooLong

LINES = st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line), max_size=20)


@given(LINES, st.binary(max_size=5).filter(lambda rest: b"\n" not in rest), st.data())
def test_lines_are_the_same_in_whatever_pieces_they_come(
    lines: list[bytes], rest: bytes, data: st.DataObject
) -> None:
    whole = b"".join(line + b"\n" for line in lines) + rest
    reader, found, at = Lines(20), [], 0
    while at < len(whole):
        size = data.draw(st.integers(1, len(whole) - at))
        found += reader.feed(whole[at : at + size])
        at += size
    assert found == lines


@given(st.integers(1, 50), st.integers(1, 200), st.integers(1, 60))
def test_what_is_held_of_a_line_is_bounded(limit: int, size: int, step: int) -> None:
    reader = Lines(limit)
    line = b"x" * size + b"\n"
    fed = 0
    try:
        for start in range(0, len(line), step):
            reader.feed(line[start : start + step])
            fed = min(start + step, len(line))
    except LineTooLong:
        assert size > limit
        assert fed <= limit
    else:
        assert size <= limit


def test_a_long_line_among_short_ones_is_refused() -> None:
    with pytest.raises(LineTooLong):
        Lines(3).feed(b"a\nbcdef\ng\n")


@given(st.integers(1, 10_000), st.integers(), st.floats(0.01, 10), st.floats(0.01, 100))
def test_a_wait_is_drawn_between_half_of_its_step_and_all_of_it(
    failures: int, seed: int, first: float, longest: float
) -> None:
    policy = RetryPolicy(first=first, longest=longest)
    step = min(longest, first * 2.0 ** min(failures - 1, 64))
    assert step / 2 <= policy.wait(failures, random.Random(seed)) <= step
