"""The recorder, message by message: what each does to the events and to the result."""

from pathlib import Path
from typing import Any

import pytest

from cellhouse.capture import Captured
from cellhouse.messages import RawText
from tests.capture.rig import (
    PNG,
    UID,
    FakeSink,
    Rig,
    clear,
    display,
    err,
    error,
    html,
    long,
    message,
    out,
    rig,
    text_display,
    update,
    value,
)


def settled(made: Rig, *, reply_error: bool = False) -> Captured:
    made.recorder.settle(reply_error=reply_error)
    return made.recorder.captured()


def reasons(captured: Captured) -> list[str | None]:
    outputs = captured.rich_outputs
    assert [output.index for output in outputs] == list(range(len(outputs)))
    return [str(output.error_info.reason) if output.error_info else None for output in outputs]


def noticed(captured: Captured) -> list[str]:
    return [notice.reason for notice in captured.notices]


# Streams


def test_streams_are_events_raw_and_a_result_folded(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(out("1\r"), err("warn\n"), out("\x1b[31m2\x1b[0m\n"))
        captured = settled(made)
        assert (captured.stdout, captured.stderr, captured.result) == ("2\n", "warn\n", "")
        assert made.sink.raw("stdout") == "1\r\x1b[31m2\x1b[0m\n"
        assert [event.to_wire() for event in made.sink.events][0] == {
            "seq": 1, "time": "2031-01-01T00:00:00.000Z", "type": "stream", "name": "stdout", "text": "1\r",
        }  # fmt: skip
        assert not captured.output_truncated
        assert captured.truncation is None
        assert captured.cleared is None
        assert captured.rich_outputs == ()
        assert captured.rich_outputs_dropped is False
        assert captured.notices == ()


def test_status_input_echo_and_comm_traffic_are_no_output(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        for kind in (
            "status",
            "execute_input",
            "comm_open",
            "comm_msg",
            "comm_close",
            "debug_event",
            "nonsense",
        ):
            made.feed(message(kind, {"data": {"text/html": "x"}, "text": "x"}))
        made.feed(message("stream", {"name": "stdout", "text": "x"}, channel="shell"))
        assert settled(made).stdout == ""
        assert made.sink.events == []


def test_a_pair_and_a_character_cut_in_two_are_whole(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(out("a\ud83d"), err("between"), out("\ude00b"))
        made.recorder.feed_raw(RawText("stdout", b"c\xe2\x82"))
        made.recorder.feed_raw(RawText("stdout", b"\xac\xff"))
        made.feed(out("\ud800"))
        captured = settled(made)
        assert captured.stdout == "a😀bc€\ufffd\\ud800"
        assert captured.stderr == "between"
        assert made.sink.raw("stdout") == captured.stdout


def test_text_from_the_descriptors_says_so(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.recorder.feed_raw(RawText("stderr", b"Fatal Python error: Segmentation fault\n"))
        assert settled(made).stderr == "Fatal Python error: Segmentation fault\n"
        assert made.sink.of_type("stream")[0]["source"] == "fd"


def test_stream_events_are_split(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(out(long("€" * 100_000)))
        texts = [event["text"] for event in made.sink.of_type("stream")]
        assert "".join(texts) == "€" * 100_000
        assert max(len(text.encode()) for text in texts) <= 65_536


def test_case_huge_stdout(tmp_path: Path) -> None:
    rows = [f"row {i} {'x' * 60}\n" for i in range(30_000)]
    with rig(tmp_path) as made:
        for start in range(0, 30_000, 1_000):
            made.feed(out("".join(rows[start : start + 1_000])))
        made.feed(out("FINAL ANSWER 42\n"))
        captured = settled(made)
        assert captured.output_truncated
        assert captured.stdout.startswith("row 0 ")
        assert captured.stdout.endswith("FINAL ANSWER 42\n")
        assert f"not shown; read {made.recorder._printer._execution}/stdout …\n" in captured.stdout
        assert captured.truncation is not None
        cut = captured.truncation.stdout
        assert cut is not None
        total = sum(map(len, rows)) + 16
        assert (cut.total_chars, cut.total_bytes, cut.total_lines) == (total, total, 30_001)
        assert cut.kept_head_chars + cut.kept_tail_chars + cut.omitted_chars == total
        assert cut.kept_head_chars + cut.kept_tail_chars <= 65_536
        assert cut.spilled_bytes == total
        assert made.sink.raw("stdout") == "".join(rows) + "FINAL ANSWER 42\n"


def test_case_one_long_line(tmp_path: Path) -> None:
    text = "ä€😀" * 400_000 + "END\n"
    with rig(tmp_path) as made:
        made.feed(out(long(text)))
        captured = settled(made)
        assert captured.stdout.startswith("ä€😀")
        assert captured.stdout.endswith("END\n")
        assert "\ufffd" not in captured.stdout
        assert captured.truncation is not None
        assert captured.truncation.stdout is not None
        assert captured.truncation.stdout.total_chars == 1_200_004
        assert captured.truncation.stdout.total_bytes == 400_000 * 9 + 4


def test_output_limit_is_the_callers(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        recorder = made.new("3" * 32, "runtimes/a/sessions/b/executions/c", FakeSink(), output_limit=10)
        recorder.feed(out("0123456789"))
        recorder.feed(err("0123456789\n"))
        recorder.feed(value("x" * 11))
        captured = recorder.captured()
        assert captured.stdout == "0123456789"
        assert (
            captured.stderr
            == "01234\n… 1 character (1 line) not shown; read runtimes/a/sessions/b/executions/c/stderr …\n6789\n"
        )
        assert captured.truncation is not None
        assert captured.truncation.stdout is None
        assert captured.truncation.result is not None
        assert captured.result.startswith("xxxxx\n… 1 character")


@pytest.mark.parametrize(
    ("text", "backspaces"),
    [
        ("wait |\b/\b-\bok\n\b\bAB\b\b\bC\n", "wait ok\nCB\n"),
        ("1\r2\r3\nabcdef\rXY\nline\r\nnext\nhalf\rHALF\n", "3\nXYcdef\nline\nnext\nHALF\n"),
    ],
)
def test_cases_backspace_and_cr_cursor(tmp_path: Path, text: str, backspaces: str) -> None:
    with rig(tmp_path) as made:
        for character in text:
            made.feed(out(character))
        assert settled(made).stdout == backspaces


# Limits of text


def test_past_the_event_budget_tail_frames_pass(tmp_path: Path) -> None:
    with rig(tmp_path, event_text_bytes=1_000) as made:
        made.feed(out("a" * 900), out("b" * 200), out("c" * 10))
        assert made.sink.types() == ["stream", "notice"]
        assert made.recorder.next_due() == made.clock.time
        made.recorder.run_due()
        assert [frame.to_wire() for frame in made.sink.tails] == [
            {"type": "tail", "name": "stdout", "text": "b" * 200 + "c" * 10, "skippedBytes": "0"}
        ]
        assert made.recorder.next_due() is None
        made.feed(out("é" * 5_000), err("e"))
        made.recorder.run_due()
        assert len(made.sink.tails) == 1
        made.clock.time += 1
        made.recorder.run_due()
        made.clock.time += 1
        made.recorder.run_due()
        assert [(frame.name, len(frame.text.encode()), frame.skipped_bytes) for frame in made.sink.tails[1:]] == [
            ("stdout", 4_096, 10_000 - 4_096), ("stderr", 1, 0),
        ]  # fmt: skip
        captured = settled(made)
        assert noticed(captured) == ["EVENT_TEXT_LIMIT"]
        assert captured.stdout == "a" * 900 + "b" * 200 + "c" * 10 + "é" * 5_000
        # What is in no event is in the spill, from the start.
        assert made.sink.raw("stdout") == captured.stdout
        assert made.sink.raw("stderr") == "e"


def test_past_the_spill_limit_text_is_counted(tmp_path: Path) -> None:
    with rig(tmp_path, spill_bytes=300_000) as made:
        for _ in range(10):
            made.feed(out("x" * 50_000))
        captured = settled(made)
        assert noticed(captured) == ["SPILL_LIMIT"]
        assert captured.truncation is not None
        assert captured.truncation.stdout is not None
        assert captured.truncation.stdout.total_bytes == 500_000
        assert captured.truncation.stdout.spilled_bytes == 300_000


def test_a_full_disk_never_loses_the_end(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(out("before\n"), html("<b>"))
        made.sink.full = True
        made.feed(out("x" * 300_000), html("<i>", "d"), error(), value("1"), value("2"), clear())
        made.feed(out("after\n"), value("3"), update({"text/html": "<u>"}, "d"))
        made.recorder.notice("FRESH_KERNEL", "said all the same")
        made.recorder.run_due()
        captured = settled(made)
        assert captured.stdout == "after\n"
        assert captured.result == "3"
        assert noticed(captured) == ["DISK_FULL", "UNKNOWN_DISPLAY", "FRESH_KERNEL"]
        assert reasons(captured) == ["OUTPUT_CLEARED", "OUTPUT_CLEARED"]


# Displays


def test_a_rich_output_is_written_and_described(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(display({"image/png": PNG, "text/plain": "<Figure>"}))
        captured = settled(made)
        assert captured.stdout == ""
        assert captured.rich_outputs_dropped is True
        [output] = captured.rich_outputs
        assert output.mime_types == ("image/png",)
        assert output.file_path == f"/content/.dsm_outputs/{UID}/out-000.json"
        assert output.size_bytes == made.file(0).stat().st_size
        assert made.bundle(0)["data"] == {"image/png": PNG, "text/plain": "<Figure>"}
        [event] = made.sink.of_type("display")
        assert (event["index"], event["mimeTypes"], event["sizeBytes"]) == (
            0,
            ["image/png"],
            str(output.size_bytes),
        )
        [(kind, note)] = made.sink.notes
        assert kind == "bundle"
        assert (note["index"], note["sizeBytes"], note["revision"], len(note["sha256"])) == (
            0,
            output.size_bytes,
            0,
            64,
        )


def test_text_only_displays_are_printed_at_their_place(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(out("a\n"), text_display("shown"), out("b\n"), text_display(long("x" * 70_000)))
        captured = settled(made)
        assert captured.stdout.startswith("a\nshown\nb\nxxx")
        assert captured.rich_outputs == ()
        sources = [event.get("source") for event in made.sink.of_type("stream")]
        assert sources[:3] == [None, "display", None]
        assert set(sources[3:]) == {"display"}
        assert made.sink.raw("stdout") == "a\nshown\nb\n" + "x" * 70_000 + "\n"


def test_case_mime_png_not_base64(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(
            display({"image/png": "not base64 at all: §§§", "text/plain": "<Figure>"}), out("still here\n")
        )
        captured = settled(made)
        assert captured.stdout == "still here\n"
        assert reasons(captured) == ["INVALID_OUTPUT"]
        assert captured.rich_outputs[0].mime_types == ("image/png",)
        assert made.sink.of_type("display")[0]["errorInfo"]["reason"] == "INVALID_OUTPUT"


def test_a_bad_representation_beside_a_good_one_is_told(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(display({"image/png": "§", "text/html": "<b>"}))
        captured = settled(made)
        assert captured.rich_outputs[0].mime_types == ("text/html",)
        assert [(notice.reason, notice.text) for notice in captured.notices] == [
            ("INVALID_OUTPUT", "left out of rich output 0: image/png: not base64")
        ]


def test_a_widget_view_is_rich(tmp_path: Path) -> None:
    view = "application/vnd.jupyter.widget-view+json"
    with rig(tmp_path) as made:
        made.feed(display({view: {"model_id": "m", "version_major": 2}, "text/plain": "IntSlider()"}))
        assert settled(made).rich_outputs[0].mime_types == (view,)


def test_a_full_content_directory_is_one_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cellhouse.files import DiskFull, HostileDir

    def full(*_: object, **__: object) -> Any:
        raise DiskFull("out")

    monkeypatch.setattr(HostileDir, "create", full)
    with rig(tmp_path) as made:
        made.feed(html("<b>"), html("<i>"), out("on\n"))
        captured = settled(made)
        assert reasons(captured) == ["DISK_FULL", "DISK_FULL"]
        assert noticed(captured) == ["DISK_FULL"]
        assert captured.stdout == "on\n"


# Values


def test_the_last_value_is_the_result_and_earlier_ones_are_printed_at_their_place(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(
            value("1"), out("between\n"), value("2"), value("3"), out("after\n"), value("4"), out("end\n")
        )
        captured = settled(made)
        assert captured.stdout == "1\nbetween\n2\n3\nafter\nend\n"
        assert captured.result == "4"
        assert [event["text"] for event in made.sink.of_type("result")] == ["1", "2", "3", "4"]
        assert [
            event["text"] for event in made.sink.of_type("stream") if event.get("source") == "result"
        ] == ["1\n", "2\n", "3\n"]
        assert made.sink.raw("stdout") == "between\n1\n2\nafter\n3\nend\n"


def test_a_rich_value_is_a_rich_output_and_a_result(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(value("<DataFrame>", **{"text/html": "<table>"}))
        captured = settled(made)
        assert captured.result == "<DataFrame>"
        assert captured.rich_outputs[0].mime_types == ("text/html",)
        assert made.bundle(0)["output_type"] == "execute_result"
        assert made.bundle(0)["execution_count"] == 3


def test_case_repr_text_raises(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(
            error("RuntimeError", "no plain form"),
            display({"text/html": "<h3>fine</h3>"}, kind="execute_result"),
        )
        captured = settled(made, reply_error=True)
        assert captured.rich_outputs[0].mime_types == ("text/html",)
        assert captured.result == ""
        assert made.recorder.first_error is not None
        assert made.recorder.first_error.name == "RuntimeError"
        assert captured.stderr == ""


def test_a_long_value_is_whole_beside_the_log(tmp_path: Path) -> None:
    text = "item\n" * 40_000
    with rig(tmp_path) as made:
        made.feed(value(text))
        captured = settled(made)
        assert captured.output_truncated
        assert captured.truncation is not None
        assert captured.truncation.result is not None
        assert captured.truncation.result.total_lines == 40_000
        assert captured.truncation.result.spilled_bytes == 200_000
        assert made.sink.raw("result") == text
        assert made.sink.notes == [("result", {"offset": 0, "sizeBytes": 200_000})]
        assert len(made.sink.of_type("result")[0]["text"]) < 17_000


def test_of_two_long_values_the_first_is_printed_whole_or_shortened(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(value(long("a" * 100_000)), value(long("b" * 9_000_000)), value(long("c" * 100_000)))
        assert made.sink.raw("stdout").startswith("a" * 100_000 + "\nbbb")
        assert len(made.sink.raw("stdout")) < 170_000
        assert "8934464 characters (1 line) not shown; read" in made.sink.raw("stdout")
        assert [note for kind, note in made.sink.notes] == [
            {"offset": 0, "sizeBytes": 100_000},
            {"offset": 100_000, "sizeBytes": 9_000_000},
            {"offset": 9_100_000, "sizeBytes": 100_000},
        ]
        assert settled(made).result.startswith("ccc")


def test_a_result_is_plain(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(value("\x1b[1m3\x1b[0m \ud800"))
        assert settled(made).result == "3 \\ud800"


# Errors


def test_an_error_with_an_error_reply_is_the_executions_own(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(error("ValueError", "bad"))
        assert made.sink.of_type("error")[0]["traceback"] == ["frame of ValueError", "ValueError: bad"]
        made.recorder.feed_reply_error({"ename": "NoneType", "evalue": "None", "traceback": []})
        captured = settled(made, reply_error=True)
        assert captured.stderr == ""
        assert made.recorder.first_error is not None
        assert made.recorder.first_error.traceback == ("frame of ValueError", "ValueError: bad")


def test_case_capture_magic_error(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(err("before\n"), error("ZeroDivisionError", "division by zero"), err("after\n"))
        captured = settled(made)
        assert (
            captured.stderr
            == "before\nframe of ZeroDivisionError\nZeroDivisionError: division by zero\nafter\n"
        )
        assert made.sink.of_type("stream")[-1]["source"] == "error"


def test_of_several_errors_the_first_is_the_executions_and_the_rest_is_output(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(error("A"), err("half a line"), error("B"), err("end\n"), error("C"))
        captured = settled(made, reply_error=True)
        assert captured.stderr == "half a line\nframe of B\nB: bad\nend\nframe of C\nC: bad\n"
        assert made.recorder.first_error is not None
        assert made.recorder.first_error.name == "A"
        assert made.sink.types().count("error") == 3


def test_an_error_that_only_the_reply_tells(tmp_path: Path) -> None:
    with rig(tmp_path, error_value_chars=100) as made:
        made.recorder.feed_reply_error({"ename": "E", "evalue": "v" * 200, "traceback": None})
        captured = settled(made, reply_error=True)
        assert made.recorder.first_error is not None
        assert made.recorder.first_error.value.startswith("v" * 50 + "\n… 100 characters")
        assert captured.truncation is not None
        assert captured.truncation.value is not None
        assert not captured.output_truncated
        assert made.sink.raw("traceback") == "E: " + "v" * 200 + "\nE: " + "v" * 200 + "\n"


def test_cuts_of_an_error_that_was_output_are_none_of_the_results(tmp_path: Path) -> None:
    with rig(tmp_path, traceback_chars=100) as made:
        made.feed(error("E", "v", ["x" * 500]))
        captured = settled(made)
        assert captured.truncation is None
        assert captured.stderr == "x" * 500 + "\n"


def test_an_error_that_the_code_cleared_is_cleared(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(error("E", "v", ["12345"]), clear(), out("on\n"))
        captured = settled(made)
        assert captured.stderr == ""
        assert captured.cleared is not None
        assert captured.cleared.stderr_chars == 6


@pytest.mark.parametrize(
    "content", [{}, {"ename": 3}, {"traceback": None}, {"ename": "E", "evalue": [], "traceback": "text"}]
)
def test_a_garbled_error_is_still_one(tmp_path: Path, content: dict[str, Any]) -> None:
    with rig(tmp_path) as made:
        made.feed(message("error", content), message("error", content))
        captured = settled(made, reply_error=True)
        assert made.recorder.first_error is not None
        assert captured.stderr


# Clearing


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


# Payloads and notices


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
