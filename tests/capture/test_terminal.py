"""The folding terminal against what a terminal shows, and against a naive model of itself."""

import pytest
from hypothesis import example, given, settings, strategies as st

from cellhouse.capture.terminal import Terminal, fold
from tests.capture.screen import NaiveTerminal


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("one\ntwo\n", "one\ntwo\n"),
        ("1\r2\r3\n", "3\n"),
        ("abcdef\rXY\n", "XYcdef\n"),
        ("line\r\nnext\r\n", "line\nnext\n"),
        ("wait |\b/\b-\bok\n", "wait ok\n"),
        ("\b\bAB\b\b\bC\n", "CB\n"),
        ("up\n\b\bx", "up\nx"),
        ("a\tb\r\tc", "\tcb"),
        (
            "\x1b[31mred\x1b[0m \x1b]8;;https://example.org\x07link\x1b]8;;\x07 \x1b[2Jafter\n",
            "red link after\n",
        ),
        ("\x1b]0;title\x1b\\text", "text"),
        ("\x1bPsixel data\x1b\\text", "text"),
        ("\x1b(B\x1b7\x1b8\x1b=text", "text"),
        ("\x9b31mred\x9d0;title\x9ctext\x85", "redtext"),
        ("a\x00b\x07c\x0bd\x0ce\x7ff", "abcdef"),
        ("long line\r\x1b[Kshort", "short"),
        ("long line\r\x1b[2Kshort", "short"),
        ("long line\x1b[4D\x1b[1K", "      ine"),
        ("50%\n60%\n\x1b[2A100%\x1b[2B\x1b[1Gdone", "100%\n60%\ndone"),
        ("one\ntwo\x1b[A!", "one!\ntwo"),
        ("one\ntwo\x1b[FONE\x1b[Eend", "ONE\nend"),
        ("ab\x1b[3Cc\x1b[1Gx", "xb   c"),
        ("only\x1b[99Aone\x1b[99Brow\x1b[999D>", ">nlyonerow"),
        ("private \x1b[?25l\x1b[?K\x1b[>1Kkept", "private kept"),
        ("cut \x1b[31", "cut "),
        ("broken \x1b[31\nnext", "broken \nnext"),
        ("broken \x1b[3é", "broken é"),
        ("\x1b[99999999999999999999999999999999Cx", " " * 4095 + "x"),
        ("世界\r日", "日界"),
    ],
)
def test_shown_as_a_terminal_would(text: str, shown: str) -> None:
    assert fold(text) == shown


def test_a_long_line_wraps_without_a_line_end() -> None:
    text = "ä€😀" * 40_000
    assert fold(text + "\rX") == text[: 120_000 // 4096 * 4096] + "X" + text[120_000 // 4096 * 4096 + 1 :]


def test_only_the_last_hundred_rows_can_change() -> None:
    lines = "".join(f"{i}\n" for i in range(150))
    assert fold(lines + "\x1b[1000A\x1b[2Knew") == lines.replace("\n51\n", "\nnew\n")


def test_an_endless_escape_is_given_up_after_four_kibibytes() -> None:
    assert fold("a\x1b]" + "x" * 5_000 + "\n") == "a" + "x" * (5_000 - 4_094) + "\n"


def test_nested_progress_bars_end_as_their_last_state() -> None:
    steps = "".join(f"\r outer {i}/3\n\r inner {j}/9\x1b[A" for i in range(4) for j in range(10))
    assert fold(steps + "\n\n") == " outer 3/3\n inner 9/9\n"


def test_put_character_ignores_an_unfinished_escape() -> None:
    terminal = Terminal(lambda _: None)
    terminal.feed("a\x1b[3")
    terminal.put_character("\ud800")
    terminal.feed("1mb")
    assert terminal.screen() == "a\ud800b"
    assert terminal.shows("\ud800")
    assert terminal.column == 3


def test_clear_empties_the_screen_and_keeps_the_escape_open() -> None:
    terminal = Terminal(lambda _: None)
    terminal.feed("a\nb\x1b[3")
    terminal.clear()
    terminal.feed("1mc")
    assert terminal.screen() == "c"


PARTS = st.one_of(
    st.sampled_from(
        [
            "\n", "\r", "\b", "\r\n", "\x1b", "\x1b[", "\x1b]", "\x1b\\", "\x07", "\x9b", "\x9d", "\x9c", "\t", "\x00", "\x18",
            "\x1b[A", "\x1b[2B", "\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[3C", "\x1b[2D", "\x1b[5G", "\x1b[E", "\x1b[2F", "\x1b[31m",
            "\x1b[0;1m", "\x1b[?25l", "\x1b[1 q", "\x1b(B", "\x1b7", "[", "1", ";", "K", "A", "é", "世", "\x85", "\x7f", " ", "!",
            "\x1b[" + "1" * 34 + "K", "\x1b[1;" + "2" * 31 + "C", "\x1b[;" + "0" * 20, "\n" * 6, "abcdefghijk", "x" * 600,
        ]
    ),
    st.text("abcdefgh\n ", max_size=30),
    st.text("aé世\x1b[0;12]ABK\r\n\b\x9b", max_size=12),
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@example(["\x90\r\n", "x" * 78])  # what is in a string counts, however it is cut
@example(["\x1b]\r\n" + "x" * 78])
@given(st.lists(st.lists(PARTS, max_size=6).map("".join), max_size=8))
def test_any_text_in_any_chunks_is_folded_like_the_naive_model(chunks: list[str]) -> None:
    emitted: list[str] = []
    terminal = Terminal(emitted.append, columns=8, rows=4, escape_chars=80)
    naive = NaiveTerminal(8, 4, 80)
    for chunk in chunks:
        terminal.feed(chunk, chunk.encode(), chunk.count("\n"))
        naive.feed(chunk)
    whole: list[str] = []
    at_once = Terminal(whole.append, columns=8, rows=4, escape_chars=80)
    at_once.feed("".join(chunks))
    assert "".join(emitted) == naive.gone
    assert terminal.newlines_gone == at_once.newlines_gone == naive.gone.count("\n")
    assert "".join(emitted) + terminal.screen() == naive.folded()
    assert "".join(whole) + at_once.screen() == naive.folded()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.one_of(PARTS, st.integers(1, 9000).map("y".__mul__), st.integers(1, 120).map("1\n".__mul__)),
        max_size=8,
    )
)
def test_the_real_size_is_folded_like_the_naive_model(chunks: list[str]) -> None:
    naive = NaiveTerminal(4096, 100, 4096)
    naive.feed("".join(chunks))
    assert fold("".join(chunks)) == naive.folded()
    emitted: list[str] = []
    terminal = Terminal(emitted.append)
    for chunk in chunks:
        terminal.feed(chunk)
    assert "".join(emitted) + terminal.screen() == naive.folded()


def test_lines_that_come_together_leave_the_screen_together() -> None:
    emitted: list[str] = []
    terminal = Terminal(emitted.append)
    lines = [f"line {number}\n" for number in range(330)]
    for start in range(0, 330, 66):
        terminal.feed("".join(lines[start : start + 66]))
    assert "".join(emitted) + terminal.screen() == "".join(lines)
    assert terminal.newlines_gone == "".join(emitted).count("\n")
    assert len(emitted) == 4
