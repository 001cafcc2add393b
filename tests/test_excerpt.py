"""Shortened text: head and tail, cut at line ends where there are some, and counts that add up."""

import re

from hypothesis import given, strategies as st

from cellhouse.excerpt import Excerpt, Shortened, shorten


def test_a_text_within_the_limit_is_whole() -> None:
    assert shorten("abc\n", 4, "x") == Shortened("abc\n", 4, 0, 0, 0)


def test_it_is_cut_at_line_ends() -> None:
    text = "".join(f"line {i}\n" for i in range(100))
    shown = shorten(text, 60, "here/stdout")
    assert shown.text == (
        "line 0\nline 1\nline 2\nline 3\n"
        "… 738 characters (93 lines) not shown; read here/stdout …\n"
        "line 97\nline 98\nline 99\n"
    )
    assert (shown.head_chars, shown.tail_chars, shown.omitted_chars, shown.omitted_lines) == (28, 24, 738, 93)


def test_one_long_line_is_cut_anywhere() -> None:
    shown = shorten("ä€😀" * 1_000 + "END", 10, "x")
    assert shown.text == "ä€😀ä€\n… 2993 characters (1 line) not shown; read x …\n€😀END"
    assert shown.head_chars + shown.tail_chars + shown.omitted_chars == 3_003


def test_a_limit_of_one_keeps_one() -> None:
    assert shorten("abc", 1, "x").text == "a\n… 2 characters (1 line) not shown; read x …\n"


def test_an_excerpt_of_many_small_parts_stays_small() -> None:
    excerpt = Excerpt(1_000, 501)
    for i in range(100_000):
        excerpt.add(f"{i}\n")
    assert excerpt.chars == sum(len(f"{i}\n") for i in range(100_000))
    assert excerpt.newlines == 100_000
    assert len(excerpt.head()) == 1_000
    assert 501 <= len(excerpt.tail()) < 501 + 6 * 513
    assert excerpt.render(1_000, "x").text.endswith("\n99999\n")


@given(st.lists(st.text("ab\n", max_size=30), max_size=30), st.integers(1, 60))
def test_parts_and_the_whole_are_shortened_alike(parts: list[str], limit: int) -> None:
    text = "".join(parts)
    excerpt = Excerpt(limit, limit // 2 + 1)
    for part in parts:
        excerpt.add(part)
    shown = excerpt.render(limit, "x")
    assert shown == shorten(text, limit, "x")
    assert shown.head_chars + shown.tail_chars + shown.omitted_chars == len(text)
    head, tail = text[: shown.head_chars], text[len(text) - shown.tail_chars :]
    if shown.omitted_chars:
        omitted = text[shown.head_chars : len(text) - shown.tail_chars]
        assert shown.omitted_lines == len(re.findall(r"[^\n]*\n|[^\n]+\Z", omitted))
        assert shown.head_chars + shown.tail_chars <= limit
        assert shown.text.startswith(head)
        assert shown.text.endswith(tail)
    else:
        assert shown.text == text
