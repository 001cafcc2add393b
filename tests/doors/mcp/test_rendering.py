"""A result in words: within 8,000 characters whatever is in it, and nothing left out in silence."""

import re
from typing import Any

import pytest

from cellhouse.doors.mcp.rendering import BUDGET, rendered
from cellhouse.model import ExecuteCodeResult

EXECUTION = "runtimes/r/sessions/s/executions/e"


def made(**fields: Any) -> ExecuteCodeResult:
    given = {
        "execution": EXECUTION,
        "state": "FINISHED",
        "outcome": "OK",
        "sessionState": "PRESERVED",
        **fields,
    }
    return ExecuteCodeResult.from_wire({name: value for name, value in given.items() if value is not None})


def failed(name: str, value: str, *frames: str, **fields: Any) -> ExecuteCodeResult:
    error = {"name": name, "value": value, "traceback": [*frames, f"{name}: {value}"]}
    return made(outcome="ERROR", executionError=error, **fields)


def test_what_was_printed_and_the_value() -> None:
    assert rendered(made(stdout="hello\n", result="42")) == (
        f"stdout:\nhello\nvalue:\n42\nexecution: {EXECUTION}"
    )


def test_nothing_printed_is_said() -> None:
    assert "Nothing was printed" in rendered(made())
    assert "Nothing was printed" not in rendered(made(stderr="x"))


def test_the_last_frame_and_the_message_of_an_exception() -> None:
    said = rendered(failed("ValueError", "no", "first frame", "last frame"))
    assert "ValueError: no" in said
    assert "last frame" in said
    assert "first frame" not in said
    assert '"stream": "traceback"' in said
    assert "variables are preserved" in said


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("RESET", "variables are lost"),
        ("GONE", "session is gone"),
        ("RESTORED", "restored from a checkpoint"),
    ],
)
def test_what_became_of_the_variables(state: str, words: str) -> None:
    error = {"name": "OutOfMemory", "value": "it was ended by the memory limit"}
    info = {"reason": "MEMORY", "domain": "cellhouse", "metadata": {"limitBytes": "1024"}}
    said = rendered(
        made(
            outcome="OUT_OF_MEMORY",
            executionError=error,
            outcomeInfo=info,
            sessionState=state,
            stdout="so far",
        )
    )
    assert words in said
    assert "OUT_OF_MEMORY (MEMORY: limitBytes 1024)" in said
    assert "so far" in said


def test_a_long_text_has_its_head_its_tail_and_the_call_that_reads_the_rest() -> None:
    text = "".join(f"line {number}\n" for number in range(5_000))
    said = rendered(made(stdout=text))
    assert len(said) <= BUDGET
    assert said.startswith("stdout:\nline 0\nline 1\n")
    assert "line 4999\n" in said
    found = re.search(r"… (\d+) characters \((\d+) lines\) not shown; read read_output (.*) …", said)
    assert found is not None
    shown = said[len("stdout:\n") : found.start()]
    assert f'"offset": {len(shown)}' in found[3]
    tail = said[found.end() + 1 :].partition("\nexecution")[0]
    assert text == f"{shown}{text[len(shown) :][: int(found[1])]}{tail}\n"


def test_a_text_that_was_cut_before_is_told_with_all_that_is_missing() -> None:
    cut = {
        "totalBytes": "1000000", "totalChars": "1000000", "totalLines": "0", "keptHeadChars": "5000",
        "keptTailChars": "5000", "omittedChars": "990000", "spilledBytes": "1000000",
    }  # fmt: skip
    said = rendered(made(stdout="x" * 10_000, outputTruncated=True, truncation={"stdout": cut}))
    found = re.search(r"… (\d+) characters", said)
    assert found is not None
    assert int(found[1]) + said.count("x") == pytest.approx(1_000_000, abs=20)


def test_small_texts_are_whole_beside_a_long_one() -> None:
    said = rendered(made(stdout="o" * 50_000, stderr="a warning\n", result="'the value'"))
    assert "stderr:\na warning\n" in said
    assert "value:\n'the value'\n" in said
    assert len(said) <= BUDGET


def test_rich_outputs_and_files_have_a_line_each_and_what_is_dropped_says_why() -> None:
    outputs = [
        {"mimeTypes": ["image/png"], "sizeBytes": "2048", "filePath": "/content/x"},
        {"index": 1, "mimeTypes": ["text/html"], "errorInfo": {
            "reason": "OUTPUT_TOO_LARGE", "domain": "cellhouse", "metadata": {"sizeBytes": "9", "limitBytes": "8"}}},
    ]  # fmt: skip
    said = rendered(
        made(richOutputsDropped=True, richOutputs=outputs, artifacts=[{"name": "a\nb.csv", "bytes": "12"}])
    )
    assert "[0] image/png, 2,048 bytes" in said
    assert "[1] text/html: dropped, OUTPUT_TOO_LARGE: limitBytes 8, sizeBytes 9" in said
    assert "a b.csv, 12 bytes" in said
    assert "read_rich_output" in said


def test_more_than_have_a_line_are_counted() -> None:
    outputs = [
        {"index": index, "mimeTypes": ["image/png"], "sizeBytes": "1", "filePath": "/content/x"}
        for index in range(100)
    ]
    said = rendered(made(richOutputsDropped=True, richOutputs=outputs))
    assert "88 rich outputs more" in said


def test_the_worst_of_everything_fits() -> None:
    long = "w" * 63
    execution = f"runtimes/{long}/sessions/{long}/executions/{'e' * 128}"
    dropped = {"reason": "X" * 63, "domain": "cellhouse", "metadata": {f"k{n}": "v" * 500 for n in range(20)}}
    said = rendered(
        made(
            execution=execution,
            outcome="ERROR",
            executionError={
                "name": "N" * 5_000,
                "value": "é" * 8_000,
                "traceback": ["f" * 9_000, "g" * 9_000],
            },
            outcomeInfo={
                "reason": "Y" * 63,
                "domain": "cellhouse",
                "metadata": {f"k{n}": "v" * 500 for n in range(20)},
            },
            stdout="s" * 60_000,
            stderr="t\n" * 30_000,
            result="u" * 60_000,
            richOutputsDropped=True,
            richOutputs=[{"index": n, "mimeTypes": ["m" * 300] * 9, "errorInfo": dropped} for n in range(50)],
            artifacts=[{"name": "n" * 4_000, "errorInfo": dropped} for _ in range(50)],
            notices=[{"reason": "NOTICE", "text": "z" * 9_000} for _ in range(50)],
        )
    )
    assert len(said) <= BUDGET
    assert execution in said


def test_what_still_runs_says_so() -> None:
    said = rendered(made(state="RUNNING", outcome=None, sessionState=None, stdout="up to now"))
    assert said.startswith("It still runs.")
    assert "Nothing was printed" not in rendered(made(state="QUEUED", outcome=None, sessionState=None))
