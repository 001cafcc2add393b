"""What a person sees: hostile escapes left out, everything named."""

import io

import pytest

from cellhouse.cli.show import Show, size_text, tame
from cellhouse.model import DisplayEvent, NoticeEvent, ResultEvent, StreamEvent, TailFrame


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n", "plain\n"),
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        ("bar\r\x1b[K\x1b[A", "bar\r\x1b[K\x1b[A"),
        ("\x1b[2Jcleared", "cleared"),
        ("\x1b]52;c;c3RlYWw=\x07text", "text"),
        ("\x1b]0;title\x1b\\text", "text"),
        ("\x1bP1$r\x1b\\x", "x"),
        ("\x07\x00bell\x9b31m", "bell31m"),
    ],
)
def test_tame_keeps_colours_and_leaves_out_what_could_do_harm(text: str, shown: str) -> None:
    assert tame(text) == (shown, "")


def test_an_escape_that_is_cut_between_two_events_is_still_tamed() -> None:
    out = Terminal()
    show = Show(out, out)
    for piece in ("a\x1b", "]52;c;", "c3RlYWw=", "\x07b"):
        show.event(StreamEvent(name="stdout", text=piece))
    assert "52;c" not in out.getvalue()
    assert out.getvalue().startswith("a")
    assert out.getvalue().endswith("b")


def test_a_pipe_gets_the_bytes_as_they_are() -> None:
    out, err = io.StringIO(), io.StringIO()
    Show(out, err).event(StreamEvent(name="stdout", text="\x1b[2J"))
    assert out.getvalue() == "\x1b[2J"


def test_images_notices_and_skipped_text_are_named() -> None:
    out, err = io.StringIO(), io.StringIO()
    show = Show(out, err)
    show.event(StreamEvent(name="stdout", text="no newline"))
    show.event(DisplayEvent(index=3, mime_types=("image/png",), size_bytes=12_345))
    show.event(TailFrame(name="stdout", text="tail\n", skipped_bytes=99))
    show.event(NoticeEvent(reason="OUTPUT_LOST", text="3 messages"))
    assert out.getvalue() == "no newline\n[output 3: image/png, 12.3 kB]\n[… 99 bytes not shown live]\ntail\n"
    assert "OUTPUT_LOST: 3 messages" in err.getvalue()


def test_what_was_told_as_a_value_or_an_error_is_not_shown_again() -> None:
    out, err = io.StringIO(), io.StringIO()
    show = Show(out, err)
    show.event(ResultEvent(text="'first'"))
    show.event(StreamEvent(name="stdout", text="'first'\n", source="result"))
    show.event(StreamEvent(name="stderr", text="Traceback\n", source="error"))
    assert out.getvalue() == "'first'\n"
    assert err.getvalue() == ""


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (64_000_000, "64.0 MB"), (10**15, "1000.0 TB")],
)
def test_sizes(size: int, text: str) -> None:
    assert size_text(size) == text
