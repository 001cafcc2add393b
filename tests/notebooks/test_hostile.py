"""Bundles that code rewrote, text of any kind, names that are markup: the notebook is valid all the same."""

import json
import time
from typing import Any

import nbformat
import pytest
from hypothesis import given, strategies as st

from cellhouse.model import DisplayEvent, ErrorEvent, Event, ExecutionError, NoticeEvent, Outcome
from cellhouse.model.result import Artifact
from cellhouse.notebooks import render
from cellhouse.notebooks.bundles import output_of
from cellhouse.notebooks.text import clean, coloured, folded, plain, quoted
from tests.notebooks.support import (
    Records,
    book_of,
    cell_of,
    note_of,
    notes,
    out,
    outputs_of,
    result_of,
    rich,
)

MEGABYTES_10 = 10_000_000


def valid(output: dict[str, Any]) -> None:
    """Fails where nbformat takes it for no output, or UTF-8 can't hold it."""
    cell: dict[str, Any] = {
        "cell_type": "code",
        "id": "x",
        "metadata": {},
        "source": "",
        "execution_count": None,
        "outputs": [output],
    }
    nbformat.validate({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    json.dumps(output, ensure_ascii=False, allow_nan=False).encode()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec=None)), inner),
    max_leaves=12,
)
_TYPES = st.sampled_from(
    ["text/html", "application/json", "a/b+json", "image/png", "no type", "x/\ud800", "<b>/x", ""]
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "data": st.dictionaries(_TYPES, _JSON) | _JSON, "metadata": _JSON, "output_type": _JSON, "cellhouse": _JSON,
        },
    )
)  # fmt: skip
def test_whatever_a_bundle_holds_the_output_is_valid_or_none(bundle: dict[str, Any]) -> None:
    output, faults = output_of(bundle, None)
    if output is None:
        assert faults
    else:
        valid(output)
        assert "cellhouse" not in output["metadata"]


@pytest.mark.parametrize(
    "bundle",
    [
        {},
        {"data": []},
        {"data": {"text/html": 3}},
        {"data": {"text/html": ["a", 1]}},
        {"data": {"../../x": "a"}},
        {"data": {"application/json": float("nan")}},
    ],
)
async def test_a_bundle_of_which_nothing_holds_is_a_note(bundle: dict[str, Any]) -> None:
    event = DisplayEvent(index=0, mime_types=("text/html",), size_bytes=1)
    records = Records([event], result_of(rich_outputs=(rich(0, "text/html"),)), bundles={0: bundle})
    (found,) = await outputs_of(records)
    assert note_of(found) == "invalid"


def test_what_is_nested_too_deep_is_left_out_and_the_rest_stays() -> None:
    deep: Any = 1
    for _ in range(500):
        deep = [deep]
    output, faults = output_of({"data": {"application/json": deep, "text/html": "x"}}, None)
    assert output is not None
    assert output["data"] == {"text/html": "x"}
    assert "deep" in faults[0]


def test_lines_of_a_text_are_joined_and_a_forged_note_is_none() -> None:
    bundle = {"data": {"text/html": ["a\n", "b"]}, "metadata": {"cellhouse": {"note": "outcome"}, "width": 3}}
    output, faults = output_of(bundle, 1)
    assert output == {"output_type": "display_data", "data": {"text/html": "a\nb"}, "metadata": {"width": 3}}
    assert faults == []


async def test_lone_surrogates_in_code_are_written_out_and_said() -> None:
    made = await cell_of(Records(code="x = '\ud800\0'"))
    assert made["source"] == "x = '\\ud800\0'"
    assert "surrogates" in notes(made["outputs"])[0]


async def test_texts_with_nul_and_escapes_survive_in_a_notebook() -> None:
    made = await book_of(Records([out("a\0\x1b[31mred\x1b[0m\x1b]0;title\x07\u2028")]))
    read = nbformat.reads(render(made, "ipynb"), as_version=4)  # type: ignore[no-untyped-call]
    assert read.cells[1].outputs[0].text == "a\0\x1b[31mred\x1b[0m\x1b]0;title\x07\u2028"


async def test_notes_quote_hostile_names_on_one_line_of_print() -> None:
    evil = "a\n# [x](javascript:y)\x1b[2J\0\u202e" + "z" * 5_000
    result = result_of(
        outcome=Outcome.KERNEL_DIED,
        execution_error=ExecutionError(name=evil, value=evil),
        artifacts=(Artifact(name=evil, bytes=1),),
        rich_outputs=(rich(0, evil),),
    )
    events: list[Event] = [
        NoticeEvent(reason="NEW", text=evil),
        DisplayEvent(index=0, mime_types=(evil,), size_bytes=1),
    ]
    for text in notes(await outputs_of(Records(events, result))):
        assert text.isprintable()
        assert len(text) < 3_000


async def test_a_line_of_ten_megabytes_is_folded_and_cut_in_no_time() -> None:
    began = time.monotonic()
    line = "x" * (MEGABYTES_10 // 2) + "\rab" * (MEGABYTES_10 // 8) + "\b" * 1_000_000
    events = [out(line[start : start + 65_536]) for start in range(0, len(line), 65_536)]
    found = await outputs_of(Records(events))
    assert sum(len(each.get("text", "")) for each in found) <= len(line)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\rb", "b"),
        ("abc\rx", "xbc"),
        ("abc\r\nd", "abc\nd"),
        ("abc\r", "abc"),
        ("ab\bc", "ac"),
        ("\b\ba", "a"),
        ("a\n\bb", "a\nb"),
        ("12345\r123\r1\n", "12345\n"),
        ("12345\rabc\rZ", "Zbc45"),
    ],
)
def test_carriage_returns_and_backspaces_are_applied(text: str, shown: str) -> None:
    assert folded(text) == shown


@given(st.text(st.sampled_from("ab\r\b\n")))
def test_folding_is_that_of_a_line_printer(text: str) -> None:
    lines = []
    for line in text.split("\n"):
        kept = ""
        for char in line:  # backspaces take back, but not the head's way to the line's beginning
            kept = (
                kept[:-1] if char == "\b" and kept[-1:] not in ("", "\r") else kept + char.replace("\b", "")
            )
        cells: list[str] = []
        for part in kept.split("\r"):
            cells[: len(part)] = part
        lines.append("".join(cells))
    assert folded(text) == "\n".join(lines)


@given(st.text(st.characters(codec=None)))
def test_cleaned_text_is_utf_8_and_plain_text_has_no_control_characters(text: str) -> None:
    clean(text).encode()
    assert quoted(text).isprintable()
    assert not any((ord(char) < 32 and char not in "\t\n") or 127 <= ord(char) < 160 for char in plain(text))


def test_only_colours_stay_of_escapes() -> None:
    text = "\x1b[1;31mred\x1b[0m\x1b[2J\x1b]52;c;AAAA\x07\x1b(B\x1b[\x07done"
    assert coloured(text) == "\x1b[1;31mred\x1b[0mdone"


async def test_an_error_of_any_text_is_valid() -> None:
    error = ErrorEvent(name="", value="\0", traceback=())
    (found,) = await outputs_of(Records([error]))
    assert found["traceback"] == [": \0"]
