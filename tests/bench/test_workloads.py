"""What is run produces the counts that the bench holds against what arrived."""

import ast
import contextlib
import io
import json
import traceback
from pathlib import Path
from typing import Any

import pytest

from bench.workloads import (
    AGE,
    DEEP,
    FIRST_TEXTS,
    IMPORTS,
    RAISE,
    USED,
    WORK_SECONDS,
    Workload,
    displays,
    html,
    prints,
    updates,
    writes,
)


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


@pytest.mark.parametrize(("code", "frames"), [(RAISE, 0), (DEEP, 6)])
def test_what_raises_is_as_deep_as_it_is_said_to_be(code: str, frames: int) -> None:
    with pytest.raises(ValueError, match="no") as raised:
        exec(code, {})
    names = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert names.count("dive") == frames


@pytest.mark.parametrize("code", FIRST_TEXTS.values())
def test_a_cell_works_on_after_its_first_text(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now, texts = [0.0], io.StringIO()

    def clock() -> float:
        assert texts.getvalue().strip() == "here"
        now[0] += WORK_SECONDS / 10
        return now[0]

    monkeypatch.setattr("time.perf_counter", clock)
    with contextlib.redirect_stdout(texts):
        exec(code, {})
    assert now[0] > WORK_SECONDS


def test_what_is_used_is_what_is_imported_and_ends_in_a_value() -> None:
    assert USED.startswith(IMPORTS)
    assert isinstance(ast.parse(USED).body[-1], ast.Expr)


def test_the_age_of_this_process_is_a_time_that_has_passed() -> None:
    *body, last = ast.parse(AGE).body
    names: dict[str, Any] = {}
    exec(compile(ast.Module(body, []), "age", "exec"), names)
    assert isinstance(last, ast.Expr)
    age = eval(compile(ast.Expression(last.value), "age", "eval"), names)
    assert 0 <= age < float(Path("/proc/uptime").read_text().split()[0]) + 1
