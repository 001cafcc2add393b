"""A full disk: nothing new is accepted, nothing on record is lost, and every execution still gets its end."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from cellhouse.files import DiskFull
from cellhouse.journal import Journal
from cellhouse.journal.shorten import fit_into
from cellhouse.model import (
    Artifact,
    ErrorInfo,
    ExecuteCodeResult,
    ExecutionError,
    ExecutionState,
    FinishedEvent,
    LateEvent,
    Notice,
    NoticeReason,
    Outcome,
    ResourceExhausted,
    RetentionLimits,
    RichOutput,
    StreamEvent,
    TextCut,
    Truncation,
)
from tests.files.support import fill, make_room
from tests.journal.support import ManualClock, crash, failed, ok, opened, start


def append_until_full(log: Any) -> int:
    for number in range(100_000):
        try:
            log.append(StreamEvent(name="stdout", text="x" * 1_000))
        except DiskFull:
            return number
    raise AssertionError("the disk never got full")


async def test_the_end_is_kept_on_a_full_disk(small_disk: Path, clock: ManualClock) -> None:
    directory = small_disk / "journal"
    async with opened(directory, clock) as journal:
        log = await journal.begin(start("id"))
        log.append(StreamEvent(name="stdout", text="before\n"))
        fill(small_disk)
        append_until_full(log)
        seq = log.last_seq
        # What may be needed to keep the promise of at most once, and the end, always find room.
        log.mark_sent()
        made = log.finish(ok(log, stdout="line\n" * 30_000, result="r" * 60_000))
        assert made.seq == seq + 1
        result = made.result
        assert result.outcome is Outcome.OK
        assert [notice.reason for notice in result.notices or ()] == [NoticeReason.DISK_FULL]
        assert result.output_truncated
        assert result.truncation is not None
        assert result.truncation.stdout is not None
        assert result.truncation.stdout.total_chars == 150_000
        assert log.finished == result
        assert log.read(seq) == [made]
        with pytest.raises(DiskFull):
            await journal.begin(start("another"))
        with pytest.raises(DiskFull):
            log.append_late(LateEvent(name="stdout", text="x" * 10_000))
        name = log.name
        make_room(small_disk)
    async with opened(directory, clock) as journal:
        again = journal.get(name)
        assert again is not None
        assert again.finished == result
        assert (await journal.verify()).ok
        assert not journal._held.reserve.ends


async def test_an_end_in_reserve_moves_into_its_record(small_disk: Path, clock: ManualClock) -> None:
    directory = small_disk / "journal"
    async with opened(directory, clock) as journal:
        first, second = await journal.begin(start()), await journal.begin(start())
        fill(small_disk)
        append_until_full(first)
        ends = [log.finish(ok(log, stdout="x" * 70_000)) for log in (first, second)]
        reserve = journal._held.reserve
        assert set(reserve.ends) == {first.uid, second.uid}
        make_room(small_disk)
        # Late output brings the end along; looking after retention does it for the rest.
        late = first.append_late(LateEvent(name="stdout", text="late"))
        assert set(reserve.ends) == {second.uid}
        assert first.read(ends[0].seq - 1) == [ends[0], late]
        await journal.evict()
        assert not reserve.ends
        assert second.finished == ends[1].result
        assert (await journal.verify()).ok
        names = [first.name, second.name]
    async with opened(directory, clock) as journal:
        for name, end in zip(names, ends, strict=True):
            log = journal.get(name)
            assert log is not None
            assert log.finished == end.result


async def test_an_end_in_reserve_survives_a_crash(small_disk: Path, clock: ManualClock) -> None:
    directory = small_disk / "journal"
    journal = await Journal.open(directory, clock=clock, retention=RetentionLimits())
    log = await journal.begin(start("id"))
    fill(small_disk)
    append_until_full(log)
    end = log.finish(ok(log, stdout="x" * 70_000))
    await crash(journal)
    with pytest.raises(ResourceExhausted) as caught:
        await Journal.open(directory, clock=clock, retention=RetentionLimits())
    assert caught.value.http == 507
    make_room(small_disk)
    async with opened(directory, clock) as journal:
        assert journal.recovered == []
        again = journal.get(log.name)
        assert again is not None
        assert again.finished == end.result
        assert (await journal.verify()).ok


async def test_evicting_works_on_a_full_disk_and_makes_room(small_disk: Path, clock: ManualClock) -> None:
    directory = small_disk / "journal"
    async with opened(directory, clock, RetentionLimits(age_seconds=60)) as journal:
        for number in range(20):
            log = await journal.begin(start(f"id-{number}"))
            log.append(StreamEvent(name="stdout", text="x" * 60_000))
            log.finish(ok(log))
        await journal._held.run(journal._index.flush)
        fill(small_disk)
        clock.advance(61)
        assert len(await journal.evict()) == 20
        log = await journal.begin(start("after"))
        log.finish(ok(log))
        assert journal.was_evicted(f"{log.name.rpartition('/')[0]}/id-3")


async def test_an_injected_enospc_keeps_events_out_and_the_end_in(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await journal.begin(start())
    log.append(StreamEvent(name="stdout", text="kept"))
    real = os.pwrite

    def refuse(fd: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        with pytest.raises(DiskFull, match=r"\.rec"):
            log.append(StreamEvent(name="stdout", text="lost"))
        with pytest.raises(DiskFull):
            log.note("bundle", {"index": 0})
        made = log.finish(ok(log, stdout="kept"))
    assert os.pwrite is real
    assert made.seq == 2
    assert [type(event) for event in log.read(0)] == [StreamEvent, FinishedEvent]
    assert made.result.stdout == "kept"
    assert log.finished == made.result
    assert made.result.notices is not None
    assert log.settle_end()
    assert log.read(0)[1] == made


async def test_there_is_a_slot_for_each_that_runs_and_they_are_used_again(
    journal: Journal, directory: Path
) -> None:
    for _ in range(3):
        logs = [await journal.begin(start()) for _ in range(5)]
        assert len(list((directory / "reserve").iterdir())) == 5
        for log in logs:
            log.finish(ok(log))
    assert len(list((directory / "reserve").iterdir())) == 5


async def test_unused_slots_are_given_back_on_close(directory: Path, clock: ManualClock) -> None:
    async with opened(directory, clock) as journal:
        logs = [await journal.begin(start()) for _ in range(3)]
        for log in logs[1:]:
            log.finish(ok(log))
    # One has not finished: its end is still to be written.
    assert len(list((directory / "reserve").iterdir())) == 1
    async with opened(directory, clock) as journal:
        assert journal.recovered == [logs[0].name]
    assert list((directory / "reserve").iterdir()) == []


def big_result() -> ExecuteCodeResult:
    info = ErrorInfo(reason="DISK_FULL", metadata={"limitBytes": "1"})
    return ExecuteCodeResult(
        execution="runtimes/r/sessions/s/executions/e",
        session="runtimes/r/sessions/s",
        state=ExecutionState.FINISHED,
        outcome=Outcome.ERROR,
        outcome_info=ErrorInfo(reason="CODE_RAISED", metadata={"log": "l" * 100_000}),
        execution_error=ExecutionError(name="E" * 5_000, value="v" * 8_000, traceback=("f\n" * 9_000,) * 3),
        stdout="head\n" * 5_000 + "… 5 characters (1 line) not shown; read x …\n" + "tail\n" * 5_000,
        stderr="\u0001" * 60_000,
        result="ä" * 60_000,
        output_truncated=True,
        truncation=Truncation(
            stdout=TextCut(
                total_bytes=900_000,
                total_chars=900_000,
                total_lines=180_000,
                kept_head_chars=25_000,
                kept_tail_chars=25_000,
                omitted_chars=850_000,
                spilled_bytes=900_000,
            )
        ),
        rich_outputs_dropped=True,
        rich_outputs=tuple(
            RichOutput(index=index, mime_types=("image/png",), size_bytes=1, file_path="/content/x")
            if index % 2
            else RichOutput(index=index, mime_types=("image/png",), error_info=info)
            for index in range(50_000)
        ),
        artifacts=tuple(Artifact(name=f"file-{number}" * 20) for number in range(5_000)),
        notices=tuple(Notice(reason="SPILL_LIMIT", text="n" * 1_000) for _ in range(100)),
    )


def test_the_largest_result_is_shortened_into_the_reserve_and_tells_how() -> None:
    result = big_result()
    small = fit_into(result, 60_000)
    assert len(small.to_json().encode()) <= 60_000
    assert ExecuteCodeResult.from_json(small.to_json()) == small
    assert (small.outcome, small.execution) == (result.outcome, result.execution)
    assert small.truncation is not None
    cut = small.truncation.stdout
    assert cut is not None
    assert (cut.total_chars, cut.spilled_bytes) == (900_000, 900_000)
    assert cut.kept_head_chars + cut.kept_tail_chars + cut.omitted_chars == 900_000
    assert small.stdout[: cut.kept_head_chars] == result.stdout[: cut.kept_head_chars]
    assert small.stdout.endswith(result.stdout[-cut.kept_tail_chars :])
    assert "not shown; read runtimes/r/sessions/s/executions/e/stdout" in small.stdout
    assert small.truncation.result is not None
    assert small.truncation.result.total_bytes == 120_000
    indexes = [output.index for output in small.rich_outputs]
    assert indexes == list(range(len(indexes)))
    last = small.rich_outputs[-1].error_info
    assert last is not None
    assert last.reason == "DISK_FULL"
    assert int(last.metadata["omittedOutputs"]) == 50_000 - len(indexes) + 1
    assert small.notices is not None
    assert small.notices[-1].reason == NoticeReason.DISK_FULL
    assert "rich outputs" in small.notices[-1].text
    assert "files" in small.notices[-1].text


def test_a_result_that_fits_keeps_its_texts(clock: ManualClock) -> None:
    result = big_result().model_copy(
        update={
            "stderr": "",
            "result": "42",
            "rich_outputs": (),
            "artifacts": (),
            "notices": None,
            "rich_outputs_dropped": False,
        }
    )
    small = fit_into(result, 60_000)
    assert small.result == "42"
    assert small.artifacts == ()
    assert small.rich_outputs == ()
    assert small.truncation is not None
    assert small.truncation.result is None


async def test_the_reserve_takes_the_error_too(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    log = await journal.begin(start())

    def refuse(fd: int, data: bytes, offset: int) -> int:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        made = log.finish(failed(log, ExecutionError(name="ValueError", value="bad", traceback=("f",))))
    assert made.result.execution_error == ExecutionError(name="ValueError", value="bad", traceback=("f",))
