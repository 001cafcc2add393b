"""What a house tells of an execution, as a runner tells it."""

from typing import Any

import pytest

from cellhouse.model import (
    Artifact,
    ArtifactsOmitted,
    ErrorInfo,
    ExecuteCodeResult,
    ExecutionError,
    ExecutionState,
    Outcome,
    RichOutput,
    SessionState,
    TextCut,
    Truncation,
)
from cellhouse.runners.told import code_result


def told(**fields: Any) -> ExecuteCodeResult:
    given = {
        "execution": "runtimes/r/sessions/s/executions/e",
        "state": ExecutionState.FINISHED,
        "outcome": Outcome.OK,
        "session_state": SessionState.PRESERVED,
        "artifacts": (),
    }
    rich = {"rich_outputs_dropped": True} if fields.get("rich_outputs") else {}
    return ExecuteCodeResult(**{**given, **rich, **fields})


def cut(chars: int) -> TextCut:
    return TextCut(
        total_bytes=chars, total_chars=chars, total_lines=1, kept_head_chars=2, kept_tail_chars=2,
        omitted_chars=chars - 4, spilled_bytes=chars,
    )  # fmt: skip


def test_a_value_is_printed_as_on_a_console_and_told_by_itself() -> None:
    result = code_result(told(stdout="a", result="2"))
    assert (result.stdout, result.result) == ("a\n2\n", "2")
    nothing = code_result(told())
    assert (nothing.stdout, nothing.result, nothing.displays) == ("", "", ())
    assert nothing.to_wire()["displays"] == []


def test_a_traceback_is_in_stderr_and_the_error_beside_it() -> None:
    error = ExecutionError(name="ValueError", value="no", traceback=("Traceback", "ValueError: no"))
    result = code_result(told(outcome=Outcome.ERROR, execution_error=error, stderr="warned"))
    assert not result.ok
    assert result.stderr == "warned\nTraceback\nValueError: no\n"
    assert result.error == ExecutionError(name="ValueError", value="no")


def test_a_death_names_its_cause_and_the_exit_status_of_an_exit() -> None:
    result = code_result(
        told(
            outcome=Outcome.EXITED,
            outcome_info=ErrorInfo(reason="KERNEL_EXITED", metadata={"exitStatus": "4"}),
            execution_error=ExecutionError(name="KernelExited", value="with status 4"),
            session_state=SessionState.RESET,
        )
    )
    assert (result.ok, result.exit_code, result.session_state) == (False, 4, SessionState.RESET)
    assert result.stderr == "KernelExited: with status 4\n"


@pytest.mark.parametrize(
    ("outcome", "error", "metadata", "ok"),
    [
        (Outcome.ERROR, ExecutionError(name="SystemExit", value="0"), {}, True),
        (Outcome.ERROR, ExecutionError(name="SystemExit"), {}, True),
        (Outcome.ERROR, ExecutionError(name="SystemExit", value="3"), {}, False),
        (Outcome.ERROR, ExecutionError(name="ValueError", value="0"), {}, False),
        (Outcome.EXITED, ExecutionError(name="KernelExited"), {"exitStatus": "0"}, True),
        (Outcome.EXITED, ExecutionError(name="KernelExited"), {}, False),
        (Outcome.KERNEL_DIED, ExecutionError(name="KernelDied"), {"exitStatus": "0"}, False),
    ],
)
def test_an_exit_without_an_error_is_ok(
    outcome: Outcome, error: ExecutionError, metadata: dict[str, str], ok: bool
) -> None:
    info = ErrorInfo(reason="REASON", metadata=metadata)
    assert code_result(told(outcome=outcome, outcome_info=info, execution_error=error)).ok is ok


def test_a_time_limit_is_named_where_the_exception_does_not() -> None:
    info = ErrorInfo(reason="EXECUTION_TIMEOUT", metadata={"limitSeconds": "2", "endedBy": "interrupt"})
    error = ExecutionError(name="KeyboardInterrupt", traceback=("Traceback",))
    result = code_result(told(outcome=Outcome.TIMED_OUT, outcome_info=info, execution_error=error))
    assert result.stderr == "Traceback\nTimedOut: the code ran longer than 2 s and was interrupted\n"


def test_lengths_before_the_cut_are_those_of_the_streams_as_they_are_here() -> None:
    result = code_result(
        told(
            stdout="ab…yz\n", result="12…89", stderr="ok",
            output_truncated=True, truncation=Truncation(stdout=cut(100), result=cut(1_000)),
        )
    )  # fmt: skip
    assert result.truncated is not None
    assert result.truncated.to_wire() == {
        "stdout": True, "ofChars": 1_101, "stdoutChars": 1_101, "result": True, "resultChars": 1_000,
    }  # fmt: skip
    error = ExecutionError(name="E", value="v", traceback=("frames",))
    both = code_result(
        told(outcome=Outcome.ERROR, execution_error=error, truncation=Truncation(traceback=cut(50_000)))
    )
    assert both.truncated is not None
    assert both.truncated.to_wire() == {"stderr": True, "ofChars": 50_001, "stderrChars": 50_001}


def test_files_keep_their_ref_and_those_without_a_length_are_told_of() -> None:
    result = code_result(
        told(
            artifacts=(
                Artifact(name="a", bytes=0, ref="art_x", media_type="text/plain"),
                Artifact(name="pipe", error_info=ErrorInfo(reason="NOT_REGULAR")),
                Artifact(name="big", bytes=9, attribution="background", error_info=ErrorInfo(reason="QUOTA")),
            ),
            artifacts_omitted=ArtifactsOmitted(files=3, bytes=7, error_info=ErrorInfo(reason="TOO_MANY")),
        ),
        data={"a": b""},
    )
    assert result.to_wire()["artifacts"] == [
        {"name": "a", "bytes": 0, "mediaType": "text/plain", "data": "", "ref": "art_x"},
        {"name": "big", "bytes": 9},
    ]
    assert [notice.text for notice in result.notices or ()] == [
        "files that can't be handed over: pipe (NOT_REGULAR), big (QUOTA)",
        "files that perhaps other work of this session made or changed: big (background)",
        "3 more files of 7 bytes were made or changed and are not listed: TOO_MANY",
    ]
    assert code_result(told(artifacts=None)).artifacts is None


def test_displays_are_described_and_drops_keep_their_place() -> None:
    result = code_result(
        told(
            rich_outputs=(
                RichOutput(index=0, mime_types=("image/png",), size_bytes=9, file_path="/content/x"),
                RichOutput(index=1, mime_types=("text/html",), error_info=ErrorInfo(reason="DISK_FULL")),
            )
        )
    )
    assert [display.to_wire() for display in result.displays or ()] == [
        {"index": 0, "mimeTypes": ["image/png"], "bytes": 9, "path": "/content/x"},
        {"index": 1, "mimeTypes": ["text/html"], "errorInfo": {"reason": "DISK_FULL", "domain": "cellhouse"}},
    ]
