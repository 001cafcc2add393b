"""Values against their MIME types: base64, SVG as text, strict JSON."""

import base64

import pytest

from cellhouse.capture.mime import (
    InvalidValue,
    Kind,
    check_base64,
    checked_text,
    chunks_of,
    is_mime_type,
    kind_of,
)
from tests.capture.rig import long

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9"/>'


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("image/png", Kind.BINARY),
        ("image/PNG", Kind.BINARY),
        ("image/webp", Kind.BINARY),
        ("application/pdf", Kind.BINARY),
        ("audio/wav", Kind.BINARY),
        ("video/mp4; codecs=x", Kind.BINARY),
        ("image/svg+xml", Kind.TEXT),
        ("application/xhtml+xml", Kind.TEXT),
        ("text/html", Kind.TEXT),
        ("text/latex", Kind.TEXT),
        ("application/javascript", Kind.TEXT),
        ("application/vnd.unknown", Kind.TEXT),
        ("application/json", Kind.JSON),
        ("application/geo+json", Kind.JSON),
        ("application/vnd.plotly.v1+json", Kind.JSON),
        ("application/vnd.jupyter.widget-view+json", Kind.JSON),
        ("application/jsonish", Kind.TEXT),
    ],
)
def test_kinds(name: str, kind: Kind) -> None:
    assert kind_of(name) is kind


@pytest.mark.parametrize("text", ["", "QUJD", "QUI=", "QQ==", "QUJD\nQUJD\n", "QQ\n=\n=", "+/+/"])
def test_base64(text: str) -> None:
    check_base64([text])
    check_base64(list(text))


@pytest.mark.parametrize(
    "text",
    ["Q", "QUJ", "QQ=", "QQ===", "Q=Q=", "QQ==QQ==", "not base64 at all: §§§", "QUJ-", "QUJ_", "=", "é"],
)
def test_not_base64(text: str) -> None:
    with pytest.raises(InvalidValue):
        check_base64([text])
    with pytest.raises(InvalidValue):
        check_base64(list(text))


def test_long_base64_is_checked_chunk_by_chunk() -> None:
    good = base64.b64encode(bytes(range(256)) * 1_000).decode()
    checked_text("image/png", long(good))
    with pytest.raises(InvalidValue):
        checked_text("image/png", long(good + "§"))


@pytest.mark.parametrize("text", [SVG, "\ufeff  <?xml version='1.0'?>" + SVG, "<!-- a -->" + SVG])
def test_svg_text_stays_and_svg_bytes_become_text(text: str) -> None:
    assert checked_text("image/svg+xml", text) == text
    encoded = base64.b64encode(text.encode()).decode()
    assert checked_text("image/svg+xml", encoded + "\n") == text.removeprefix("\ufeff")
    assert checked_text("image/svg+xml", long(encoded)) == text.removeprefix("\ufeff")


@pytest.mark.parametrize(
    "text", ["", "QUJD", "plain words", "QQ", base64.b64encode(b"\xff\xfe<svg").decode()]
)
def test_svg_that_is_neither(text: str) -> None:
    with pytest.raises(InvalidValue):
        checked_text("image/svg+xml", text)


def test_text_may_be_a_list_of_strings() -> None:
    lines = ["<b>", long("x" * 70_000), "</b>"]
    assert "".join(chunks_of(checked_text("text/html", lines))) == "<b>" + "x" * 70_000 + "</b>"


@pytest.mark.parametrize("value", [None, 3, {"a": 1}, ["a", 1], b"bytes", True])
def test_text_that_is_none(value: object) -> None:
    with pytest.raises(InvalidValue):
        checked_text("text/html", value)


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("text/html", True),
        ("application/vnd.x.v1+json", True),
        ("text/html; charset=utf-8", True),
        ("html", False),
        ("", False),
        ("text/", False),
        ("text/ht\nml", False),
        ("text/é", False),
        ("text/" + "x" * 300, False),
        (3, False),
        (None, False),
    ],
)
def test_names(name: object, good: bool) -> None:
    assert is_mime_type(name, 256) is good
