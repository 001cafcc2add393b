"""CodeResult: the runner's view; counts are JSON numbers."""

import json

import pytest

from cellhouse.model import CodeArtifact, CodeResult, CodeTruncated, ErrorInfo, Outcome


def test_a_result_of_few_words_still_says_how_it_went() -> None:
    assert CodeResult(ok=False).to_wire() == {"ok": False, "stdout": "", "stderr": ""}


def test_a_full_result_has_every_name_of_the_contract() -> None:
    result = CodeResult(
        ok=False,
        exit_code=0,
        stdout="a",
        stderr="b",
        artifacts=(CodeArtifact(name="x", bytes=2, uri="u", media_type="a/b", data=b"hi", ref="r"),),
        truncated=CodeTruncated(stdout=True, of_chars=2**40, stdout_chars=2**40),
        outcome=Outcome.TIMED_OUT,
        outcome_info=ErrorInfo(reason="EXECUTION_TIMEOUT"),
    )
    assert result.to_wire() == {
        "ok": False,
        "exitCode": 0,
        "stdout": "a",
        "stderr": "b",
        "artifacts": [{"name": "x", "bytes": 2, "uri": "u", "mediaType": "a/b", "data": "aGk=", "ref": "r"}],
        "truncated": {"stdout": True, "ofChars": 2**40, "stdoutChars": 2**40},
        "outcome": "TIMED_OUT",
        "outcomeInfo": {"reason": "EXECUTION_TIMEOUT", "domain": "cellhouse"},
    }
    assert CodeResult.from_wire(json.loads(result.to_json())) == result


def test_no_files_and_no_report_are_different_facts() -> None:
    assert CodeResult(ok=True, artifacts=()).to_wire()["artifacts"] == []
    assert "artifacts" not in CodeResult(ok=True).to_wire()
    assert CodeResult.from_wire({"ok": True, "artifacts": []}).artifacts == ()
    assert CodeResult.from_wire({"ok": True, "artifacts": None}).artifacts is None


def test_an_exit_status_may_be_that_of_a_signal() -> None:
    assert CodeResult(ok=False, exit_code=-9).to_wire()["exitCode"] == -9


def test_a_stream_that_was_not_cut_is_not_named() -> None:
    with pytest.raises(ValueError, match="stdout"):
        CodeTruncated.from_wire({"stdout": False})
