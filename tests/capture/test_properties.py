"""Whatever a kernel sends, in any order: a dense ledger, counts that add up, and never an exception."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given, settings, strategies as st

from cellhouse.capture import Captured
from cellhouse.capture.decode import clean
from cellhouse.messages import Message, RawText
from cellhouse.model import NoticeReason, parse_event
from tests.capture.rig import PNG, Rig, clear, display, dropped, error, long, message, out, rig, update, value

TEXT = st.one_of(
    st.text(st.characters(codec=None), max_size=12),
    st.sampled_from(
        ["line\n", "\r", "\b", "\x1b[A", "\x1b[2K", "\x1b[31", "x" * 300, "ä€😀" * 100, "\n" * 150]
    ),
)
ANY = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), TEXT, st.just(PNG), TEXT.map(clean).map(long)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["text/plain", "text/html", "image/png", "image/svg+xml", "application/json", "a/b+json", "", "bad"]
)
IDS = st.sampled_from(["a", "b", "c", None, 3, ""])
DATA = st.one_of(
    st.fixed_dictionaries({"text/plain": TEXT}),
    st.fixed_dictionaries({"text/html": TEXT, "text/plain": TEXT}),
    st.fixed_dictionaries({"image/png": st.sampled_from([PNG, "§"])}),
    st.dictionaries(NAMES, ANY, max_size=4),
    ANY,
)
FIGURES = st.one_of(st.just(5_000), st.integers(-1, 2**64), ANY)
KINDS = (
    "stream",
    "display_data",
    "execute_result",
    "update_display_data",
    "display_dropped",
    "clear_output",
    "error",
    "comm_msg",
    "nonsense",
)
KEYS = (
    "name",
    "text",
    "data",
    "metadata",
    "transient",
    "wait",
    "ename",
    "evalue",
    "traceback",
    "execution_count",
    "kind",
    "reason",
    "mimeTypes",
    "sizeBytes",
    "limitBytes",
)

MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(out, TEXT, st.sampled_from(["stdout", "stderr", "stdlog", None])),
    st.builds(display, DATA, IDS),
    st.builds(update, DATA, IDS),
    st.builds(value, TEXT),
    st.builds(
        dropped,
        NAMES,
        NAMES,
        kind=st.sampled_from(["display_data", "execute_result", "update_display_data", "stream", None]),
        display_id=IDS,
        data=st.one_of(st.fixed_dictionaries({"text/plain": TEXT}), ANY),
        sizeBytes=FIGURES,
        limitBytes=FIGURES,
    ),
    st.builds(error, TEXT, TEXT, st.one_of(st.just(()), st.lists(TEXT, max_size=3))),
    st.builds(clear, st.booleans()),
    st.builds(message, st.sampled_from(KINDS), st.dictionaries(st.sampled_from(KEYS), ANY, max_size=5)),
    st.sampled_from(KINDS).map(lambda kind: message(kind, defect="not JSON")),
)
FEEDS = st.one_of(
    MESSAGES,
    st.builds(
        RawText, st.sampled_from(["stdout", "stderr"]), st.binary(max_size=8), st.just(""), st.booleans()
    ),
    st.sampled_from([0.0, 0.01, 0.06, 2.0]),
)


def feed(made: Rig, what: Any, take: Callable[[Message], None], take_raw: Callable[[RawText], None]) -> None:
    if isinstance(what, Message):
        take(what)
    elif isinstance(what, RawText):
        take_raw(what)
    else:
        made.clock.time += what
        made.recorder.run_due()


def check(made: Rig, captured: Captured) -> None:
    outputs = captured.rich_outputs
    assert [output.index for output in outputs] == list(range(len(outputs)))
    assert captured.rich_outputs_dropped is bool(outputs)
    for output in outputs:
        assert output.mime_types
        assert "text/plain" not in output.mime_types
        if output.file_path is not None:
            raw = made.file(output.index).read_bytes()
            assert len(raw) == output.size_bytes
            json.loads(raw.decode(), parse_constant=lambda name: 1 / 0)
    shown = {"stdout": captured.stdout, "stderr": captured.stderr, "result": captured.result}
    for name, text in shown.items():
        text.encode()
        assert "\x1b" not in text
        cut = getattr(captured.truncation, name, None)
        assert (cut is not None) == ("characters (" in text and "not shown; read" in text)
        if cut is not None:
            assert cut.kept_head_chars + cut.kept_tail_chars <= made.limits.inline_chars
            assert cut.kept_head_chars + cut.kept_tail_chars + cut.omitted_chars > made.limits.inline_chars
        else:
            assert len(text) <= made.limits.inline_chars
    cuts = [getattr(captured.truncation, name, None) for name in shown]
    assert captured.output_truncated is any(cut is not None for cut in cuts)
    for name in ("stdout", "stderr"):
        cut = getattr(captured.truncation, name, None)
        if cut is not None:
            raw_text = made.sink.raw(name)
            assert cut.total_chars == len(raw_text)
            assert cut.total_bytes == len(raw_text.encode())
            assert cut.total_lines == raw_text.count("\n") + (not raw_text.endswith("\n"))
    assert all(output.dropped for output in outputs if not made.file(output.index).exists())


@settings(max_examples=250, deadline=None)
@given(
    st.lists(FEEDS, max_size=30),
    st.booleans(),
    st.lists(FEEDS, max_size=5),
    st.sampled_from(
        [
            {},
            {"rich_entries": 3, "written_outputs": 2},
            {"bundle_bytes": 120, "notices": 4},
            {"event_text_bytes": 60},
        ]
    ),
)
def test_any_sequence_of_messages(
    feeds: list[Any], reply_error: bool, late: list[Any], limits: dict[str, int]
) -> None:
    with tempfile.TemporaryDirectory() as path, rig(Path(path), inline_chars=200, **limits) as made:
        for what in feeds:
            feed(made, what, made.recorder.feed, made.recorder.feed_raw)
        check(made, made.recorder.captured())
        made.recorder.settle(reply_error=reply_error)
        captured = made.recorder.captured()
        check(made, captured)
        assert made.recorder.next_due() is None or not made.recorder._emitter.text_logged
        after = made.recorder.late()
        for what in late:
            feed(made, what, after.feed, after.feed_raw)
        assert made.recorder.captured() == captured
        for number, event in enumerate(made.sink.events, 1):
            assert event.seq == number
            assert parse_event(event.to_json()) == event
        kinds = made.sink.types()
        last = len(kinds) - kinds[::-1].index("late") if "late" in kinds else 0
        assert kinds.count("late") == 0 or set(kinds[kinds.index("late") : last]) == {"late"}
        indexes = [event.get("index", 0) for event in made.sink.of_type("display")]
        assert indexes == list(range(len(indexes)))
        noticed = [notice.reason for notice in captured.notices]
        assert kinds.count("notice") == len(noticed) <= made.limits.notices
        assert NoticeReason.DISK_FULL not in noticed


@settings(max_examples=60, deadline=None)
@given(st.lists(FEEDS, max_size=20), st.lists(st.booleans(), min_size=20, max_size=20), st.booleans())
def test_any_sequence_while_the_disk_fills_up(feeds: list[Any], full: list[bool], reply_error: bool) -> None:
    with tempfile.TemporaryDirectory() as path, rig(Path(path), inline_chars=200) as made:
        for what, now_full in zip(feeds, full, strict=False):
            made.sink.full = now_full
            feed(made, what, made.recorder.feed, made.recorder.feed_raw)
        made.recorder.settle(reply_error=reply_error)
        captured = made.recorder.captured()
        outputs = captured.rich_outputs
        assert [output.index for output in outputs] == list(range(len(outputs)))
        assert [notice.reason for notice in captured.notices].count("DISK_FULL") <= 1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), TEXT), max_size=20),
    st.randoms(use_true_random=False),
)
def test_how_streams_are_cut_into_messages_makes_no_difference(
    texts: list[tuple[str, str]], random: Any
) -> None:
    with tempfile.TemporaryDirectory() as path, rig(Path(path)) as one, rig(Path(path)) as other:
        for name, text in texts:
            one.feed(out(text, name))
            while text:
                cut = random.randint(1, len(text))
                other.feed(out(text[:cut], name))
                text = text[cut:]
        one.recorder.settle(reply_error=False)
        other.recorder.settle(reply_error=False)
        assert one.recorder.captured() == other.recorder.captured()
        assert one.sink.raw("stdout") == other.sink.raw("stdout")
