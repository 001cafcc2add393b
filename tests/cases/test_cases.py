"""The shared cases, one test each: what users of this field suffered, and what is right instead."""

from pathlib import Path
from typing import Any

import pytest

from cellhouse.environments import Environment
from tests.cases.runner import holds, load_cases, run_case

pytestmark = pytest.mark.cases

CASES = load_cases()

KERNELS = ("native", "python3")
# What ipykernel can't meet, with the reason; the native kernel meets all. Strict: one that passes must go.
IPYKERNEL_CHECKS: dict[str, str] = {}
IPYKERNEL_STRETCHES: dict[str, str] = {
    "capture-magic-error": "ipykernel replies ok to an error under %%capture, and the reply decides",
    "cancel-shell-child": "ipykernel's `!` swallows the interrupt that ended the child; the cell runs on to its end",
    "kill-9": "ipykernel holds printed text back for a moment; what had not left the process dies with it",
    "stdout-closed": "ipykernel flushes a closed sys.stdout outside the cell, and never replies again",
}


def _over_kernels(cases: list[dict[str, Any]], reasons: dict[str, str]) -> list[Any]:
    parameters = []
    for case in cases:
        for kernel in KERNELS:
            reason = reasons.get(case["id"]) if kernel == "python3" else None
            marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
            parameters.append(pytest.param(case, kernel, id=f"{case['id']}-{kernel}", marks=marks))
    return parameters


def test_every_mark_names_a_case() -> None:
    assert {*IPYKERNEL_CHECKS, *IPYKERNEL_STRETCHES} <= {case["id"] for case in CASES}
    assert len(CASES) == 53


@pytest.mark.parametrize(("case", "kernel"), _over_kernels(CASES, IPYKERNEL_CHECKS))
async def test_case(case: dict[str, Any], kernel: str, environment: Environment, tmp_path: Path) -> None:
    results = await run_case(case, kernel, environment, tmp_path / "state")
    assert holds(case["check"], results), case["expect"]


@pytest.mark.parametrize(
    ("case", "kernel"), _over_kernels([case for case in CASES if case.get("stretch")], IPYKERNEL_STRETCHES)
)
async def test_stretch(case: dict[str, Any], kernel: str, environment: Environment, tmp_path: Path) -> None:
    results = await run_case(case, kernel, environment, tmp_path / "state")
    assert holds(case["stretch"], results), case["expect"]
