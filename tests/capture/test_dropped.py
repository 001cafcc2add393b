"""Displays that a native kernel dropped at the source: told as those that are dropped here."""

from pathlib import Path
from typing import Any

import pytest

from cellhouse.capture.bundle import Bundle
from cellhouse.capture.ledger import DROPS
from cellhouse.messages import Message
from cellhouse.model import CaptureLimits, DropReason, Late, NoticeReason
from tests.capture.rig import (
    Rig,
    clear,
    display,
    dropped,
    html,
    long,
    message,
    noticed,
    out,
    reasons,
    rig,
    settled,
    update,
)

TOO_LARGE = DropReason.OUTPUT_TOO_LARGE
INVALID = DropReason.INVALID_OUTPUT
LIMIT = 1_000
LARGE = {"text/html": "x" * 5_000, "image/svg+xml": "<svg></svg>", "text/plain": "plain"}
TYPES = ("text/html", "text/plain", "image/svg+xml")
FIGURES: tuple[Any, ...] = (None, 0, -1, True, 1.5, float("nan"), "5000", [1], {}, 2**63, 10**5_000)
KINDS = ("display_data", "execute_result", "update_display_data")


def whole_and_dropped(kind: str, display_id: Any = None) -> tuple[Message, Message]:
    """A display that comes whole and is too large, and what a native kernel sends in its place."""
    whole = display(LARGE, display_id, kind, execution_count=3)
    shape: Any = "execute_result" if kind == "execute_result" else "display_data"
    size = Bundle(whole.content, shape, CaptureLimits()).size
    data = {"data": {"text/plain": "plain"}} if kind == "execute_result" else {}
    return whole, dropped(*TYPES, kind=kind, display_id=display_id, sizeBytes=size, limitBytes=LIMIT, **data)


def _same(made: Rig, other: Rig) -> None:
    assert made.recorder.captured() == other.recorder.captured()
    assert made.sink.events == other.sink.events
    assert made.sink.notes == other.sink.notes
    assert len(made.displays) == len(other.displays)
    assert sorted(made.path.rglob("*.json")) == [
        made.path / file.relative_to(other.path) for file in sorted(other.path.rglob("*.json"))
    ]


