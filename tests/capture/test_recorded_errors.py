"""Errors that messages and replies tell: the execution's own, or output at their place."""

from pathlib import Path
from typing import Any

import pytest

from tests.capture.rig import (
    clear,
    err,
    error,
    message,
    out,
    rig,
    settled,
)  # fmt: skip


def test_an_error_with_an_error_reply_is_the_executions_own(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(error("ValueError", "bad"))
        assert made.sink.of_type("error")[0]["traceback"] == ["frame of ValueError", "ValueError: bad"]
        made.recorder.feed_reply_error({"ename": "NoneType", "evalue": "None", "traceback": []})
        captured = settled(made, reply_error=True)
        assert captured.stderr == ""
        assert made.recorder.first_error is not None
        assert made.recorder.first_error.traceback == ("frame of ValueError", "ValueError: bad")


NATIVE = (
    f"{'-' * 75}\nZeroDivisionError                         Traceback (most recent call last)",
    "Cell In[1], line 2\n      1 def f():\n----> 2     1/0\n\n",
    "Cell In[1], line 4, in f()\n\t      3\r\n----> 4 f()",
    "ZeroDivisionError: division by zero",
)
"""Frames without colours, as a native kernel formats them: one an entry."""


def test_frames_of_a_native_kernel_are_told_once_and_whole(tmp_path: Path) -> None:
    told = tuple(frame.replace("\r\n", "\n") for frame in NATIVE)
    with rig(tmp_path) as made:
        made.feed(error("ZeroDivisionError", "division by zero", NATIVE))
        reply = {"ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": list(NATIVE)}
        made.recorder.feed_reply_error(reply)
        captured = settled(made, reply_error=True)
        assert (captured.stdout, captured.stderr, captured.truncation) == ("", "", None)
        assert made.recorder.first_error is not None
        assert made.recorder.first_error.traceback == told
        (event,) = made.sink.of_type("error")
        assert tuple(event["traceback"]) == told
        assert made.sink.types() == ["error"]


def test_frames_of_a_native_kernel_that_only_the_reply_tells(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        reply = {"ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": list(NATIVE)}
        made.recorder.feed_reply_error(reply)
        assert settled(made, reply_error=True).stderr == ""
        assert made.recorder.first_error is not None
        assert made.recorder.first_error.traceback[1:] == (NATIVE[1], NATIVE[2].replace("\r", ""), NATIVE[3])


def test_frames_of_a_native_kernel_that_were_output(tmp_path: Path) -> None:
    """Each begins in a line of its own, and no line end is added to one that has it."""
    printed = "".join(frame.replace("\r", "").rstrip("\n") + "\n" for frame in NATIVE)
    printed = printed.replace("    1/0\n", "    1/0\n\n")
    with rig(tmp_path) as made:
        made.feed(err("before"), error("ZeroDivisionError", "division by zero", NATIVE), err("after"))
        assert settled(made).stderr == "before\n" + printed + "after"


def test_case_capture_magic_error(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(err("before\n"), error("ZeroDivisionError", "division by zero"), err("after\n"))
        captured = settled(made)
        assert (
            captured.stderr
            == "before\nframe of ZeroDivisionError\nZeroDivisionError: division by zero\nafter\n"
        )
        assert made.sink.of_type("stream")[-1]["source"] == "error"


def test_of_several_errors_the_first_is_the_executions_and_the_rest_is_output(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(error("A"), err("half a line"), error("B"), err("end\n"), error("C"))
        captured = settled(made, reply_error=True)
        assert captured.stderr == "half a line\nframe of B\nB: bad\nend\nframe of C\nC: bad\n"
        assert made.recorder.first_error is not None
        assert made.recorder.first_error.name == "A"
        assert made.sink.types().count("error") == 3


def test_an_error_that_only_the_reply_tells(tmp_path: Path) -> None:
    with rig(tmp_path, error_value_chars=100) as made:
        made.recorder.feed_reply_error({"ename": "E", "evalue": "v" * 200, "traceback": None})
        captured = settled(made, reply_error=True)
        assert made.recorder.first_error is not None
        assert made.recorder.first_error.value.startswith("v" * 50 + "\n… 100 characters")
        assert captured.truncation is not None
        assert captured.truncation.value is not None
        assert not captured.output_truncated
        assert made.sink.raw("traceback") == "E: " + "v" * 200 + "\nE: " + "v" * 200 + "\n"


def test_cuts_of_an_error_that_was_output_are_none_of_the_results(tmp_path: Path) -> None:
    with rig(tmp_path, traceback_chars=100) as made:
        made.feed(error("E", "v", ["x" * 500]))
        captured = settled(made)
        assert captured.truncation is None
        assert captured.stderr == "x" * 500 + "\n"


def test_an_error_that_the_code_cleared_is_cleared(tmp_path: Path) -> None:
    with rig(tmp_path) as made:
        made.feed(error("E", "v", ["12345"]), clear(), out("on\n"))
        captured = settled(made)
        assert captured.stderr == ""
        assert captured.cleared is not None
        assert captured.cleared.stderr_chars == 6


@pytest.mark.parametrize(
    "content", [{}, {"ename": 3}, {"traceback": None}, {"ename": "E", "evalue": [], "traceback": "text"}]
)
def test_a_garbled_error_is_still_one(tmp_path: Path, content: dict[str, Any]) -> None:
    with rig(tmp_path) as made:
        made.feed(message("error", content), message("error", content))
        captured = settled(made, reply_error=True)
        assert made.recorder.first_error is not None
        assert captured.stderr
