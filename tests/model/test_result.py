"""ExecuteCodeResult: exact wire names, presence, and the rules between its fields."""

import pytest

from cellhouse.model import (
    Artifact,
    Cleared,
    ErrorInfo,
    ExecuteCodeResult,
    ExecutionError,
    ExecutionState,
    Late,
    Notice,
    NoticeReason,
    Outcome,
    RichOutput,
    SessionState,
    TextCut,
    Truncation,
    Usage,
)

CUT = TextCut(
    total_bytes=100,
    total_chars=90,
    total_lines=0,
    kept_head_chars=5,
    kept_tail_chars=5,
    omitted_chars=80,
    spilled_bytes=100,
)
CUT_WIRE = {
    "totalBytes": "100",
    "totalChars": "90",
    "totalLines": "0",
    "keptHeadChars": "5",
    "keptTailChars": "5",
    "omittedChars": "80",
    "spilledBytes": "100",
}


def test_a_quiet_result_is_short() -> None:
    result = ExecuteCodeResult(
        execution="runtimes/a/sessions/b/executions/c",
        session="runtimes/a/sessions/b",
        state=ExecutionState.FINISHED,
        outcome=Outcome.OK,
    )
    assert result.ok
    assert result.to_wire() == {
        "session": "runtimes/a/sessions/b",
        "execution": "runtimes/a/sessions/b/executions/c",
        "state": "FINISHED",
        "outcome": "OK",
    }


def test_a_full_result_has_every_name_of_the_contract() -> None:
    result = ExecuteCodeResult(
        execution_id="c",
        session="runtimes/a/sessions/b",
        execution_count=3,
        stdout="out",
        stderr="err",
        result="1",
        execution_error=ExecutionError(name="ValueError", value="bad", traceback=("frame",)),
        output_truncated=True,
        rich_outputs_dropped=True,
        rich_outputs=(
            RichOutput(
                mime_types=("image/png",), size_bytes=7, file_path="/content/x", revision=0, modified=False
            ),
            RichOutput(index=1, mime_types=("text/html",), error_info=ErrorInfo(reason="DISK_FULL")),
        ),
        execution="e",
        state=ExecutionState.FINISHED,
        outcome=Outcome.ERROR,
        outcome_info=ErrorInfo(reason="CODE_RAISED", metadata={"exitStatus": "1"}),
        session_state=SessionState.PRESERVED,
        truncation=Truncation(stdout=CUT, traceback=CUT),
        cleared=Cleared(stdout_chars=4),
        artifacts=(
            Artifact(name="a.csv", bytes=0, media_type="text/csv", sha256="00", mtime="t", ref="art_x"),
        ),
        usage=Usage(wall_seconds=0.0, peak_memory_bytes=2**40),
        late=Late(stdout_bytes=1, displays=2),
        notices=(Notice(reason=NoticeReason.FRESH_KERNEL, text="fresh"),),
        start_time="2026-01-02T03:04:05.678Z",
        end_time="2026-01-02T03:04:06.000Z",
    )
    assert result.to_wire() == {
        "executionId": "c",
        "session": "runtimes/a/sessions/b",
        "executionCount": 3,
        "stdout": "out",
        "stderr": "err",
        "result": "1",
        "executionError": {"name": "ValueError", "value": "bad", "traceback": ["frame"]},
        "outputTruncated": True,
        "richOutputsDropped": True,
        "richOutputs": [
            {
                "mimeTypes": ["image/png"],
                "sizeBytes": "7",
                "filePath": "/content/x",
                "revision": 0,
                "modified": False,
            },
            {
                "index": 1,
                "mimeTypes": ["text/html"],
                "errorInfo": {"reason": "DISK_FULL", "domain": "cellhouse"},
            },
        ],
        "execution": "e",
        "state": "FINISHED",
        "outcome": "ERROR",
        "outcomeInfo": {"reason": "CODE_RAISED", "domain": "cellhouse", "metadata": {"exitStatus": "1"}},
        "sessionState": "PRESERVED",
        "truncation": {"stdout": CUT_WIRE, "traceback": CUT_WIRE},
        "cleared": {"stdoutChars": "4", "stderrChars": "0"},
        "artifacts": [
            {
                "name": "a.csv",
                "bytes": "0",
                "mediaType": "text/csv",
                "sha256": "00",
                "mtime": "t",
                "ref": "art_x",
            }
        ],
        "usage": {"wallSeconds": 0.0, "peakMemoryBytes": "1099511627776"},
        "late": {"stdoutBytes": "1", "stderrBytes": "0", "displays": 2},
        "notices": [{"reason": "FRESH_KERNEL", "text": "fresh"}],
        "startTime": "2026-01-02T03:04:05.678Z",
        "endTime": "2026-01-02T03:04:06.000Z",
    }
    assert ExecuteCodeResult.from_json(result.to_json()) == result


