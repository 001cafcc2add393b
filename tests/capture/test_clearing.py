"""What `clear_output` takes away, when, and how it is counted."""

from pathlib import Path
from typing import Any

import pytest

from cellhouse.messages import RawText
from tests.capture.rig import (
    clear,
    err,
    error,
    html,
    message,
    out,
    reasons,
    rig,
    settled,
    text_display,
    value,
)  # fmt: skip


def test_case_clear_rich(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        for i in range(3):
            made.feed(clear(wait=True), html(f"<b>frame {i}</b>"))
        captured = settled(made)
        assert reasons(captured) == ["OUTPUT_CLEARED", "OUTPUT_CLEARED", None]
        assert all(output.mime_types == ("text/html",) for output in captured.rich_outputs)
        assert "frame 2" in made.bundle(2)["data"]["text/html"]
        assert [file.name for file in made.file(2).parent.iterdir()] == ["out-002.json"]
        assert made.sink.types() == ["cleared", "display"] * 3
        assert all(event["wait"] is True for event in made.sink.of_type("cleared"))


def test_case_clear_wait_at_end(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(out("keep me\n"), clear(wait=True), message("status", {"execution_state": "idle"}))
        captured = settled(made)
        assert captured.stdout == "keep me\n"
        assert captured.cleared is None
        assert "cleared" not in made.sink.types()


@pytest.mark.parametrize("what", [out("x"), err("x"), html("x"), text_display("x"), value("x"), error()])
def test_a_clear_that_waits_comes_with_the_next_output(tmp_path: Path, what: Any) -> None:
    with rig(tmp_path) as made:
        made.feed(out("old\n"), err("older\n"), html("<b>"), value("value"), clear(wait=True), what)
        captured = settled(made)
        assert "old" not in captured.stdout + captured.stderr
        assert captured.cleared is not None
        assert (captured.cleared.stdout_chars, captured.cleared.stderr_chars) == (4, 6)
        assert reasons(captured)[0] == "OUTPUT_CLEARED"
        assert captured.result in ("", "x")
        assert made.sink.types()[4] == "cleared"


def test_clearing_at_once_takes_text_results_and_outputs(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(out("1\r22\n"), value("a"), value("b"), html("<b>"), clear())
        captured = settled(made)
        assert (captured.stdout, captured.result) == ("", "")
        assert captured.cleared is not None
        assert captured.cleared.stdout_chars == len("22\na\n")
        assert reasons(captured) == ["OUTPUT_CLEARED"]
        assert made.sink.of_type("cleared")[0]["wait"] is False
        assert made.sink.raw("stdout") == "1\r22\na\n"


def test_raw_text_counts_as_next_output(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(out("old\n"), clear(wait=True))
        made.recorder.feed_raw(RawText("stdout", b""))
        assert made.recorder.captured().stdout == "old\n"
        made.recorder.feed_raw(RawText("stdout", b"new"))
        assert settled(made).stdout == "new"
