"""Which stage a sample counts for."""

import pytest

from bench.profile import REST, STAGES, Process, rows, samples_of, stage_of

ROOT = "main (/lib/cellhouse/cli/app.py:10);run (/lib/cellhouse/runtime/loops.py:13)"


@pytest.mark.parametrize(
    ("process", "stack", "stage"),
    [
        ("service", f"{ROOT};app (/lib/fastapi/routing.py:1);json_object (/lib/cellhouse/doors/bodies.py:9)", 5),
        ("service", f"{ROOT};send (/lib/uvicorn/protocols/http/httptools_impl.py:5)", 0),
        ("keeper", "keep (/lib/cellhouse/keepers/keeper.py:200);_select (/lib/cellhouse/journal/index.py:66)", 3),
        ("keeper", "_work (/lib/cellhouse/runtime/session.py:1);dumps (/usr/lib/json/__init__.py:2)", 7),
        ("kernel", "serve_session (/cellhouse/inside/native/execution.py:9);run (/IPython/core/x.py:3)", 1),
    ],
)  # fmt: skip
def test_a_sample_counts_for_the_innermost_frame_that_is_known(process: str, stack: str, stage: int) -> None:
    assert stage_of(process, stack.split(";")) == STAGES[process][stage][0]


def test_what_is_below_everything_is_the_loops() -> None:
    assert stage_of("service", ROOT.split(";")) == REST


def test_threads_that_wait_are_not_counted() -> None:
    text = f"{ROOT} 3\nrun (/usr/lib/threading.py:1);wait (/usr/lib/threading.py:295) 40\n"
    assert samples_of("service", text) == {REST: 3}


def test_shares_are_told_of_the_cpu_of_an_execution() -> None:
    found = Process(
        "kernel", 0.002, 0.001, samples_of("kernel", "run (/IPython/core/x.py:3) 1\nrun (/y.py:1) 3\n")
    )
    made = {stage: (share, took) for stage, share, took in rows([found])}
    assert made["the cell, by IPython"] == ("25%", "0.50 ms")
    assert made[REST] == ("75%", "1.50 ms")
