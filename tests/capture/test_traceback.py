"""Exceptions made plain and bounded; garbage in place of a traceback is survived."""

from collections.abc import Iterator
from typing import Any

import pytest

from cellhouse.capture.decode import Piece
from cellhouse.capture.traceback import ENTRIES, FRAMES, ErrorReport, ErrorText, plain
from cellhouse.model import CaptureLimits
from tests.capture.rig import long

LIMITS = CaptureLimits(error_value_chars=100, traceback_chars=400)


def report(name: Any, value: Any, frames: Any, limits: CaptureLimits = LIMITS) -> tuple[ErrorReport, str]:
    kept: list[str] = []

    def keep(whole: Iterator[Piece]) -> int:
        kept.extend(piece.text for piece in whole)
        return sum(len(text.encode()) for text in kept)

    made = ErrorText({"ename": name, "evalue": value, "traceback": frames}, limits).report(
        "e/traceback", keep
    )
    return made, "".join(kept)


def printed(name: Any, value: Any, frames: Any) -> str:
    error = ErrorText({"ename": name, "evalue": value, "traceback": frames}, LIMITS)
    return "".join(piece.text for piece in error.text())


def test_one_plain_frame_an_entry() -> None:
    made, kept = report(
        "ValueError",
        "bad",
        ["\x1b[31m---\x1b[39m", "Cell \x1b]8;;x\x07In[1]\x1b]8;;\x07\n", "ValueError: bad"],
    )
    assert made.error.name == "ValueError"
    assert made.error.value == "bad"
    assert made.error.traceback == ("---", "Cell In[1]\n", "ValueError: bad")
    assert (made.value_cut, made.traceback_cut, kept) == (None, None, "")


@pytest.mark.parametrize("frames", [None, 3, {}, {"a": 1}, [], [None, 3, {}], True])
def test_a_traceback_that_is_none(frames: Any) -> None:
    made, _ = report("Quiet", "hush", frames)
    assert made.error.traceback == ()
    assert printed("Quiet", "hush", frames) == "Quiet: hush\n"


def test_a_traceback_that_is_one_text() -> None:
    assert report("E", "v", "a\nb\n")[0].error.traceback == ("a\nb\n",)
    assert printed("E", "v", "a\nb\n") == "a\nb\n"
    assert printed("E", "v", ["\x1b[0m", "a", "b\n", 3, ""]) == "\na\nb\n\n"


@pytest.mark.parametrize("name", [None, "", 3, ["E"]])
def test_a_name_that_is_none(name: Any) -> None:
    assert report(name, "v", [])[0].error.name == "UnknownError"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (3, "3"),
        (True, "True"),
        (10**40, "<int>"),
        ({"a": 1}, "<dict>"),
        ("\x1b[1mv\x00\r\n\ud800", "v\r\n\\ud800"),
    ],
)
def test_values(value: Any, shown: str) -> None:
    assert report("E", value, [])[0].error.value == shown


def test_a_long_value_is_cut_and_kept_whole_elsewhere() -> None:
    text = "word " * 100
    made, kept = report("E", text, ["frame", "E: " + text[:10]])
    assert made.error.value.startswith("word word")
    assert "… 400 characters (1 line) not shown; read e/traceback …" in made.error.value
    cut = made.value_cut
    assert cut is not None
    assert (cut.total_chars, cut.kept_head_chars, cut.kept_tail_chars, cut.omitted_chars) == (
        500,
        50,
        50,
        400,
    )
    assert kept == f"E: {text}\nframe\nE: {text[:10]}\n"
    assert cut.spilled_bytes == len(kept)
    assert made.traceback_cut is None


def test_a_long_value_that_came_as_long_text() -> None:
    made, kept = report("E", long("ä😀" * 50_000), [])
    assert made.value_cut is not None
    assert made.value_cut.total_bytes == 300_000
    assert len(kept) > 100_000


def test_first_and_last_frames_stay() -> None:
    frames = [f"frame {i} " + "x" * 40 for i in range(100)]
    made, kept = report("E", "v", frames)
    shown = made.error.traceback
    assert shown[0] == frames[0]
    assert shown[-1] == frames[-1]
    assert sum(frame in frames for frame in shown) == len(shown) - 1
    cut = made.traceback_cut
    assert cut is not None
    assert cut.total_chars == sum(map(len, frames))
    assert (
        cut.kept_head_chars + cut.kept_tail_chars
        == sum(len(frame) for frame in shown if frame in frames)
        <= 400
    )
    assert cut.kept_head_chars + cut.kept_tail_chars + cut.omitted_chars == cut.total_chars
    middle = next(frame for frame in shown if frame not in frames)
    assert (
        middle == f"… {101 - len(shown)} frames, {cut.omitted_chars} characters not shown; read e/traceback …"
    )
    assert kept == "\n".join(frames) + "\n"


def test_a_huge_frame_is_cut_itself() -> None:
    cases: list[list[Any]] = [
        ["x" * 1_000],
        ["x" * 1_000, "y"],
        ["y", long("x" * 100_000)],
        ["x" * 500, "y" * 500, "z" * 500],
    ]
    for frames in cases:
        made, _ = report("E", "v", frames)
        shown = made.error.traceback
        assert sum(map(len, shown)) < 400 + 3 * 90
        assert shown[0][0] == frames[0][0]
        cut = made.traceback_cut
        assert cut is not None
        assert cut.kept_head_chars + cut.kept_tail_chars + cut.omitted_chars == cut.total_chars
        assert cut.total_chars == sum(map(len, frames))
    assert made.error.traceback[-1].startswith("z")


def test_very_many_frames_are_bounded() -> None:
    made, _ = report("E", "v", [""] * 5_000 + ["last"])
    assert len(made.error.traceback) <= FRAMES + 1
    assert made.error.traceback[-1] == "last"


def test_an_exact_fit_is_whole() -> None:
    made, _ = report("E", "v", ["x" * 200, "y" * 200])
    assert made.traceback_cut is None
    assert report("E", "v", ["x" * 200, "y" * 201])[0].traceback_cut is not None


def test_plain_keeps_line_ends_and_tabs() -> None:
    assert plain("a\tb\r\nc\x1b[0;31md\x1b(B\x08e\x9b1mf\x1b") == "a\tb\r\ncde1mf"


def test_of_very_many_entries_the_first_and_the_last_are_read_and_the_rest_counted() -> None:
    entries = [f"frame {number}" for number in range(2 * ENTRIES)]
    made, kept = report("E", "v", entries)
    said = f"… {ENTRIES} of the traceback's {2 * ENTRIES} entries are left out: {ENTRIES} are read …"
    lines = kept.splitlines()
    assert lines == [*entries[: ENTRIES // 2], said, *entries[-ENTRIES // 2 :]]
    assert made.error.traceback[-1] == entries[-1]
    assert made.traceback_cut is not None
    assert made.traceback_cut.total_lines == ENTRIES + 1
    assert printed("E", "v", entries[:ENTRIES]) == "\n".join([*entries[:ENTRIES], ""])
