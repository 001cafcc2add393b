"""What is run produces the counts that the bench holds against what arrived."""

import contextlib
import io
import json
from typing import Any

import pytest

from bench.workloads import Workload, displays, html, prints, updates, writes


class Screen:
    """Takes the place of IPython's display and counts."""

    def __init__(self) -> None:
        self.shown: list[dict[str, Any]] = []
        self.updated: list[dict[str, Any]] = []

    def display(self, data: dict[str, Any], *, raw: bool, display_id: str | None = None) -> "Screen":
        assert raw
        self.shown.append(data)
        return self

    def update(self, data: dict[str, Any], *, raw: bool) -> None:
        assert raw
        self.updated.append(data)


def _run(workload: Workload) -> tuple[Screen, str]:
    screen, out = Screen(), io.StringIO()
    code = workload.code.replace("from IPython.display import display\n", "")
    with contextlib.redirect_stdout(out):
        exec(code, {"display": screen.display})
    return screen, out.getvalue()


@pytest.mark.parametrize("workload", [writes(1), prints(1_000)])
def test_text_has_the_bytes_and_lines_that_are_expected(workload: Workload) -> None:
    text = _run(workload)[1]
    assert (len(text), text.count("\n")) == (workload.text_bytes, workload.text_lines)


@pytest.mark.parametrize("workload", [displays(20), updates(20), html(1)])
def test_displays_are_as_many_as_expected_and_end_in_the_final_state(workload: Workload) -> None:
    screen, _ = _run(workload)
    assert (len(screen.shown), len(screen.updated)) == (workload.displays, workload.updates)
    assert [*screen.shown, *screen.updated][-1] == {"text/html": workload.html}


def test_each_display_is_one_file_with_what_it_shows_in_the_end() -> None:
    shown = [json.loads(file)["data"]["text/html"] for file in displays(3).files()]
    assert shown == ["<b>0</b>", "<b>1</b>", "<b>2</b>"]
    assert [json.loads(file)["data"]["text/html"] for file in updates(7).files()] == ["<b>7</b>"]
