"""Printable names: reversible for every name, and the paths that are refused."""

import json

import pytest
from hypothesis import given, strategies as st

from cellhouse.files import HostilePath, escape_name, exact_name, relative_path, unescape_name

NAMES = st.binary(min_size=1, max_size=60).filter(lambda raw: b"\0" not in raw)


@given(NAMES)
def test_every_name_comes_back(raw: bytes) -> None:
    shown = escape_name(raw)
    assert unescape_name(shown) == raw
    assert all(char.isprintable() or ord(char) > 127 for char in shown)
    json.dumps(shown, ensure_ascii=False).encode()


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=60))
def test_every_text_name_comes_back(text: str) -> None:
    assert unescape_name(escape_name(text.encode())) == text.encode()


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"plain name.csv", "plain name.csv"),
        ("Übergröße 表.png".encode(), "Übergröße 表.png"),
        (b"two\nlines", r"two\x0alines"),
        (b"\xff\xfe", r"\xff\xfe"),
        (b"back\\slash", r"back\\slash"),
        (b"\x1b[31mred", r"\x1b[31mred"),
        ("a\u202egnp.exe".encode(), r"a\xe2\x80\xaegnp.exe"),
        ("\u2028".encode(), r"\xe2\x80\xa8"),
        (b"ends in newline\n", r"ends in newline\x0a"),
    ],
)
def test_the_printable_form(raw: bytes, shown: str) -> None:
    assert escape_name(raw) == shown
    assert unescape_name(shown) == raw


@pytest.mark.parametrize(
    "path",
    [
        "",
        b"",
        "/etc/passwd",
        "..",
        "../x",
        "a/../../x",
        "a/..",
        ".",
        "./a",
        "a//b",
        "a/",
        b"a\0b",
        r"a\x00b",
        r"half\x4",
        r"what\n",
        "ends\\",
        "lone \ud800",
        "x" * 256,
        "/".join(["ab"] * 1_400),
    ],
)
def test_paths_that_are_refused(path: str | bytes) -> None:
    with pytest.raises(HostilePath):
        relative_path(path)


def test_dots_inside_a_name_are_fine() -> None:
    assert relative_path("..a/b..c/...") == b"..a/b..c/..."


@given(NAMES)
def test_an_exact_name_is_undone_too(raw: bytes) -> None:
    assert unescape_name(exact_name(raw)) == raw


def test_an_exact_name_is_the_name_itself_where_it_is_utf8() -> None:
    for name in ("a\nb.txt", "résumé final.txt", "cafe\u0301", "-rf", 'q?"<>*.txt', "😀.bin"):
        assert exact_name(name.encode()) == name
    assert exact_name(b"raw-\xff\\x") == "raw-\\xff\\\\x"
