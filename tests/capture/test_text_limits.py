"""What becomes of text past each limit, and of everything where a disk is full."""

from pathlib import Path

from tests.capture.rig import (
    clear,
    err,
    error,
    html,
    noticed,
    out,
    reasons,
    rig,
    settled,
    update,
    value,
)  # fmt: skip


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
        made.sink.spill_bytes = 300_000
        for _ in range(10):
            made.feed(out("x" * 50_000))
        captured = settled(made)
        assert noticed(captured) == ["SPILL_LIMIT"]
        assert "300000 bytes" in captured.notices[0].text
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


def test_the_text_of_an_event_is_bounded(tmp_path: Path) -> None:
    with rig(tmp_path, event_chars=10, event_text_bytes=25) as made:
        made.feed(out("0123456789abcdefghij0123456789"))
        assert [event["text"] for event in made.sink.of_type("stream")] == ["0123456789", "abcdefghij"]
        made.recorder.run_due()
        assert made.sink.tails[0].text == "0123456789"
        assert made.sink.raw("stdout") == settled(made).stdout == "0123456789abcdefghij0123456789"
