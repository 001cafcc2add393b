"""The log of one execution: numbered, written at once, read by number, live and after."""

import asyncio
from pathlib import Path

import pytest

from cellhouse.files import MAX_RECORD_BYTES
from cellhouse.journal import ExecutionLog, Journal, LogState
from cellhouse.model import (
    DropReason,
    Event,
    FinishedEvent,
    Late,
    LateEvent,
    NotFound,
    NoticeReason,
    Outcome,
    QueuedEvent,
    RetentionLimits,
    RichOutput,
    StreamEvent,
    TailFrame,
)
from tests.journal.support import WAIT, ManualClock, ok, opened, record_file, start


def texts(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, StreamEvent)]


def tail_of(log: ExecutionLog) -> TailFrame | None:
    return log.latest_tail


def is_closed(log: ExecutionLog) -> bool:
    return log.closed


def read_all(log: ExecutionLog, after: int = 0, limit: int = 1000) -> list[Event]:
    events: list[Event] = []
    while page := log.read(after, limit):
        assert len(page) <= limit
        events += page
        after = page[-1].seq
    return events


async def test_events_are_numbered_and_timed_and_read_back(journal: Journal, clock: ManualClock) -> None:
    log = await journal.begin(start())
    assert log.last_seq == 0
    clock.advance(1.5)
    first = log.append(QueuedEvent())
    assert (first.seq, first.time) == (1, "2026-01-02T03:04:06.500Z")
    log.mark_sent()
    for number in range(10):
        log.append(StreamEvent(name="stdout", text=f"{number}\n"))
    made = log.finish(ok(log, stdout="done"))
    assert made.seq == log.last_seq == 12
    events = read_all(log)
    assert [event.seq for event in events] == list(range(1, 13))
    assert events[-1] == made
    assert read_all(log, after=10) == events[10:]
    assert read_all(log, limit=3) == events
    assert log.read(12) == []


async def test_the_file_alone_gives_the_same(directory: Path, clock: ManualClock) -> None:
    async with opened(directory, clock) as journal:
        log = await journal.begin(start("id", code="print('ä')"))
        log.append(StreamEvent(name="stderr", text="é" * 100, source="fd"))
        log.note("bundle", {"index": 0, "sha256": "ab"})
        log.finish(ok(log, stdout="x", notices=()))
        name, events, result, begun = log.name, read_all(log), log.finished, log.start
    async with opened(directory, clock) as journal:
        again = journal.get(name)
        assert again is not None
        assert read_all(again) == events
        assert again.finished == result
        assert again.start == begun
        assert again.start.code == "print('ä')"
        assert again.closed
        assert again.state is LogState.FINISHED


async def test_many_events_are_read_from_any_number(journal: Journal) -> None:
    """More than the cache of new events holds, so that the file is read, through its sparse index."""
    log = await journal.begin(start())
    count = 4_000
    for number in range(count):
        log.append(StreamEvent(name="stdout", text=f"{number}:" + "x" * 2_000))
    for after in (0, 1, 63, 64, 1_999, 2_500, count - 1):
        page = log.read(after, 5)
        assert [event.seq for event in page] == list(range(after + 1, min(after + 5, count) + 1))
        assert texts(page)[0].startswith(f"{after}:")
    assert len(log._facts.marks._seqs) <= 256
    # A page is bounded by bytes as well.
    assert 1 < len(log.read(0, count)) < count
    log.finish(ok(log))


async def test_the_code_is_not_held_once_it_has_finished(journal: Journal) -> None:
    log = await journal.begin(start(code="x" * 100_000))
    assert log.start.code == "x" * 100_000
    log.finish(ok(log))
    assert log._start is None
    assert log.start.code == "x" * 100_000


async def test_code_with_lone_surrogates_comes_back(journal: Journal) -> None:
    begun = start(code="x")
    begun = type(begun)(**{**{name: getattr(begun, name) for name in begun.__slots__}, "code": "a\ud800b"})
    log = await journal.begin(begun)
    log.finish(ok(log))
    assert log.start.code == "a\ud800b"


