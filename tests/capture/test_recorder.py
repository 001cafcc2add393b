"""The recorder, message by message: what each does to the events and to the result."""

from pathlib import Path
from typing import Any

import pytest

from cellhouse.messages import RawText
from tests.capture.rig import (
    PNG,
    UID,
    FakeSink,
    display,
    err,
    error,
    html,
    long,
    message,
    noticed,
    out,
    reasons,
    rig,
    settled,
    text_display,
    value,
)  # fmt: skip


def test_streams_are_events_raw_and_a_result_folded(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(out("1\r"), err("warn\n"), out("\x1b[31m2\x1b[0m\n"))
        captured = settled(made)
        assert (captured.stdout, captured.stderr, captured.result) == ("2\n", "warn\n", "")
        assert made.sink.raw("stdout") == "1\r\x1b[31m2\x1b[0m\n"
        assert made.sink.events[0].to_wire() == {
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


def test_text_of_a_kernel_that_prints_to_the_descriptors_says_nothing(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        for name in ("stdout", "stderr"):
            made.recorder.feed_raw(RawText(name, b"printed \xe2\x82", printed=True))
        captured = settled(made)
        assert captured.stdout == captured.stderr == "printed \ufffd"
        events = made.sink.of_type("stream")
        assert [event["text"] for event in events] == ["printed ", "printed ", "\ufffd", "\ufffd"]
        assert not any("source" in event for event in events)


def test_a_character_is_never_put_together_of_two_writers(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.recorder.feed_raw(RawText("stdout", b"a\xe2", printed=True))
        made.recorder.feed_raw(RawText("stdout", b"b\xe2\x82"))
        made.recorder.feed_raw(RawText("stdout", b"\x82\xac\n", printed=True))
        assert settled(made).stdout == "ab€\n\ufffd"
        assert [event.get("source") for event in made.sink.of_type("stream")] == [None, "fd", None, "fd"]


def test_text_that_comes_in_chunks_is_kept_in_one_write_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = "zehn Zeichen: äöü€😀\n".encode() * 40_000
    chunks = [data[start : start + 65_536] for start in range(0, len(data), 65_536)]
    with rig(tmp_path) as made:
        writes = 0
        spill = made.sink.spill("stdout")
        keep = spill.write

        def write(data: bytes) -> int:
            nonlocal writes
            writes += 1
            return keep(data)

        monkeypatch.setattr(spill, "write", write)
        for chunk in chunks:
            made.recorder.feed_raw(RawText("stdout", chunk, printed=True))
        settled(made)
        assert bytes(spill.data) == data
        assert 0 < writes <= len(chunks)
        assert len(made.sink.of_type("stream")) == len(chunks)


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
