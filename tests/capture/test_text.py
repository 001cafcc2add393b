"""One text stream: exact totals, slots that are filled later, clearing, spilling."""

import pytest
from hypothesis import given, settings, strategies as st

from cellhouse.capture.decode import pieces
from cellhouse.capture.spill import Keeping, Spill
from cellhouse.capture.terminal import fold
from cellhouse.capture.text import SLOT_CHARS, SLOTS, TextStream
from tests.capture.rig import FakeSink, FakeSpill


class Told:
    def __init__(self) -> None:
        self.reached = 0
        self.failed: list[OSError] = []


def keeping(sink: FakeSink, told: Told) -> Keeping:
    def reached() -> None:
        told.reached += 1

    return Keeping(sink, reached, told.failed.append)


def stream(limit: int = 1_000, hold: int = 256 * 1024) -> tuple[TextStream, FakeSink, Told]:
    sink, told = FakeSink(), Told()
    return TextStream(limit, Spill("stdout", keeping(sink, told), hold=hold)), sink, told


def say(made: TextStream, text: str) -> None:
    for piece in pieces(text):
        made.write(piece)


def test_totals_are_of_the_raw_text() -> None:
    made, _, _ = stream(limit=10)
    say(made, "\x1b[31mä€😀\x1b[0m\r" * 3 + "a long line after all\nend")
    shown = made.render("x/stdout")
    cut = made.cut(shown)
    assert cut is not None
    assert (cut.total_bytes, cut.total_chars, cut.total_lines) == (82, 64, 2)
    assert cut.kept_head_chars + cut.kept_tail_chars + cut.omitted_chars == len("a long line after all\nend")


def test_a_text_that_folds_into_the_limit_is_not_cut() -> None:
    made, _, _ = stream(limit=10)
    say(made, "".join(f"\r{i:5}" for i in range(1_000)))
    shown = made.render("x")
    assert shown.text == "  999"
    assert made.cut(shown) is None


def test_a_slot_shows_what_it_was_filled_with_last() -> None:
    made, _, _ = stream()
    say(made, "before\n")
    slot = made.reserve("12 of 40")
    assert slot is not None
    made.end_slot()
    say(made, "after\n")
    assert made.render("x").text == "before\n12 of 40\nafter\n"
    assert made.fill(slot, "40 of 40\nall")
    assert made.render("x").text == "before\n40 of 40\nall\nafter\n"
    assert made.render("x").head_chars == len("before\n40 of 40\nall\nafter\n")


def test_a_slot_in_what_was_left_out_still_counts() -> None:
    made, _, _ = stream(limit=100)
    say(made, "x" * 9 + "\n")
    say(made, "y\n" * 300)
    slot = made.reserve("short")
    assert slot is not None
    say(made, "\n" + "z\n" * 4_000)
    before = made.render("x")
    assert made.fill(slot, "long " * 100 + "\n\n")
    after = made.render("x")
    assert after.omitted_chars == before.omitted_chars + 497
    assert after.omitted_lines == before.omitted_lines + 2


def test_a_slot_that_was_written_over_takes_nothing() -> None:
    made, _, _ = stream()
    slot = made.reserve("text")
    assert slot is not None
    say(made, "\r\x1b[K")
    assert not made.fill(slot, "other")
    assert made.render("x").text == ""


def test_a_place_that_was_kept_is_not_written_over() -> None:
    made, _, _ = stream()
    place = made.keep_place()
    say(made, "10%\r20%\n\x1b[A\x1b[2K30%\n")
    assert made.render("x").text == "30%\n"
    assert place is not None
    assert made.fill(place, "value\n")
    assert made.render("x").text == "value\n30%\n"
    say(made, "half")
    within = made.keep_place()
    assert within is not None
    assert made.fill(within, "!")
    assert made.render("x").text == "value\n30%\nhalf!"


def test_slots_are_bounded_in_number_and_size() -> None:
    made, _, _ = stream(limit=100)
    assert made.reserve("x" * (SLOT_CHARS + 1)) is None
    slots = [made.reserve("") for _ in range(SLOTS)]
    assert None not in slots
    assert made.reserve("") is None
    assert made.keep_place() is None
    first = slots[0]
    assert first is not None
    assert not made.fill(first, "x" * (SLOT_CHARS + 1))
    filled = [slot is not None and made.fill(slot, "y" * SLOT_CHARS) for slot in slots]
    assert filled.count(True) == 16
    shown = made.render("x")
    assert shown.head_chars + shown.tail_chars + shown.omitted_chars == 16 * SLOT_CHARS