async def test_finished_comes_exactly_once(journal: Journal) -> None:
    log = await journal.begin(start())
    with pytest.raises(TypeError, match="finish"):
        log.append(FinishedEvent(result=ok(log)))
    log.finish(ok(log))
    with pytest.raises(RuntimeError, match="finished"):
        log.finish(ok(log))
    with pytest.raises(RuntimeError, match="finished"):
        log.append(StreamEvent(name="stdout", text="too late"))
    with pytest.raises(RuntimeError, match="finished"):
        log.mark_sent()
    with pytest.raises(RuntimeError, match="finished"):
        log.spill("stdout")


async def test_late_events_go_on_with_the_numbers(directory: Path, clock: ManualClock) -> None:
    async with opened(directory, clock) as journal:
        log = await journal.begin(start())
        with pytest.raises(RuntimeError, match="nothing it prints is late"):
            log.append(LateEvent(name="stdout", text="x"))
        log.finish(ok(log))
        assert log.late() is None
        assert log.append(LateEvent(name="stdout", text="late ä\n")).seq == 2
        log.release()
        assert log.append_late(LateEvent(mime_types=("image/png",), size_bytes=5)).seq == 3
        log.note("revision", {"index": 0})
        assert log.append_late(LateEvent(name="stderr", text="e")).seq == 4
        expected = Late(stdout_bytes=8, stderr_bytes=1, displays=1)
        assert log.late() == expected
        name, events = log.name, read_all(log)
    async with opened(directory, clock) as journal:
        again = journal.get(name)
        assert again is not None
        assert read_all(again) == events
        assert again.late() == expected
        assert again.notes("revision") == [{"index": 0}]
        assert again.finished is not None
        assert (await journal.verify()).ok


async def test_notes_are_kept_by_kind_and_are_no_events(journal: Journal) -> None:
    log = await journal.begin(start())
    log.note("bundle", {"index": 0, "sha256": "aa", "sizeBytes": 3})
    log.append(StreamEvent(name="stdout", text="x"))
    log.note("revision", {"index": 0, "revision": 1})
    log.note("bundle", {"index": 1, "sha256": "bb", "sizeBytes": 4})
    assert [note["index"] for note in log.notes("bundle")] == [0, 1]
    assert log.notes("revision") == [{"index": 0, "revision": 1}]
    assert log.notes("other") == []
    assert log.last_seq == 1
    log.finish(ok(log))
    assert len(log.notes("bundle")) == 2


async def test_a_waiting_reader_is_woken_by_an_event(journal: Journal) -> None:
    log = await journal.begin(start())
    log.append(QueuedEvent())
    await asyncio.wait_for(log.wait(0), WAIT)
    waiting = asyncio.ensure_future(log.wait(1))
    await asyncio.sleep(0)
    assert not waiting.done()
    log.append(StreamEvent(name="stdout", text="x"))
    await asyncio.wait_for(waiting, WAIT)
    assert len(log._followers) == 0
    cancelled = asyncio.ensure_future(log.wait(2))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    assert len(log._followers) == 0
    log.finish(ok(log))


async def test_a_tail_frame_wakes_and_only_the_latest_is_held(journal: Journal) -> None:
    log = await journal.begin(start())
    waiting = asyncio.ensure_future(log.wait(0))
    await asyncio.sleep(0)
    log.tail(TailFrame(name="stdout", text="a"))
    log.tail(TailFrame(name="stdout", text="b"))
    await asyncio.wait_for(waiting, WAIT)
    assert tail_of(log) == TailFrame(name="stdout", text="b")
    assert log.last_seq == 0
    log.finish(ok(log))
    assert tail_of(log) is None
    log.tail(TailFrame(name="stdout", text="c"))
    assert tail_of(log) is None


async def test_who_follows_for_late_output_is_let_go_when_it_is_sealed(journal: Journal) -> None:
    log = await journal.begin(start())
    log.finish(ok(log))
    log.release()
    assert not is_closed(log)
    waiting = asyncio.ensure_future(log.wait(1))
    await asyncio.sleep(0)
    assert not waiting.done()
    log.seal()
    await asyncio.wait_for(waiting, WAIT)
    assert is_closed(log)
    await asyncio.wait_for(log.wait(1), WAIT)


