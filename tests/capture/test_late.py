"""Output after the end: late events and counts, and bundles that are still updated."""

from pathlib import Path

from cellhouse.capture import LateRecorder
from cellhouse.messages import RawText
from cellhouse.model import Late
from tests.capture.rig import (
    PNG,
    Rig,
    clear,
    display,
    err,
    error,
    html,
    message,
    out,
    rig,
    text_display,
    update,
    value,
)


def ended(made: Rig) -> LateRecorder:
    made.recorder.settle(reply_error=False)
    made.sink.events.clear()
    return made.recorder.late()


def test_nothing_late_is_nothing(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        late = ended(made)
        late.feed(message("status", {"execution_state": "idle"}))
        late.feed(clear())
        late.feed(message("stream", defect="not JSON"))
        late.feed(out(3))
        assert late.late is None
        assert made.sink.events == []


def test_late_text_and_displays(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        late = ended(made)
        late.feed(out("task reports 17\n"))
        late.feed(err("a\ud83d"))
        late.feed_raw(RawText("stderr", "é".encode()[:1]))
        late.feed(err("\ude00"))
        late.feed_raw(RawText("stderr", "é".encode()[1:]))
        late.feed(text_display("shown"))
        late.feed(value("5"))
        late.feed(error("E", "v", ["tb"]))
        late.feed(display({"image/png": PNG}))
        late.feed(display({"image/png": "§"}))
        events = [event.to_wire() for event in made.sink.events]
        texts = [(event["name"], event["text"]) for event in events if "name" in event]
        assert "".join(text for name, text in texts if name == "stdout") == "task reports 17\nshown\n5\n"
        assert "".join(text for name, text in texts if name == "stderr") == "a😀étb\n"
        assert [event["mimeTypes"] for event in events if "mimeTypes" in event] == [
            ["image/png"],
            ["image/png"],
        ]
        assert late.late == Late(stdout_bytes=24, stderr_bytes=len("a😀étb\n".encode()), displays=2)
        assert not (made.path / ".dsm_outputs").exists()


def test_a_late_update_rewrites_the_bundle(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(html("0", "d"))
        late = ended(made)
        late.feed(update({"text/html": "1"}, "d"))
        late.feed(update({"text/plain": "text"}, "d"))
        late.feed(update({"text/html": "1"}, "unknown"))
        late.feed(message("update_display_data", {"data": {"text/html": "1"}}))
        assert made.bundle(0)["data"] == {"text/html": "1"}
        assert made.sink.notes[-1][0] == "revision"
        assert made.sink.notes[-1][1]["revision"] == 1
        assert [event.type for event in made.sink.events] == ["late", "late"]
        assert late.late == Late(stdout_bytes=5, stderr_bytes=0, displays=1)
        assert made.recorder.captured().rich_outputs[0].size_bytes != 0


def test_late_text_shares_the_budget_of_the_execution(tmp_path: Path) -> None:
    with rig(tmp_path, event_text_bytes=1_000) as made:
        made.feed(out("x" * 900))
        late = ended(made)
        late.feed(out("y" * 90))
        late.feed(out("z" * 90))
        late.feed(err("z"))
        late.feed(html("<b>"))
        assert [event.to_wire()["text"] for event in made.sink.events] == [
            "y" * 90,
            "… further late output is counted, not logged …\n",
        ]
        assert late.late == Late(stdout_bytes=180, stderr_bytes=1, displays=1)


def test_late_output_where_the_log_is_full(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(html("0", "d"))
        late = ended(made)
        made.sink.full = True
        late.feed(out("lost to the log\n"))
        late.feed(update({"text/html": "1"}, "d"))
        made.sink.full = False
        late.feed(out("too\n"))
        assert made.sink.events == []
        assert late.late == Late(stdout_bytes=20, stderr_bytes=0, displays=1)
