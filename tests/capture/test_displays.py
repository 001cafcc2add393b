"""Updates of displays: in this execution and earlier ones, rich and text, gathered and bounded."""

from pathlib import Path

import pytest

from cellhouse.capture import outputs
from cellhouse.capture.displays import SHOWINGS, DisplayRegistry
from cellhouse.capture.updates import AT_ONCE_BYTES
from tests.capture.rig import (
    NAME,
    UID,
    FakeSink,
    clear,
    display,
    html,
    long,
    noticed,
    out,
    reasons,
    rig,
    settled,
    text_display,
    update,
    value,
)


def rich(text: object) -> dict[str, object]:
    return {"text/html": text}


# Rich


def test_an_update_rewrites_the_bundle_and_adds_no_index(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(html("<b>0</b>", "d"))
        made.clock.time += 1
        made.feed(update({"text/latex": "$1$"}, "d"))
        captured = settled(made)
        assert reasons(captured) == [None]
        assert captured.rich_outputs[0].mime_types == ("text/latex",)
        assert captured.rich_outputs[0].size_bytes == made.file(0).stat().st_size
        assert made.bundle(0)["data"] == {"text/latex": "$1$"}
        [event] = made.sink.of_type("displayUpdated")
        assert (event["execution"], event["index"], event["sizeBytes"]) == (
            NAME,
            0,
            str(made.file(0).stat().st_size),
        )
        assert [(kind, note["revision"]) for kind, note in made.sink.notes] == [("bundle", 0), ("bundle", 1)]


def test_updates_are_gathered_to_the_last_state(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(html("0", "d"))
        for i in range(1, 1_000):
            made.clock.time += 0.001
            made.feed(update(rich(f"{i}"), "d"))
            made.recorder.run_due()
        assert len(made.sink.of_type("displayUpdated")) == 19
        assert made.recorder.next_due() is not None
        settled(made)
        assert made.bundle(0)["data"]["text/html"] == "999"
        assert len(made.sink.of_type("displayUpdated")) == 20


def test_due_updates_are_written_when_their_time_comes(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(html("0", "a"))
        made.clock.time += 0.02
        made.feed(html("0", "b"), update(rich("1"), "b"), update(rich("1"), "a"), update(rich("2"), "a"))
        made.recorder.run_due()
        assert made.recorder.next_due() == pytest.approx(1_000.05)
        made.clock.time = 1_000.055
        made.recorder.run_due()
        assert (made.bundle(0)["data"], made.bundle(1)["data"]["text/html"]) == (rich("2"), "0")
        assert made.recorder.next_due() == pytest.approx(1_000.07)
        made.clock.time = 1_000.075
        made.recorder.run_due()
        assert made.bundle(1)["data"] == rich("1")
        assert made.recorder.next_due() is None


def test_a_big_update_is_written_at_once(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(html("0", "d"), update(rich("1"), "d"), update(rich(long("x" * AT_ONCE_BYTES)), "d"))
        assert len(made.bundle(0)["data"]["text/html"]) == AT_ONCE_BYTES
        assert made.recorder.next_due() is None


def test_what_waits_is_bounded(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        for i in range(40):
            made.feed(html("0", f"{i}"))
        for i in range(40):
            made.feed(update(rich("x" * 1_000_000), f"{i}"))
        assert len(made.sink.of_type("displayUpdated")) == 24
        for i in range(5_000):
            made.feed(update(rich(f"{i}"), f"{i % 40}"))
        assert len(made.recorder._outputs._updates._heap) < 200
        settled(made)
        assert made.bundle(39)["data"]["text/html"] == "4999"


def test_of_an_id_shown_several_times_all_are_updated(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(html("0", "d"), html("0", "d"), text_display("text", "d"))
        made.clock.time += 1
        made.feed(update(rich("1"), "d"))
        captured = settled(made)
        assert reasons(captured) == [None, None]
        assert made.bundle(0)["data"] == made.bundle(1)["data"] == rich("1")
        assert captured.stdout == "text\n"


def test_an_id_shown_very_often_is_updated_where_it_was_shown_last(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        for _ in range(SHOWINGS + 2):
            made.feed(html("0", "d"))
        made.clock.time += 1
        made.feed(update(rich("1"), "d"))
        captured = settled(made)
        assert made.bundle(1)["data"]["text/html"] == "0"
        assert made.bundle(2)["data"]["text/html"] == "1"
        assert noticed(captured) == ["UNKNOWN_DISPLAY"]


def test_of_very_many_displays_the_last_are_updated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "OWN_SHOWINGS", 3)
    with rig(tmp_path) as made:
        made.feed(html("0", "gone"), html("0", "twice"), html("0", "twice"), text_display("0", "text"))
        made.feed(html("0", "last"))
        gone, twice = made.displays.get("gone"), made.displays.get("twice")
        assert (len(gone.showings), len(twice.showings), twice.crowded) == (0, 1, True)
        made.clock.time += 1
        made.feed(update(rich("1"), "gone"), update(rich("1"), "twice"), update(rich("1"), "last"))
        captured = settled(made)
        assert [made.bundle(index)["data"]["text/html"] for index in range(4)] == ["0", "0", "1", "1"]
        assert ["nothing shows" in notice.text for notice in captured.notices] == [True, False]


def test_an_unknown_id_is_a_notice_once(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(
            update(rich("1"), "nobody"), update(rich("2"), "nobody"), update({"text/plain": "x"}, "other")
        )
        captured = settled(made)
        assert noticed(captured) == ["UNKNOWN_DISPLAY", "UNKNOWN_DISPLAY"]
        assert "'nobody'" in captured.notices[0].text
        assert captured.stdout == ""


def test_an_update_of_an_earlier_execution(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(html("a longer one", "d"), html("other"))
        first, recorder = made.sink, made.recorder
        made.next_execution()
        for text in ("1", "22"):
            made.clock.time += 1
            made.feed(update(rich(text), "d"))
        captured = settled(made)
        assert captured.rich_outputs == ()
        assert made.bundle(0, UID)["data"] == rich("22")
        assert [(event["execution"], event["index"]) for event in made.sink.of_type("displayUpdated")] == [
            (NAME, 0),
            (NAME, 0),
        ]
        size = made.file(0, UID).stat().st_size
        assert first.notes[-1][0] == "revision"
        assert first.notes[-1][1] | {"sha256": ""} == {
            "index": 0,
            "revision": 2,
            "sizeBytes": size,
            "sha256": "",
        }
        assert made.sink.notes == []
        assert "displayUpdated" not in first.types()
        assert recorder.captured().rich_outputs[0].mime_types == ("text/html",)


def test_an_earlier_output_keeps_its_state_where_the_newer_can_not_be_written(tmp_path: Path) -> None:
    with rig(tmp_path, bundle_bytes=200) as made:
        made.feed(html("0", "d"))
        made.next_execution()
        for data in (rich("x" * 200), {"image/png": "§"}):
            made.clock.time += 1
            made.feed(update(data, "d"))
        captured = settled(made)
        assert made.bundle(0, UID)["data"]["text/html"] == "0"
        assert [event["errorInfo"]["reason"] for event in made.sink.of_type("displayUpdated")] == [
            "OUTPUT_TOO_LARGE",
            "INVALID_OUTPUT",
        ]
        assert noticed(captured) == ["OUTPUT_TOO_LARGE", "INVALID_OUTPUT"]


def test_an_output_of_this_execution_shows_its_last_state_or_says_why_not(tmp_path: Path) -> None:
    with rig(tmp_path, bundle_bytes=200) as made:
        made.feed(html("0", "d"))
        made.clock.time += 1
        made.feed(update(rich("x" * 200), "d"))
        assert reasons(made.recorder.captured()) == ["OUTPUT_TOO_LARGE"]
        made.clock.time += 1
        made.feed(update(rich("1"), "d"))
        assert reasons(settled(made)) == [None]


def test_an_earlier_output_whose_record_is_full(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(html("0", "d"))
        first = made.sink
        made.next_execution()
        first.full = True
        made.clock.time += 1
        made.feed(update(rich("1"), "d"))
        assert noticed(settled(made)) == ["DISK_FULL"]
        assert made.bundle(0, UID)["data"] == rich("1")


def test_an_earlier_output_whose_record_was_evicted(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(html("0", "d"))
        made.sink.evicted = True
        made.next_execution()
        made.clock.time += 1
        made.feed(update(rich("1"), "d"))
        assert settled(made).notices == ()
        assert made.bundle(0, UID)["data"] == rich("1")


def test_what_was_cleared_is_shown_by_nobody(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(html("0", "d"), text_display("t", "e"), update(rich("waits"), "d"), clear())
        made.feed(update(rich("1"), "d"), update({"text/plain": "u"}, "e"))
        captured = settled(made)
        assert reasons(captured) == ["OUTPUT_CLEARED"]
        assert not made.file(0).exists()
        assert noticed(captured) == ["UNKNOWN_DISPLAY", "UNKNOWN_DISPLAY"]
        assert captured.stdout == ""


def test_a_cleared_id_may_be_shown_again(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(html("0", "d"), clear(), html("1", "d"))
        made.clock.time += 1
        made.feed(update(rich("2"), "d"))
        captured = settled(made)
        assert reasons(captured) == ["OUTPUT_CLEARED", None]
        assert made.bundle(1)["data"] == rich("2")
        assert captured.notices == ()


# Text


def test_case_update_text_only(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(text_display("12 of 40", "d"), out("running\n"), update({"text/plain": "40 of 40"}, "d"))
        assert made.recorder.captured().stdout == "40 of 40\nrunning\n"
        assert made.sink.raw("stdout") == "12 of 40\nrunning\n40 of 40\n"
        made.next_execution()
        made.feed(out("second\n"), update({"text/plain": "late: 41 of 40"}, "d"), out("on\n"))
        assert made.recorder.captured().stdout == "second\nlate: 41 of 40\non\n"
        made.feed(update({"text/plain": "42"}, "d"))
        captured = settled(made)
        assert captured.stdout == "second\n42\non\n"
        assert captured.rich_outputs == ()
        assert captured.notices == ()


def test_a_display_of_nothing_keeps_a_place_for_its_updates(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(out("a\n"), display({}, "text"), display({}, "rich"), out("10%\r20%\n"))
        assert made.recorder.captured().stdout == "a\n20%\n"
        made.feed(update({"text/plain": "shown"}, "text"), update({"text/html": "<b>"}, "rich"))
        made.feed(update({"text/plain": "last"}, "text"))
        captured = settled(made)
        assert captured.stdout == "a\nlast\n20%\n"
        assert made.sink.raw("stdout") == "a\n10%\r20%\nshown\nlast\n"
        assert reasons(captured) == [None]
        assert captured.notices == ()


def test_text_shown_twice_is_updated_twice_and_sent_once(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(text_display("a", "d"), text_display("a", "d"), update({"text/plain": "b"}, "d"))
        captured = settled(made)
        assert captured.stdout == "b\nb\n"
        assert made.sink.raw("stdout") == "a\na\nb\n"


def test_an_update_too_long_for_its_place_is_appended(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(text_display("a", "d"), out("b\n"), update({"text/plain": long("x" * 100_000)}, "d"))
        made.feed(update({"text/plain": "end"}, "d"))
        captured = settled(made)
        assert captured.stdout.startswith("a\nb\nxxx")
        assert captured.stdout.endswith("xxx\nend\n")
        assert made.sink.raw("stdout") == "a\nb\n" + "x" * 100_000 + "\nend\n"


def test_an_update_of_text_that_was_written_over_is_printed(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(text_display("a", "d"), out("\x1b[A\x1b[2Kover\n"), update({"text/plain": "b"}, "d"))
        made.feed(update({"text/plain": "c"}, "d"))
        assert settled(made).stdout == "over\nc\n"


def test_text_updated_to_rich_becomes_an_output_of_its_own(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(text_display("loading", "d"), update(rich("1"), "d"))
        made.clock.time += 1
        made.feed(update(rich("2"), "d"), update({"text/plain": "done"}, "d"))
        captured = settled(made)
        assert captured.stdout == "done\n"
        assert reasons(captured) == [None]
        assert made.bundle(0)["data"] == rich("2")
        assert made.sink.types() == ["stream", "display", "displayUpdated", "stream"]


def test_rich_updated_to_text_keeps_both(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(
            html("0", "d"),
            out("a\n"),
            update({"text/plain": "1"}, "d"),
            out("b\n"),
            update({"text/plain": "2"}, "d"),
        )
        captured = settled(made)
        assert captured.stdout == "a\n2\nb\n"
        assert captured.rich_outputs[0].mime_types == ("text/html",)
        assert made.bundle(0)["data"]["text/html"] == "0"


def test_a_value_with_an_id_can_be_updated(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(display({"text/plain": "5"}, "d", kind="execute_result"), update({"text/plain": "6"}, "d"))
        captured = settled(made)
        assert captured.result == "5"
        assert captured.stdout == "6\n"
        assert value("x").content["data"] == {"text/plain": "x"}


def test_a_thousand_text_updates_keep_their_place(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(text_display("0", "d"), out("x\n"))
        for i in range(1_000):
            made.feed(update({"text/plain": f"{i} of 1000"}, "d"))
        assert settled(made).stdout == "999 of 1000\nx\n"


# The registry


def test_the_longest_unused_id_is_forgotten_first() -> None:
    registry = DisplayRegistry(2)
    for name in ("a", "b"):
        registry.get(name)
    registry.get("a")
    registry.get("c")
    assert len(registry) == 2
    assert registry.find("a") is None  # nothing shows it
    assert list(registry._displays) == ["a", "c"]


def test_ids_of_any_length_take_few_bytes(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        ids = ["x" * 100_000 + "\ud800", "x" * 100_000]
        made.feed(html("0", ids[0]), html("0", ids[1]))
        made.clock.time += 1
        made.feed(update(rich("1"), ids[0]))
        settled(made)
        assert (made.bundle(0)["data"]["text/html"], made.bundle(1)["data"]["text/html"]) == ("1", "0")
        assert all(len(key) < 130 for key in made.displays._displays)


def test_more_ids_than_are_remembered(tmp_path: Path) -> None:
    with rig(tmp_path, display_ids=10) as made:
        for i in range(20):
            made.feed(html("0", f"{i}"))
        made.clock.time += 1
        made.feed(update(rich("1"), "5"), update(rich("1"), "15"))
        captured = settled(made)
        assert noticed(captured) == ["UNKNOWN_DISPLAY"]
        assert made.bundle(15)["data"] == rich("1")


def test_the_registry_outlives_many_executions(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        sinks: list[FakeSink] = []
        for i in range(20):
            made.feed(html("0", "d"))
            sinks.append(made.sink)
            made.recorder.settle(reply_error=False)
            made.sink = FakeSink()
            made.recorder = made.new(f"{i + 2:032x}", f"{NAME}-{i}", made.sink)
        made.clock.time += 1
        made.feed(update(rich("1"), "d"))
        assert all(sink.notes[-1][0] == "revision" for sink in sinks)
        assert len(made.sink.of_type("displayUpdated")) == 20