@pytest.mark.parametrize("display_id", [None, "d"])
@pytest.mark.parametrize("before", ["nothing", "rich", "text", "cleared", "an earlier execution"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_told_as_what_is_dropped_here(
    tmp_path: Path, kind: str, before: str, display_id: str | None
) -> None:
    """The same ledger, events, notices, files and registry, whatever came before and comes behind it."""
    paths = tmp_path / "whole", tmp_path / "dropped"
    for path in paths:
        path.mkdir()
    small = {"text/html": "1", "text/plain": "one"}
    with rig(paths[0], bundle_bytes=LIMIT) as whole, rig(paths[1], bundle_bytes=LIMIT) as source:
        for made, large in zip((whole, source), whole_and_dropped(kind, display_id), strict=True):
            if before == "text":
                made.feed(display({"text/plain": "0"}, "d"))
            elif before != "nothing":
                made.feed(html("0", "d"))
            if before == "cleared":
                made.feed(clear())
            elif before == "an earlier execution":
                made.next_execution()
            made.clock.time += 1
            made.feed(out("a\n"), large, out("b\n"))
        _same(source, whole)
        for made in (whole, source):
            made.clock.time += 1
            made.feed(update(small, "d"))
        _same(source, whole)
        for made, large in zip((whole, source), whole_and_dropped(kind, display_id), strict=True):
            made.feed(large, clear(), html("2", "d"), large)
            made.recorder.settle(reply_error=False)
        _same(source, whole)


def test_an_entry_of_the_ledger(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(dropped("text/html", "text/plain", "image/png"))
        captured = settled(made)
        (output,) = captured.rich_outputs
        assert output.mime_types == ("text/html", "image/png")
        assert output.error_info is not None
        assert output.error_info.reason == TOO_LARGE
        assert output.error_info.metadata == {"sizeBytes": "5000", "limitBytes": "1000"}
        assert (output.file_path, captured.notices) == (None, ())
        (event,) = made.sink.of_type("display")
        assert event["errorInfo"]["metadata"] == {"sizeBytes": "5000", "limitBytes": "1000"}
        assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize("text", ["plain", long("plain"), ["pl", "ain"]])
def test_the_value_is_shown_all_the_same(tmp_path: Path, text: Any) -> None:
    with rig(tmp_path) as made:
        made.feed(dropped("text/html", kind="execute_result", data={"text/plain": text}))
        captured = settled(made)
        assert captured.result == "plain"
        assert reasons(captured) == [TOO_LARGE]
        assert made.sink.types() == ["result", "display"]


def test_a_value_without_text_is_an_empty_one(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(dropped("text/html", kind="execute_result"))
        assert made.sink.types() == ["result", "display"]
        assert settled(made).result == ""


def test_no_budget_is_used(tmp_path: Path) -> None:
    with rig(tmp_path, written_outputs=2, bundles_bytes=6_000) as made:
        made.feed(*[dropped("text/html", display_id="d") for _ in range(5)])
        made.feed(html("0"), html("1"), html("2"))
        assert reasons(settled(made)) == [TOO_LARGE] * 5 + [None, None, DropReason.TOO_MANY_OUTPUTS]


def test_a_dropped_one_is_shown_once_it_is_small_enough(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(dropped("text/html", display_id="d"))
        made.clock.time += 1
        made.feed(update({"text/html": "1"}, "d"))
        assert reasons(made.recorder.captured()) == [None]
        made.clock.time += 1
        made.feed(dropped("text/html", display_id="d", kind="update_display_data"))
        assert reasons(made.recorder.captured()) == [TOO_LARGE]
        assert not list(tmp_path.rglob("*.json"))
        updates = made.sink.of_type("displayUpdated")
        assert [event.get("errorInfo", {}).get("reason") for event in updates] == [None, TOO_LARGE]


def test_text_that_was_shortened_is_shown_and_said(tmp_path: Path) -> None:
    """A display of nothing but text is none of the ledger's."""
    with rig(tmp_path) as made:
        text = {"data": {"text/plain": "0123 …"}}
        made.feed(dropped("text/plain", **text), dropped("text/plain", kind="execute_result", **text))
        captured = settled(made)
        assert (captured.stdout, captured.result) == ("0123 …\n", "0123 …")
        assert captured.rich_outputs == ()
        assert noticed(captured) == [TOO_LARGE]
        assert "5000 bytes" in captured.notices[0].text
        assert "1000 bytes" in captured.notices[0].text


def test_text_that_was_dropped_is_said(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(dropped("text/plain"), dropped("text/plain", kind="execute_result"))
        captured = settled(made)
        assert (captured.stdout, captured.result, captured.rich_outputs) == ("", "", ())
        assert noticed(captured) == [TOO_LARGE]
        assert "dropped" in captured.notices[0].text


# Hostile


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": None},
        {"kind": "stream"},
        {"kind": ["display_data"]},
        {"kind": {}},
        {"kind": long("display_data")},
        {"kind": "update_display_data"},
        {"kind": "update_display_data", "transient": {"display_id": 3}},
        {"kind": "update_display_data", "transient": [1]},
        {"mimeTypes": None},
        {"mimeTypes": "text/html"},
        {"mimeTypes": {"text/html": 1}},
        {"mimeTypes": []},
        {"mimeTypes": ["text/plain"], "reason": "?"},
        {"mimeTypes": ["text/plain"] * 100_000},
        {"mimeTypes": ["text/plain"], "data": {"text/plain": 3}},
    ],
)
def test_what_cannot_be_used_is_said(tmp_path: Path, fields: dict[str, Any]) -> None:
    with rig(tmp_path) as made:
        made.feed(dropped("text/html", **fields), dropped("text/html", **fields))
        captured = settled(made)
        assert noticed(captured) == [NoticeReason.MALFORMED_MESSAGE]
        assert captured.rich_outputs == ()
        assert len(captured.notices[0].text) <= 400


@pytest.mark.parametrize(
    "fields",
    [
        {"reason": None},
        {"reason": "DISK_FULL"},
        {"reason": ["OUTPUT_TOO_LARGE"]},
        *[{name: figure} for name in ("sizeBytes", "limitBytes") for figure in FIGURES],
        {"mimeTypes": [3, None, ["a/b"], {}]},
        {"mimeTypes": ["no type", "ä/b", "a/" + "b" * 1_000_000, long("a/b")]},
        {"mimeTypes": [f"a/{n}" for n in range(100_000)]},
        {"mimeTypes": ["a/b"] * 100_000},
        {"sizeBytes": -1, "limitBytes": {}, "reason": 3, "mimeTypes": [1, "a/b"], "data": 3, "transient": 3},
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_hold_is_an_invalid_output(tmp_path: Path, fields: dict[str, Any], kind: str) -> None:
    with rig(tmp_path) as made:
        made.feed(html("0", "d"))
        made.clock.time += 1
        made.feed(dropped("text/html", **{"kind": kind, "display_id": "d", **fields}))
        captured = settled(made)
        if kind == "update_display_data" and "transient" in fields:
            assert noticed(captured) == [NoticeReason.MALFORMED_MESSAGE]
            return
        assert reasons(captured)[1:] == ([] if kind == "update_display_data" else [INVALID])
        output = captured.rich_outputs[-1]
        assert output.error_info is not None
        assert output.error_info.reason == INVALID
        assert 0 < len(output.error_info.metadata["cause"]) <= 200
        assert len(output.mime_types) <= CaptureLimits().mime_types
        assert all(len(name) <= CaptureLimits().mime_type_chars for name in output.mime_types)


def test_a_part_that_does_not_hold_is_left_out(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(
            dropped("text/html", "no type", 3), dropped("text/html", data={"text/plain": 3}, transient=4)
        )
        captured = settled(made)
        assert [output.mime_types for output in captured.rich_outputs] == [("text/html",)] * 2
        assert reasons(captured) == [TOO_LARGE, TOO_LARGE]
        assert noticed(captured) == [INVALID, INVALID]


def test_any_number_of_figures_is_remembered_in_bounds(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        for number in range(1, DROPS + 101):
            made.feed(dropped("text/html", limitBytes=number))
        outputs = settled(made).rich_outputs
        limits = [output.error_info.metadata.get("limitBytes") for output in outputs if output.error_info]
        assert limits == [str(number) for number in range(1, DROPS + 1)] + [None] * 100
        assert reasons(made.recorder.captured()) == [TOO_LARGE] * (DROPS + 100)


def test_one_that_cannot_be_read(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(message("display_dropped", defect="not JSON"), message("display_dropped"))
        assert noticed(settled(made)) == [NoticeReason.MALFORMED_MESSAGE] * 2


# After the end


def test_a_late_one_is_told_and_counted(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(html("0", "d"))
        made.recorder.settle(reply_error=False)
        made.sink.events.clear()
        late = made.recorder.late()
        for kind in KINDS:
            late.feed(dropped(*TYPES, kind=kind, display_id="d"))
        late.feed(dropped("text/html", kind="update_display_data", display_id="unknown"))
        late.feed(dropped("text/html", sizeBytes="x"))
        late.feed(dropped("text/plain", data={"text/plain": "shortened"}))
        late.feed(dropped("text/html", kind=[]))
        late.feed(dropped(mimeTypes=3))
        events = [event.to_wire() for event in made.sink.events]
        for event in events[:3]:
            assert (event["mimeTypes"], event["sizeBytes"]) == (["text/html", "image/svg+xml"], "5000")
        assert events[3]["mimeTypes"] == ["text/html"]
        assert events[4]["text"] == "shortened\n"
        assert len(events) == 5
        assert late.late == Late(stdout_bytes=10, stderr_bytes=0, displays=4)
        assert made.bundle(0)["data"]["text/html"] == "0"
        assert made.sink.notes[-1][0] == "bundle"
