"""Payloads of replies, malformed messages, and the notices that they become."""

from pathlib import Path
from typing import Any

import pytest

from cellhouse.capture.emit import INPUTS_BESIDE, PROMPT_CHARS, PROMPT_CHARS_BESIDE
from tests.capture.rig import (
    display,
    long,
    message,
    noticed,
    out,
    rig,
    settled,
)  # fmt: skip


def test_case_help_payload(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        page = {
            "source": "page",
            "data": {"text/plain": "\x1b[31mDocstring:\x1b[39m to be seen\n"},
            "start": 0,
        }
        made.recorder.feed_payload(
            [page, {"source": "ask_exit"}, {"source": "page", "data": {"text/html": "<b>"}}, 3]
        )
        made.recorder.feed_payload("garbage")
        captured = settled(made)
        assert captured.stdout == "Docstring: to be seen\n"
        assert made.sink.of_type("stream")[0]["source"] == "pager"
        assert captured.rich_outputs[0].mime_types == ("text/html",)


def test_next_input_is_a_notice(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.recorder.feed_payload(
            [
                {"source": "set_next_input", "text": "x = 1"},
                {"source": "set_next_input", "text": long("y" * 999)},
            ]
        )
        [first, second] = settled(made).notices
        assert (first.reason, first.text) == ("SET_NEXT_INPUT", "the code proposes as next input: x = 1")
        assert second.text.endswith("…")


def test_notices_are_said_once_and_bounded(tmp_path: Path) -> None:
    with rig(tmp_path, notices=10, notice_chars=200) as made:
        for i in range(100):
            made.feed(message("display_data", defect=f"why {i}"), message("display_data", defect="why 0"))
        for i in range(3):
            made.recorder.notice("FRESH_KERNEL", f"{i}")
            made.recorder.notice("FRESH_KERNEL", f"{i}")
        captured = settled(made)
        assert noticed(captured) == ["MALFORMED_MESSAGE"] * 5 + ["NOTICE_LIMIT"] + ["FRESH_KERNEL"] * 3
        for i in range(20):
            made.recorder.notice("OUTPUT_LOST", f"{i} " + "x" * 500)
        notices = made.recorder.captured().notices
        assert len(notices) == 10
        assert notices[-1].reason == "NOTICE_LIMIT"
        assert all(len(notice.text) < 300 for notice in notices)
        assert made.sink.types().count("notice") == 10


@pytest.mark.parametrize(
    "garbage",
    [
        message("stream", {"name": "stdout", "text": 3}),
        message("stream", {"name": "stdout"}),
        message("display_data", {"data": [1]}),
        message("display_data", {}),
        message("display_data", {"data": {"text/plain": 3}}),
        message("execute_result", {"data": "x"}),
        message("update_display_data", {"data": {"text/plain": "x"}}),
        message("update_display_data", {"data": {"text/plain": "x"}, "transient": {"display_id": 3}}),
        message("update_display_data", {"data": {"text/plain": "x"}, "transient": "x"}),
        message("error", defect="deeper than 200 levels"),
    ],
)
def test_malformed_messages_are_notices(tmp_path: Path, garbage: Any) -> None:
    with rig(tmp_path) as made:
        made.feed(garbage, garbage)
        assert noticed(settled(made)) == ["MALFORMED_MESSAGE"]


def test_text_of_a_stream_without_a_name_is_not_lost(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(out("text\n", name="stdlog"), out(["a\n", "b\n"]), out("", name="stdout"))
        captured = settled(made)
        assert captured.stdout == "text\na\nb\n"
        assert noticed(captured) == ["MALFORMED_MESSAGE"]


def test_a_display_of_nothing_is_nothing(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(display({}), display({}, kind="execute_result"))
        captured = settled(made)
        assert made.sink.events == []
        assert captured.rich_outputs == ()


def test_after_settle_only_the_late_recorder_takes_more(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        with pytest.raises(RuntimeError, match="not settled"):
            made.recorder.late()
        made.recorder.settle(reply_error=False)
        with pytest.raises(RuntimeError, match="late"):
            made.feed(out("x"))


def test_a_request_for_input_is_an_event_and_a_long_prompt_says_that_it_is_cut(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        assert made.recorder.input_requested("how many? ", False)
        assert made.recorder.input_requested("p" * PROMPT_CHARS, True)
        assert made.recorder.input_requested("\ud800" + "p" * PROMPT_CHARS, False)
        short, whole, cut = made.sink.of_type("inputRequested")
        assert (short["prompt"], short.get("password", False)) == ("how many? ", False)
        assert (whole["prompt"], whole["password"]) == ("p" * PROMPT_CHARS, True)
        assert cut["prompt"].startswith("\\ud800ppp")
        assert cut["prompt"].endswith("it is cut here)")
        assert noticed(settled(made)) == []


def test_requests_for_input_are_bounded(tmp_path: Path) -> None:
    with rig(tmp_path, event_text_bytes=10_000) as made:
        prompt = "p" * PROMPT_CHARS
        answers = [made.recorder.input_requested(prompt, False) for _ in range(INPUTS_BESIDE + 4)]
        assert answers == [True] * (INPUTS_BESIDE + 2) + [False] * 2
        asked = [len(event["prompt"]) for event in made.sink.of_type("inputRequested")]
        assert asked[:2] == [PROMPT_CHARS] * 2
        assert max(asked[2:]) < PROMPT_CHARS_BESIDE + 64
        assert len(asked) == INPUTS_BESIDE + 2
        assert noticed(settled(made)) == ["EVENT_TEXT_LIMIT", "INPUT_UNANSWERED"]


def test_code_that_printed_much_may_still_ask(tmp_path: Path) -> None:
    with rig(tmp_path, event_text_bytes=100) as made:
        made.feed(out("x" * 1_000))
        assert made.recorder.input_requested("and? ", False)
        assert [event["prompt"] for event in made.sink.of_type("inputRequested")] == ["and? "]


def test_a_request_for_input_on_a_full_disk(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.sink.full = True
        assert not made.recorder.input_requested("? ", False)
        assert noticed(settled(made)) == ["DISK_FULL", "INPUT_UNANSWERED"]
