"""A dead owner: every execution that it left gets an end that says what is known, with all output on record."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import cellhouse
from cellhouse.capture import file_path
from cellhouse.journal import Entry, ExecutionLog, Journal
from cellhouse.model import (
    Artifact,
    ArtifactEvent,
    CaptureLimits,
    ClearedEvent,
    DisplayEvent,
    DisplayUpdatedEvent,
    ErrorEvent,
    ErrorInfo,
    ExecuteCodeResult,
    ExecutionState,
    NoticeEvent,
    Outcome,
    QueuedEvent,
    ResultEvent,
    RetentionLimits,
    RichOutput,
    SessionState,
    StartedEvent,
    StreamEvent,
)
from tests.journal.support import RUNTIME, SESSION, ManualClock, crash, ok, opened, record_file, start

Fill = Callable[[ExecutionLog], None]


async def recovered(
    directory: Path, clock: ManualClock, fill: Fill, *, sent: bool = True, **options: Any
) -> ExecuteCodeResult:
    """Begin an execution, let its owner die, and read the result that the next owner wrote."""
    journal = await Journal.open(directory, clock=clock, retention=RetentionLimits(), **options)
    log = await journal.begin(start("id"))
    log.append(QueuedEvent())
    if sent:
        log.mark_sent()
    fill(log)
    name = log.name
    await crash(journal)
    async with opened(directory, clock, **options) as journal:
        assert journal.recovered == [name]
        again = journal.get(name)
        assert again is not None
        result = again.finished
        assert result is not None
        assert again.read(again.last_seq - 1)[0].type == "finished"
        assert (await journal.verify()).ok
    ExecuteCodeResult.from_json(result.to_json())
    return result


def nothing(log: ExecutionLog) -> None:
    return


async def test_what_was_sent_is_lost_and_may_have_run(directory: Path, clock: ManualClock) -> None:
    result = await recovered(directory, clock, nothing)
    assert result.outcome is Outcome.RUNTIME_LOST
    assert result.state is ExecutionState.FINISHED
    assert result.session_state is SessionState.GONE
    assert result.outcome_info is not None
    assert result.outcome_info.reason == "OWNER_DIED"
    assert result.outcome_info.metadata["mayHaveRun"] == "true"
    assert result.execution_error is not None
    assert result.execution_error.traceback == ()
    assert (result.execution_id, result.session) == ("id", SESSION)
    assert result.end_time is None
    assert result.artifacts is None


async def test_what_was_certainly_not_sent_never_started(directory: Path, clock: ManualClock) -> None:
    result = await recovered(directory, clock, nothing, sent=False)
    assert result.outcome is Outcome.NEVER_STARTED
    assert result.session_state is SessionState.GONE
    assert result.outcome_info is not None
    assert result.outcome_info.metadata["mayHaveRun"] == "false"


async def test_after_a_reboot_a_missing_mark_proves_nothing(
    directory: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reboot(log: ExecutionLog) -> None:
        monkeypatch.setattr("cellhouse.journal.journal.boot_id", lambda: "another boot")

    result = await recovered(directory, clock, reboot, sent=False)
    assert result.outcome is Outcome.RUNTIME_LOST
    assert result.outcome_info is not None
    assert result.outcome_info.metadata["mayHaveRun"] == "true"


async def test_with_full_durability_a_missing_mark_proves_it_even_then(
    directory: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reboot(log: ExecutionLog) -> None:
        monkeypatch.setattr("cellhouse.journal.journal.boot_id", lambda: "another boot")

    result = await recovered(directory, clock, reboot, sent=False, durability="full")
    assert result.outcome is Outcome.NEVER_STARTED


async def test_a_damaged_record_proves_nothing_and_says_so(directory: Path, clock: ManualClock) -> None:
    def damage(log: ExecutionLog) -> None:
        log.append(StreamEvent(name="stdout", text="kept"))
        end = log._facts.end
        log.append(StreamEvent(name="stdout", text="lost"))
        path = record_file(directory, log.uid)
        with open(path, "r+b") as file:
            file.seek(end + 12)
            file.write(b"\xff\xff\xff")

    result = await recovered(directory, clock, damage, sent=False)
    assert result.outcome is Outcome.RUNTIME_LOST
    assert result.stdout == "kept"
    assert result.notices is not None
    assert [notice.reason for notice in result.notices] == ["OUTPUT_LOST"]


async def test_all_output_on_record_is_in_the_result(directory: Path, clock: ManualClock) -> None:
    gone = ErrorInfo(reason="OUTPUT_TOO_LARGE", metadata={"sizeBytes": "9"})
    uid = ""

    def put_out(log: ExecutionLog) -> None:
        nonlocal uid
        uid = log.uid
        clock.advance(1)
        log.append(StartedEvent(execution_count=7))
        log.append(StreamEvent(name="stdout", text="one\n"))
        log.append(StreamEvent(name="stderr", text="warn\n"))
        log.append(DisplayEvent(index=0, mime_types=("image/png", "text/html"), size_bytes=10))
        log.append(DisplayEvent(index=1, mime_types=("text/html",), error_info=gone))
        log.append(ResultEvent(text="first value"))
        log.append(StreamEvent(name="stdout", text="first value\n", source="result"))
        log.append(ResultEvent(text="42"))
        log.append(DisplayUpdatedEvent(execution=log.name, index=0, size_bytes=20))
        log.append(
            DisplayUpdatedEvent(execution=f"{RUNTIME}/sessions/x/executions/y", index=1, size_bytes=99)
        )
        log.append(StreamEvent(name="stdout", text="two\n"))
        log.append(NoticeEvent(reason="FRESH_KERNEL", text="a new kernel"))
        log.append(ArtifactEvent.of(Artifact(name="out.csv", bytes=3)))

    result = await recovered(directory, clock, put_out)
    assert result.stdout == "one\nfirst value\ntwo\n"
    assert result.stderr == "warn\n"
    assert result.result == "42"
    assert result.execution_count == 7
    assert result.start_time == "2026-01-02T03:04:06.000Z"
    assert result.rich_outputs == (
        RichOutput(
            index=0, mime_types=("image/png", "text/html"), size_bytes=20, file_path=file_path(uid, 0)
        ),
        RichOutput(index=1, mime_types=("text/html",), error_info=gone),
    )
    assert result.rich_outputs_dropped
    assert not result.output_truncated
    assert result.notices is not None
    assert [notice.reason for notice in result.notices] == ["FRESH_KERNEL"]
    assert result.artifacts == (Artifact(name="out.csv", bytes=3),)
    assert result.outcome_info is not None
    assert result.outcome_info.metadata["lastEventTime"] == "2026-01-02T03:04:06.000Z"


async def test_an_error_whose_reply_never_came_is_output(directory: Path, clock: ManualClock) -> None:
    def put_out(log: ExecutionLog) -> None:
        log.append(StreamEvent(name="stderr", text="no line end"))
        log.append(ErrorEvent(name="ValueError", value="bad", traceback=("Traceback …", "ValueError: bad")))
        log.append(StreamEvent(name="stderr", text="more\n"))
        # A second error is printed by whoever records it, right behind its event.
        log.append(ErrorEvent(name="KeyError", value="k", traceback=("KeyError: k",)))
        log.append(StreamEvent(name="stderr", text="KeyError: k\n", source="error"))

    result = await recovered(directory, clock, put_out)
    assert result.stderr == "no line end\nTraceback …\nValueError: bad\nmore\nKeyError: k\n"
    assert result.execution_error is not None
    assert result.execution_error.name == "RuntimeLost"


async def test_an_error_that_was_printed_already_is_not_printed_twice(
    directory: Path, clock: ManualClock
) -> None:
    def put_out(log: ExecutionLog) -> None:
        log.append(ErrorEvent(name="ValueError", value="bad", traceback=("ValueError: bad",)))
        log.append(StreamEvent(name="stdout", text="x"))
        log.append(StreamEvent(name="stderr", text="ValueError: bad\n", source="error"))

    assert (await recovered(directory, clock, put_out)).stderr == "ValueError: bad\n"


async def test_a_value_that_was_printed_already_is_no_result(directory: Path, clock: ManualClock) -> None:
    def put_out(log: ExecutionLog) -> None:
        log.append(ResultEvent(text="1"))
        log.append(StreamEvent(name="stdout", text="1\n", source="result"))

    result = await recovered(directory, clock, put_out)
    assert (result.stdout, result.result) == ("1\n", "")


async def test_what_the_code_cleared_is_counted_not_shown(directory: Path, clock: ManualClock) -> None:
    def put_out(log: ExecutionLog) -> None:
        log.append(StreamEvent(name="stdout", text="old text"))
        log.append(StreamEvent(name="stderr", text="old"))
        log.append(DisplayEvent(index=0, mime_types=("image/png",), size_bytes=10))
        log.append(ResultEvent(text="old value"))
        log.append(ClearedEvent(wait=True))
        log.append(StreamEvent(name="stdout", text="new"))

    result = await recovered(directory, clock, put_out)
    assert (result.stdout, result.stderr, result.result) == ("new", "", "")
    assert result.cleared is not None
    assert (result.cleared.stdout_chars, result.cleared.stderr_chars) == (8, 3)
    assert result.rich_outputs[0].error_info == ErrorInfo(reason="OUTPUT_CLEARED")


async def test_long_text_is_shortened_and_says_so(directory: Path, clock: ManualClock) -> None:
    def put_out(log: ExecutionLog) -> None:
        for number in range(1_000):
            log.append(StreamEvent(name="stdout", text=f"line {number:04}\n"))

    result = await recovered(directory, clock, put_out, limits=CaptureLimits(inline_chars=100))
    assert result.output_truncated
    assert result.truncation is not None
    cut = result.truncation.stdout
    assert cut is not None
    assert (cut.total_chars, cut.total_bytes, cut.total_lines) == (10_000, 10_000, 1_000)
    assert cut.kept_head_chars + cut.kept_tail_chars + cut.omitted_chars == 10_000
    assert cut.kept_head_chars + cut.kept_tail_chars <= 100
    assert result.stdout.startswith("line 0000\n")
    assert result.stdout.endswith("line 0999\n")
    lines = (10_000 - cut.kept_head_chars - cut.kept_tail_chars) // 10
    assert (
        f"… {cut.omitted_chars} characters ({lines} lines) not shown; read {SESSION}/executions/id/stdout …\n"
        in result.stdout
    )


async def test_text_that_only_the_spill_has_is_in_the_result(directory: Path, clock: ManualClock) -> None:
    def put_out(log: ExecutionLog) -> None:
        log.append(StreamEvent(name="stdout", text="in events, "))
        log.spill("stdout").write(b"in events, then ")
        log.spill("stdout").write("only beside: ä".encode())
        log.append(ResultEvent(text="sho…"))
        log.spill("result").write(b"shown before")
        log.spill("result").write(b"the whole value")
        log.note("result", {"offset": 12, "sizeBytes": 15})

    result = await recovered(directory, clock, put_out)
    assert result.stdout == "in events, then only beside: ä"
    assert result.result == "the whole value"


async def test_an_output_without_an_event_keeps_its_place(directory: Path, clock: ManualClock) -> None:
    def put_out(log: ExecutionLog) -> None:
        log.append(DisplayEvent(index=0, mime_types=("image/png",), size_bytes=1))
        log.append(DisplayEvent(index=2, mime_types=("image/png",), size_bytes=1))

    result = await recovered(directory, clock, put_out)
    assert [output.index for output in result.rich_outputs] == [0, 1, 2]
    assert result.rich_outputs[1].error_info is not None


async def test_a_record_that_makes_no_sense_still_gets_its_end(directory: Path, clock: ManualClock) -> None:
    def put_out(log: ExecutionLog) -> None:
        log.append(StreamEvent(name="stdout", text="x"))
        log.note("result", {"offset": "nowhere", "sizeBytes": []})

    result = await recovered(directory, clock, put_out)
    assert result.outcome is Outcome.RUNTIME_LOST
    assert result.notices is not None
    assert result.notices[-1].reason == "OUTPUT_LOST"


async def test_the_text_can_be_shown_in_another_way(directory: Path, clock: ManualClock) -> None:
    class Upper:
        def __init__(self, limit: int) -> None:
            self.text = ""

        def write(self, text: str) -> None:
            self.text += text.upper()

        def clear(self) -> int:
            return 0

        def render(self, pointer: str) -> tuple[str, None]:
            return self.text, None

    def put_out(log: ExecutionLog) -> None:
        log.append(StreamEvent(name="stdout", text="text"))

    assert (await recovered(directory, clock, put_out, view=Upper)).stdout == "TEXT"


async def test_the_id_of_a_lost_execution_is_not_run_again(directory: Path, clock: ManualClock) -> None:
    journal = await Journal.open(directory, clock=clock, retention=RetentionLimits())
    log = await journal.begin(start("id"))
    log.mark_sent()
    await crash(journal)
    async with opened(directory, clock) as journal:
        found = journal.find(session=SESSION, runtime=None, execution_id="id")
        assert isinstance(found, Entry)
        assert found.outcome is Outcome.RUNTIME_LOST


async def test_an_orderly_close_leaves_the_unfinished_to_the_next_owner(
    directory: Path, clock: ManualClock
) -> None:
    async with opened(directory, clock) as journal:
        log = await journal.begin(start("id"))
        log.mark_sent()
        done = await journal.begin(start("done"))
        done.finish(ok(done))
    async with opened(directory, clock) as journal:
        assert journal.recovered == [log.name]
    async with opened(directory, clock) as journal:
        assert journal.recovered == []


async def test_rows_that_were_never_written_are_found_in_the_files(
    directory: Path, clock: ManualClock
) -> None:
    journal = await Journal.open(directory, clock=clock, retention=RetentionLimits())
    for number in range(5):
        log = await journal.begin(start(f"id-{number}"))
        log.finish(ok(log))
    lost = await journal.begin(start("lost"))
    lost.mark_sent()
    await crash(journal)
    async with opened(directory, clock) as journal:
        assert journal.recovered == [lost.name]
        assert len(journal.list(SESSION).entries) == 6
        assert (await journal.verify()).ok


async def test_a_row_whose_record_is_gone_becomes_a_tombstone(directory: Path, clock: ManualClock) -> None:
    """As after power loss with normal durability: what the index knows must not be forgotten."""
    journal = await Journal.open(directory, clock=clock, retention=RetentionLimits())
    done = await journal.begin(start("done"))
    done.finish(ok(done))
    running = await journal.begin(start("running"))
    await journal._held.run(journal._index.flush)
    await crash(journal)
    for log in (done, running):
        record_file(directory, log.uid).unlink()
    async with opened(directory, clock) as journal:
        for log in (done, running):
            assert journal.was_evicted(log.name)
            assert journal.get(log.name) is None
        assert (await journal.verify()).ok


@pytest.mark.parametrize("content", [b"", bytes(5_000), b"CELLREC1", b"CELLREC1" + bytes(64)])
async def test_a_file_that_was_never_begun_is_removed(
    directory: Path, clock: ManualClock, content: bytes
) -> None:
    journal = await Journal.open(directory, clock=clock, retention=RetentionLimits())
    log = await journal.begin(start())
    path = record_file(directory, log.uid)
    await crash(journal)
    path.write_bytes(content)
    async with opened(directory, clock) as journal:
        assert journal.recovered == []
        assert not path.exists()
        assert (await journal.verify()).ok


async def test_a_file_that_cannot_be_read_is_left_and_reported(directory: Path, clock: ManualClock) -> None:
    journal = await Journal.open(directory, clock=clock, retention=RetentionLimits())
    log = await journal.begin(start())
    path = record_file(directory, log.uid)
    await crash(journal)
    path.write_bytes(b"CELLREC1" + b"rubbish" * 100)
    async with opened(directory, clock) as journal:
        report = await journal.verify()
        assert report.unreadable.listed == [log.uid]
        assert report.index_ok
        assert not report.ok
    assert path.exists()


PROGRAM = """
import asyncio, sys
from pathlib import Path
from cellhouse.journal import Journal, StartRecord
from cellhouse.model import RetentionLimits, StreamEvent, SystemClock, mint_uid

