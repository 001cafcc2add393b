"""The message counter: gaps are losses, stragglers are not, other processes don't count."""

import random

from hypothesis import given, settings, strategies as st

from cellhouse.kernel.loss import MAX_GAPS, LossDetector


def detector(*numbers: int, prefix: str = "session_77") -> LossDetector:
    made = LossDetector()
    for number in numbers:
        made.see(f"{prefix}_{number}")
    return made


def test_an_unbroken_sequence_lost_nothing() -> None:
    assert detector(*range(5, 500)).suspected == 0


def test_the_first_number_seen_is_where_counting_begins() -> None:
    assert detector(4711, 4712).suspected == 0


def test_a_gap_is_counted() -> None:
    assert detector(1, 2, 6, 7, 9).suspected == 4


def test_a_straggler_is_no_loss() -> None:
    """The channels of a kernel share one sequence and overtake each other."""
    found = detector(1, 4)
    assert found.suspected == 2
    found.see("session_77_2")
    assert found.suspected == 1
    found.see("session_77_3")
    assert found.suspected == 0


def test_repeats_and_numbers_before_the_first_change_nothing() -> None:
    assert detector(10, 11, 10, 11, 3, 4).suspected == 0


def test_another_process_is_not_counted() -> None:
    found = detector(1, 2)
    found.see("session_78_900")
    found.see("session_78_950")
    found.see("other_77_5")
    assert found.suspected == 0
    found.see("session_77_3")
    assert found.suspected == 0


def test_ids_without_a_counter_are_no_evidence() -> None:
    found = LossDetector()
    for name in ("", "x", "_1", "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "a_", "a_1b", "a_" + "9" * 16):
        found.see(name)
    assert found.suspected == 0
    found.see("a_5")
    found.see("a_7")
    assert found.suspected == 1


def test_what_was_told_is_told_once() -> None:
    found = detector(1, 5)
    assert found.take() == 3
    assert found.take() == 0
    assert found.suspected == 0
    found.see("session_77_2")  # told as lost, and late all the same
    assert found.suspected == 0
    found.see("session_77_8")
    assert found.take() == 2


def test_a_jump_of_any_size_is_counted_in_bounded_memory() -> None:
    found = detector(0, 10**14)
    assert found.suspected == 10**14 - 1
    assert len(found._missing) <= MAX_GAPS
    found.see("session_77_100000000000002")
    assert found.take() == 10**14
    assert not found._missing


@settings(deadline=None)
@given(st.sets(st.integers(1, 60)), st.integers(0, 2**32))
def test_any_order_of_arrival_counts_just_what_is_missing(lost: set[int], seed: int) -> None:
    arriving = [number for number in range(1, 61) if number not in lost]
    random.Random(seed).shuffle(arriving)
    found = detector(0, *arriving, 61)
    assert found.suspected == len(lost)