def test_empty_slots_never_make_a_whole_text_look_cut() -> None:
    made, _, _ = stream(limit=50)
    for _ in range(SLOTS):
        made.reserve("")
    say(made, "a" * 50)
    shown = made.render("x")
    assert shown.text == "a" * 50
    assert shown.omitted_chars == 0


def test_clearing_counts_what_was_shown_and_voids_slots() -> None:
    made, _, _ = stream()
    say(made, "abc\rX\n")
    slot = made.reserve("12345")
    made.clear()
    assert made.cleared_chars == len("Xbc\n12345")
    assert made.render("x").text == ""
    assert slot == made.reserve("again")
    say(made, "!")
    assert made.render("x").text == "again!"
    assert made.total_bytes == 7


def test_a_short_text_makes_no_file_and_a_long_one_is_whole_in_it() -> None:
    made, sink, _ = stream()
    say(made, "x" * 262_144)
    assert not sink.spills
    say(made, "yz")
    assert sink.spills["stdout"].data == b"x" * 262_144 + b"yz"
    assert made.spill.kept == 262_146


def test_a_full_disk_ends_a_spill_without_a_gap() -> None:
    sink, told = FakeSink(), Told()
    spill = Spill("stdout", keeping(sink, told), hold=0)
    spill.write(b"kept")
    sink.spills["stdout"].full = True
    spill.write(b"lost")
    sink.spills["stdout"].full = False
    spill.write(b"behind it")
    assert (spill.kept, len(told.failed), bytes(sink.spills["stdout"].data)) == (4, 1, b"kept")


def test_a_sink_that_keeps_less_ends_the_spill() -> None:
    sink, told = FakeSink(), Told()
    sink.spills["stdout"] = FakeSpill(limit=3)
    spill = Spill("stdout", keeping(sink, told), hold=0)
    spill.write(b"abcdef")
    spill.write(b"g")
    assert (spill.kept, told.reached) == (3, 1)


STEPS = st.one_of(
    st.tuples(st.just("say"), st.text("ab\n", max_size=20)),
    st.tuples(st.just("say"), st.sampled_from(["\r", "\b", "\x1b[A", "\x1b[2K", "\n" * 200, "x" * 5_000])),
    st.tuples(st.just("reserve"), st.text("cd\n", max_size=6)),
    st.tuples(st.just("fill"), st.text("ef\n", max_size=60)),
    st.tuples(st.just("clear"), st.just("")),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=25), st.integers(1, 300), st.randoms(use_true_random=False))
def test_counts_add_up_whatever_happens(steps: list[tuple[str, str]], limit: int, random: object) -> None:
    made, _, _ = stream(limit=limit)
    whole, _, _ = stream(limit=10_000_000)
    slots: list[int] = []
    chars = 0
    for number, (step, text) in enumerate(steps):
        for target in (made, whole):
            if step == "say":
                say(target, text)
            elif step == "reserve":
                slot = target.reserve(text)
                if target is made and slot is not None:
                    slots.append(slot)
            elif step == "fill" and slots:
                target.fill(slots[number % len(slots)], text)
            elif step == "clear":
                target.clear()
        if step == "clear":
            slots.clear()
        chars += len(text) if step == "say" else 0
    shown, all_of_it = made.render("x"), whole.render("x")
    assert shown.head_chars + shown.tail_chars + shown.omitted_chars == len(all_of_it.text)
    assert all_of_it.text.startswith(all_of_it.text[: shown.head_chars])
    assert shown.text.startswith(all_of_it.text[: shown.head_chars])
    assert shown.text.endswith(all_of_it.text[len(all_of_it.text) - shown.tail_chars :])
    assert (made.cut(shown) is None) == (len(all_of_it.text) <= limit)
    if (cut := made.cut(shown)) is not None:
        assert cut.total_chars == chars


@pytest.mark.parametrize("text", ["a\nb\n", "a\nb", "", "\n", "a\r\nb\n"])
def test_a_last_partial_line_counts(text: str) -> None:
    made, _, _ = stream(limit=1)
    say(made, text + "x" * 10)
    cut = made.cut(made.render("x"))
    assert cut is not None
    assert cut.total_lines == len((text + "x" * 10).splitlines())
    assert fold(text) in (text, text.replace("\r", ""))