async def main():
    journal = await Journal.open(Path(sys.argv[1]), clock=SystemClock(), retention=RetentionLimits())
    log = await journal.begin(StartRecord(
        uid=mint_uid(), name="runtimes/r/sessions/s/executions/x", session="runtimes/r/sessions/s", runtime="runtimes/r",
        execution_id="x", code="1", code_sha256="0", target="session", created="2026-01-02T03:04:05.678Z"))
    log.mark_sent()
    log.append(StreamEvent(name="stdout", text="printed before the end"))
    print("ready", flush=True)
    await log.wait(1)

asyncio.run(main())
"""


async def test_a_killed_process_leaves_all_it_had_recorded(directory: Path, clock: ManualClock) -> None:
    source = str(Path(cellhouse.__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(directory)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": source},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    async with opened(directory, clock) as journal:
        assert journal.recovered == ["runtimes/r/sessions/s/executions/x"]
        log = journal.get(journal.recovered[0])
        assert log is not None
        assert log.finished is not None
        assert log.finished.stdout == "printed before the end"
        assert log.finished.outcome is Outcome.RUNTIME_LOST


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
async def test_any_prefix_of_a_record_is_recovered(
    tmp_path: Path, clock: ManualClock, data: st.DataObject
) -> None:
    """Cut anywhere, or damaged anywhere: what stands before is kept, and the execution gets its one end."""
    directory = Path(tempfile.mkdtemp(dir=tmp_path))
    journal = await Journal.open(directory, clock=clock, retention=RetentionLimits())
    log = await journal.begin(start("id"))
    ends = [log._facts.end]
    log.mark_sent()
    for number in range(8):
        log.append(StreamEvent(name="stdout", text=f"{number}\n"))
        ends.append(log._facts.end)
    await journal._held.run(journal._index.flush)
    await crash(journal)
    path = record_file(directory, log.uid)
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(ends[0], len(content) - 1))
    if data.draw(st.booleans()):
        del content[at:]
    else:
        content[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    kept = sum(end <= at for end in ends[1:])
    async with opened(directory, clock) as journal:
        assert journal.recovered == [log.name]
        again = journal.get(log.name)
        assert again is not None
        result = again.finished
        assert result is not None
        whole = "".join(f"{number}\n" for number in range(8))
        assert whole.startswith(result.stdout)
        assert result.stdout.startswith("".join(f"{number}\n" for number in range(kept)))
        seqs = [event.seq for event in again.read(0)]
        assert seqs == list(range(1, len(seqs) + 1))
        assert (await journal.verify()).ok


async def test_the_lock_file_says_what_the_next_owner_needs(directory: Path, clock: ManualClock) -> None:
    async with opened(directory, clock, durability="full"):
        told = json.loads((directory / "lock").read_text())
        assert told["pid"] == os.getpid()
        assert told["durability"] == "full"
        assert told["bootId"]
