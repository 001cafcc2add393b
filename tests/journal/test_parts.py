"""The smaller parts of the journal: sparse index, cache, excerpts, the worker, payloads, what is exported."""

import threading

import pytest
from hypothesis import given, strategies as st

from cellhouse import journal as package
from cellhouse.journal.cache import EventCache
from cellhouse.journal.payloads import (
    UnreadableRecord,
    decode_event,
    decode_note,
    decode_start,
    encode_event,
    encode_note,
    encode_start,
    event_head,
    is_event,
    note_kind,
)
from cellhouse.journal.scan import MARKS, SparseIndex
from cellhouse.journal.view import PlainText
from cellhouse.journal.worker import Worker
from cellhouse.model import StreamEvent
from tests.journal.support import WAIT, start


def test_public_names() -> None:
    assert len(set(package.__all__)) == len(package.__all__)
    for name in package.__all__:
        assert getattr(package, name) is not None


@given(st.lists(st.integers(1, 300_000), min_size=1, max_size=1_200), st.data())
def test_the_sparse_index_is_bounded_and_never_points_past_an_event(
    sizes: list[int], data: st.DataObject
) -> None:
    index = SparseIndex()
    offsets = []
    offset = 8
    for seq, size in enumerate(sizes, 1):
        offsets.append(offset)
        index.add(seq, offset)
        offset += size
    assert len(index._seqs) <= MARKS
    seq = data.draw(st.integers(1, len(sizes)))
    found = index.before(seq)
    assert found <= offsets[seq - 1]
    assert found in (0, *offsets)
    # Near enough: what has to be read from there grows with the file, a 64th of it at most, and one event.
    assert offsets[seq - 1] - found <= max(64 << 10, offset // 32) + max(sizes)


def test_the_cache_keeps_the_newest_within_its_bytes() -> None:
    cache = EventCache(100_000)
    for seq in range(1, 101):
        cache.put("uid", StreamEvent(name="stdout", text="x", seq=seq), 2_000)
    assert cache.get("uid", 1) is None
    assert cache.get("uid", 100) is not None
    assert cache._size <= 100_000
    # One event never takes the place of all others.
    cache.put("uid", StreamEvent(name="stdout", text="x", seq=101), 90_000)
    assert cache.get("uid", 101) is None
    assert cache.get("uid", 100) is not None


@given(st.lists(st.text(st.sampled_from("ab\nä"), max_size=30), max_size=20), st.integers(2, 40))
def test_an_excerpt_counts_exactly(parts: list[str], limit: int) -> None:
    view = PlainText(limit)
    for part in parts:
        view.write(part)
    whole = "".join(parts)
    text, cut = view.render("the rest")
    if len(whole) <= limit:
        assert (text, cut) == (whole, None)
        return
    assert cut is not None
    assert cut.total_chars == len(whole)
    assert cut.total_bytes == len(whole.encode())
    assert cut.kept_head_chars + cut.kept_tail_chars + cut.omitted_chars == len(whole)
    assert cut.kept_head_chars + cut.kept_tail_chars <= limit
    assert text.startswith(whole[: cut.kept_head_chars])
    assert text.endswith(whole[len(whole) - cut.kept_tail_chars :])
    assert f"… {cut.omitted_chars} character" in text
    assert view.clear() == len(whole)
    assert view.render("x") == ("", None)


def test_the_worker_runs_jobs_in_order_and_the_batch_before_them() -> None:
    said: list[str] = []
    worker = Worker(lambda: said.append("batch"), delay=WAIT)
    try:
        worker.nudge()
        worker.nudge()
        worker.call(lambda: said.append("job")).result(WAIT)
        assert worker.call(lambda: "result").result(WAIT) == "result"
        assert said == ["batch", "job"]
        with pytest.raises(ValueError, match="its own"):
            worker.call(lambda: int("its own")).result(WAIT)
    finally:
        worker.nudge()
        worker.close()
    assert said == ["batch", "job", "batch"]
    assert all(thread.name != "cellhouse-journal" for thread in threading.enumerate())
    with pytest.raises(RuntimeError, match="closed"):
        worker.call(lambda: None)


def test_payloads_come_back() -> None:
    begun = start("id", code="print('é')")
    assert decode_start(encode_start(begun)) == begun
    event = StreamEvent(name="stderr", text="ä\n", seq=7, time="t", source="fd")
    payload = encode_event(event)
    assert is_event(payload)
    assert event_head(payload) == (7, 2, 3)
    assert decode_event(payload) == event
    note = encode_note("bundle", {"index": 1})
    assert note_kind(note) == "bundle"
    assert decode_note(note) == {"index": 1}
    assert not is_event(note)


@pytest.mark.parametrize(
    "payload",
    [b"", b"E123", b"S", b"S[]", b"S{", b'S{"version": 1}', b'S{"version": 2}', b"S" + b"[" * 100_000],
)
def test_a_start_that_cannot_be_read_says_so(payload: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        decode_start(payload)
