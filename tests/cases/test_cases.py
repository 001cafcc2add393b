"""The shared cases, one test each: what users of this field suffered, and what is right instead."""

from pathlib import Path
from typing import Any

import pytest

from cellhouse.environments import Environment
from tests.cases.runner import holds, load_cases, run_case

pytestmark = pytest.mark.cases

CASES = load_cases()

# Checks that ipykernel can't meet, with the reason: the native kernel has to. Strict: one that passes must go.
NATIVE_CHECKS: dict[str, str] = {}
NATIVE_STRETCHES: dict[str, str] = {
    "capture-magic-error": "ipykernel replies ok to an error under %%capture, and the reply decides",
    "cancel-shell-child": "ipykernel's `!` swallows the interrupt that ended the child; the cell runs on to its end",
    "kill-9": "ipykernel holds printed text back for a moment; what had not left the process dies with it",
    "stdout-closed": "ipykernel flushes a closed sys.stdout outside the cell, and never replies again",
}


def _marked(case: dict[str, Any], reasons: dict[str, str]) -> Any:
    reason = reasons.get(case["id"])
    marks = [pytest.mark.native, pytest.mark.xfail(reason=reason, strict=True)] if reason else []
    return pytest.param(case, id=case["id"], marks=marks)


def test_every_mark_names_a_case() -> None:
    assert {*NATIVE_CHECKS, *NATIVE_STRETCHES} <= {case["id"] for case in CASES}
    assert len(CASES) == 53


@pytest.mark.parametrize("case", [_marked(case, NATIVE_CHECKS) for case in CASES])
async def test_case(case: dict[str, Any], environment: Environment, tmp_path: Path) -> None:
    results = await run_case(case, environment, tmp_path / "state")
    assert holds(case["check"], results), case["expect"]


@pytest.mark.parametrize("case", [_marked(case, NATIVE_STRETCHES) for case in CASES if case.get("stretch")])
async def test_stretch(case: dict[str, Any], environment: Environment, tmp_path: Path) -> None:
    results = await run_case(case, environment, tmp_path / "state")
    assert holds(case["stretch"], results), case["expect"]
