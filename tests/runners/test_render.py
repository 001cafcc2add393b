"""A result in words: every fact is there, before any output, and within bounds."""

from typing import Any

import pytest

from cellhouse.model import (
    CodeArtifact,
    CodeDisplay,
    CodeResult,
    CodeTruncated,
    ErrorInfo,
    InvalidArgument,
    Notice,
    Outcome,
    SessionState,
)
from cellhouse.runners import render


def test_output_alone() -> None:
    assert render(CodeResult(ok=True, stdout="hi\n")) == "ok\nstdout:\nhi"


def test_nothing_printed_is_said() -> None:
    assert render(CodeResult(ok=True)) == "ok\nprinted nothing"


def test_a_failure_with_all_that_there_is_to_say() -> None:
    result = CodeResult(
        ok=False,
        exit_code=3,
        stdout="out",
        stderr="err\n",
        outcome=Outcome.EXITED,
        outcome_info=ErrorInfo(reason="KERNEL_EXITED", metadata={"exitStatus": "3"}),
        session_state=SessionState.RESET,
        truncated=CodeTruncated(stderr=True, of_chars=12_345),
        notices=(Notice(reason="SESSION_EVICTED", text="gone\nok"),),
        artifacts=(
            CodeArtifact(name="a.txt", bytes=1, ref="art_1", media_type="text/plain"),
            CodeArtifact(name="x\nfiles: none", bytes=20),
        ),
        displays=(
            CodeDisplay(index=0, mime_types=("image/png", "text/html"), bytes=77, path="/content/o.json"),
            CodeDisplay(index=1, mime_types=("text/html",), error_info=ErrorInfo(reason="DISK_FULL")),
        ),
    )
    assert render(result, inputs={"data.csv": "/content/inputs/data.csv"}).split("\n") == [
        "failed: EXITED, KERNEL_EXITED (exitStatus 3)",
        "exit status: 3",
        "session: reset; variables and imports are gone, files stay, the next call gets a fresh kernel",
        "stderr was cut: only its beginning and its end are shown; it had 12345 characters",
        r"notice SESSION_EVICTED: gone\nok",
        'input "data.csv": /content/inputs/data.csv',
        "files:",
        '- "a.txt", 1 byte, text/plain, ref art_1',
        r'- "x\\nfiles: none", 20 bytes, no ref',
        "shown:",
        "- 0: image/png text/html, 77 bytes, in /content/o.json",
        "- 1: text/html, dropped: DISK_FULL",
        "stdout:",
        "out",
        "stderr:",
        "err",
    ]


@pytest.mark.parametrize(
    ("out", "err"), [(10_000, 0), (0, 10_000), (10_000, 10_000), (10_000, 50), (50, 10_000)]
)
def test_what_is_over_the_budget_is_cut_and_said(out: int, err: int) -> None:
    text = render(CodeResult(ok=True, stdout="o" * out, stderr="e" * err), max_chars=1_000)
    for name, letter, count in (("stdout", "o", out), ("stderr", "e", err)):
        assert (f"{name} was cut" in text) is (count == 10_000)
        assert (f"it had {count} characters" in text) is (count == 10_000)
        if count == 50:
            assert letter * 50 in text
    shown = sum(len(line) for line in text.split("\n") if set(line) <= {"o", "e"})
    assert 990 <= shown <= 1_000 or out + err < 1_000


def test_a_cut_of_the_runner_and_one_for_the_budget_tell_the_first_length() -> None:
    cut = CodeTruncated(stdout=True, of_chars=999_999, stdout_chars=999_999)
    text = render(CodeResult(ok=True, stdout="o" * 5_000, truncated=cut), max_chars=1_000)
    assert "it had 999999 characters" in text
    assert "\n… 998999 characters not shown; they were not kept …\n" in text
    named = CodeResult(
        ok=True, stdout="o" * 5_000, truncated=cut, execution="runtimes/r/sessions/s/executions/e"
    )
    assert "not shown; read stdout of runtimes/r/sessions/s/executions/e …" in render(named, max_chars=1_000)


def test_lists_are_bounded_and_say_so() -> None:
    files = tuple(CodeArtifact(name=f"f{n}" + "x" * 5_000, bytes=n) for n in range(200))
    displays = tuple(CodeDisplay(index=n, mime_types=("a/b",), bytes=1) for n in range(200))
    notices = tuple(Notice(reason="R", text="t" * 5_000) for _ in range(50))
    text = render(CodeResult(ok=True, artifacts=files, displays=displays, notices=notices))
    assert text.count("- and 150 more, not listed here") == 2
    assert "and 30 more notices" in text
    assert "(5002 characters)" in text
    assert len(text) < 40_000


@pytest.mark.parametrize("chars", [0, 199, True, 1.5, "8000"])
def test_what_is_no_budget_is_refused(chars: Any) -> None:
    with pytest.raises(InvalidArgument, match="max_output_chars"):
        render(CodeResult(ok=True), max_chars=chars)