async def test_closing_the_journal_lets_every_reader_go(directory: Path, clock: ManualClock) -> None:
    async with opened(directory, clock) as journal:
        log = await journal.begin(start())
        done = await journal.begin(start())
        done.finish(ok(done))
        waiting = asyncio.ensure_future(log.wait(0))
        await asyncio.sleep(0)
    await asyncio.wait_for(waiting, WAIT)
    assert log.closed
    assert log.state is LogState.ABANDONED
    with pytest.raises(RuntimeError, match="abandoned"):
        log.append(QueuedEvent())
    with pytest.raises(OSError, match="closed"):
        done.append_late(LateEvent(name="stdout", text="x"))
    with pytest.raises(RuntimeError, match="closed"):
        await journal.begin(start())


async def test_a_slow_reader_costs_nothing(journal: Journal) -> None:
    """A reader is a number: nothing is kept for it, and it still gets everything."""
    log = await journal.begin(start())
    log.append(QueuedEvent())
    (first,) = log.read(0)
    for _ in range(3_000):
        log.append(StreamEvent(name="stdout", text="x" * 3_000))
    assert sum(size for _, size in log._home.cache._events.values()) <= 4 << 20
    assert [event.seq for event in read_all(log, after=first.seq)] == list(range(2, 3_002))
    log.finish(ok(log))


async def test_a_log_is_one_object_while_anyone_has_it(directory: Path, clock: ManualClock) -> None:
    async with opened(directory, clock) as journal:
        log = await journal.begin(start())
        assert journal.get(log.name) is log
        log.finish(ok(log))
        assert journal.get(log.name) is log
        name = log.name
        assert journal.get(f"{name}x") is None
    async with opened(directory, clock) as journal:
        again = journal.get(name)
        assert again is not None
        assert journal.get(name) is again


async def test_an_evicted_log_says_so(directory: Path, clock: ManualClock) -> None:
    async with opened(directory, clock, RetentionLimits(age_seconds=10)) as journal:
        log = await journal.begin(start("id"))
        log.append(StreamEvent(name="stdout", text="x"))
        log.finish(ok(log))
        clock.advance(11)
        await journal.evict()
        for call in (
            lambda: log.read(0),
            lambda: log.read_text("stdout"),
            lambda: log.start,
            lambda: log.notes("x"),
        ):
            with pytest.raises(NotFound) as caught:
                call()
            assert caught.value.reason == "EVICTED"
        with pytest.raises(FileNotFoundError):
            log.append_late(LateEvent(name="stdout", text="x"))
        assert log.closed


async def test_files_are_private(journal: Journal, directory: Path) -> None:
    log = await journal.begin(start())
    log.spill("stdout").write(b"x")
    for path in directory.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0
    assert directory.stat().st_mode & 0o777 == 0o700
    assert record_file(directory, log.uid).stat().st_mode & 0o777 == 0o600
    log.finish(ok(log))


async def test_a_result_longer_than_a_record_is_shortened_and_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal") as journal:
        log = await journal.begin(start("id"))
        chars = MAX_RECORD_BYTES // 4
        made = log.finish(ok(log, stdout="\N{EURO SIGN}" * chars, stderr="line\n" * (chars // 5)))
        result = made.result
        assert log.finished == result
        assert [notice.reason for notice in result.notices or ()] == [NoticeReason.RESULT_LIMIT]
        assert str(MAX_RECORD_BYTES) in (result.notices or ())[0].text
        assert result.outcome is Outcome.OK
        assert result.truncation is not None
        cut = result.truncation.stdout
        assert cut is not None
        assert (cut.total_chars, cut.omitted_chars) == (chars, chars - (1 << 20))
        assert f"{cut.omitted_chars} characters" in result.stdout
        assert result.truncation.stderr is not None
        assert len(result.stdout) >= 1 << 20


async def test_a_result_with_a_list_longer_than_a_record_is_shortened(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal") as journal:
        log = await journal.begin(start("id"))
        names = tuple(f"a/{'n' * 250}{number}" for number in range(64))
        outputs = tuple(
            RichOutput(index=index, mime_types=names, size_bytes=1, file_path="p") for index in range(5_000)
        )
        result = log.finish(ok(log, rich_outputs_dropped=True, rich_outputs=outputs)).result
        last = result.rich_outputs[-1]
        assert last.error_info is not None
        assert last.error_info.reason == DropReason.TOO_MANY_OUTPUTS
        assert int(last.error_info.metadata["omittedOutputs"]) + len(result.rich_outputs) - 1 == len(outputs)