@pytest.mark.parametrize(("artifacts", "written"), [((), {"artifacts": []}), (None, {})])
def test_no_files_and_no_report_are_different_facts(
    artifacts: tuple[Artifact, ...] | None, written: dict[str, object]
) -> None:
    result = ExecuteCodeResult(execution="e", state=ExecutionState.QUEUED, artifacts=artifacts)
    assert result.to_wire() == {"execution": "e", "state": "QUEUED", **written}
    assert ExecuteCodeResult.from_wire(result.to_wire()).artifacts == artifacts


def test_a_raised_error_without_words_is_still_present() -> None:
    result = ExecuteCodeResult(
        execution="e",
        state=ExecutionState.FINISHED,
        outcome=Outcome.ERROR,
        execution_error=ExecutionError(),
    )
    assert result.to_wire()["executionError"] == {}
    assert ExecuteCodeResult.from_wire(result.to_wire()).execution_error == ExecutionError()


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"state": "FINISHED"}, "outcome must be set"),
        ({"state": "RUNNING", "outcome": "OK"}, "outcome must be set"),
        ({"state": "FINISHED", "outcome": "ERROR"}, "executionError must be set"),
        ({"state": "FINISHED", "outcome": "OK", "executionError": {}}, "executionError must be set"),
        ({"state": "RUNNING", "executionError": {}}, "executionError must be set"),
        ({"state": "RUNNING", "outputTruncated": True}, "outputTruncated must be true"),
        ({"state": "RUNNING", "truncation": {"stdout": CUT_WIRE}}, "outputTruncated must be true"),
        ({"state": "RUNNING", "truncation": {"value": CUT_WIRE}, "outputTruncated": True}, "outputTruncated"),
        ({"state": "RUNNING", "richOutputsDropped": True}, "richOutputsDropped must be true"),
        (
            {"state": "RUNNING", "richOutputs": [{"mimeTypes": ["a/b"], "filePath": "x"}]},
            "richOutputsDropped must be true",
        ),
        ({"state": "SLEEPING"}, "state"),
        ({"state": "FINISHED", "outcome": "MAYBE"}, "outcome"),
    ],
)
def test_a_result_that_contradicts_itself_is_refused(wrong: dict[str, object], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        ExecuteCodeResult.from_wire({"execution": "e", **wrong})


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"mimeTypes": ["a/b"]}, "exactly one"),
        ({"mimeTypes": ["a/b"], "filePath": "x", "errorInfo": {"reason": "DISK_FULL"}}, "exactly one"),
        ({"mimeTypes": ["a/b"], "sizeBytes": "1", "errorInfo": {"reason": "DISK_FULL"}}, "sizeBytes"),
        ({"mimeTypes": [], "filePath": "x"}, "mimeTypes"),
        ({"filePath": "x"}, "mimeTypes"),
    ],
)
def test_a_rich_output_was_written_or_dropped(wrong: dict[str, object], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        RichOutput.from_wire(wrong)


def test_a_dropped_output_keeps_its_place_and_has_no_size() -> None:
    dropped = RichOutput(index=4, mime_types=("image/png",), error_info=ErrorInfo(reason="OUTPUT_TOO_LARGE"))
    assert dropped.dropped
    assert dropped.to_wire() == {
        "index": 4,
        "mimeTypes": ["image/png"],
        "errorInfo": {"reason": "OUTPUT_TOO_LARGE", "domain": "cellhouse"},
    }


def test_a_notice_with_a_newer_reason_is_read() -> None:
    notice = Notice.from_wire({"reason": "FROM_THE_FUTURE", "text": "x"})
    assert notice.reason == "FROM_THE_FUTURE"


def test_the_outcomes_are_the_closed_set_of_the_contract() -> None:
    assert [*Outcome] == [
        "OK",
        "ERROR",
        "INTERRUPTED",
        "TIMED_OUT",
        "OUT_OF_MEMORY",
        "RESOURCE_KILLED",
        "EXITED",
        "KERNEL_DIED",
        "SESSION_DELETED",
        "RUNTIME_LOST",
        "NEVER_STARTED",
    ]
