"""Backends that lie, lack something, fail or hang: none of it is passed on as truth."""

import time
from pathlib import Path

import pytest

from cellhouse.doctor import LayerStatus, LevelStatus, ProbeOutcome, examine
from cellhouse.environments import Environment
from tests.doctor.support import layers_of, level_of, patient


async def test_walls_that_are_only_claimed_are_told_as_open(tmp_path: Path, environment: Environment) -> None:
    report = await examine(patient(tmp_path / "state", environment, "none", "liar"))
    layers = layers_of(level_of(report, "liar"))
    for name in ("mount", "pid", "network", "user", "ipc", "uid", "seccomp"):
        assert layers[name].status is LayerStatus.OPEN, layers[name]
    # No session of it could be started (the registry does not know it), so nothing is said about what is round one.
    assert layers["landlock"].status is LayerStatus.NOT_SHOWN
    assert not report.ok
    told = "\n".join(report.problems)
    assert "layer 'mount' is claimed, and yet code could open a file of the host" in told
    assert "layer 'landlock' was not shown to stand" in told


async def test_a_layer_that_its_backend_does_not_claim_is_absent_though_it_held(
    tmp_path: Path, environment: Environment
) -> None:
    report = await examine(patient(tmp_path / "state", environment, "none", "modest"))
    layer = layers_of(level_of(report, "modest"))["ipc"]
    assert layer.status is LayerStatus.ABSENT
    assert [probe.outcome for probe in layer.probes] == [ProbeOutcome.HELD]


async def test_a_default_level_that_cannot_be_had_is_a_problem_in_its_own_words(
    tmp_path: Path, environment: Environment
) -> None:
    report = await examine(patient(tmp_path / "state", environment, "lacking"))
    level = level_of(report, "lacking")
    assert level.status is LevelStatus.UNAVAILABLE
    assert level.layers is None
    assert not report.ok
    assert any("the moat is dry; fill it" in problem for problem in report.problems)


async def test_another_level_that_cannot_be_had_is_no_problem(
    tmp_path: Path, environment: Environment
) -> None:
    report = await examine(patient(tmp_path / "state", environment, "lacking", "none"))
    assert level_of(report, "lacking").status is LevelStatus.UNAVAILABLE
    assert level_of(report, "none").status is LevelStatus.AVAILABLE
    assert report.ok, report.problems


async def test_a_backend_that_fails_is_told_as_not_shown(tmp_path: Path, environment: Environment) -> None:
    report = await examine(patient(tmp_path / "state", environment, "broken"))
    level = level_of(report, "broken")
    assert level.status is LevelStatus.NOT_SHOWN
    assert level.detail is not None
    assert "TypeError: a mistake" in level.detail
    assert not report.ok


async def test_a_backend_that_hangs_is_told_as_not_shown_within_the_time(
    tmp_path: Path, environment: Environment
) -> None:
    began = time.monotonic()
    report = await examine(patient(tmp_path / "state", environment, "stuck", seconds=1.0))
    assert time.monotonic() - began < 20
    level = level_of(report, "stuck")
    assert level.status is LevelStatus.NOT_SHOWN
    assert level.layers is None
    assert level.detail is not None
    assert "time" in level.detail
    assert not report.ok


@pytest.mark.parametrize("level", ["none", "bubblewrap"])
async def test_where_time_runs_out_nothing_is_said_to_be_in_force(
    tmp_path: Path, environment: Environment, level: str
) -> None:
    report = await examine(patient(tmp_path / "state", environment, level, seconds=0.01))
    assert not report.ok
    assert level_of(report, level).status is LevelStatus.NOT_SHOWN
    assert LayerStatus.IN_FORCE not in {layer.status for each in report.levels for layer in each.layers or ()}
    assert list((tmp_path / "state").iterdir()) == []


async def test_without_a_counter_proof_nothing_is_said_to_be_in_force(
    tmp_path: Path, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(self: object) -> None:
        raise OSError("no sandbox without walls today")

    monkeypatch.setattr("cellhouse.sandbox.none.NoneSandbox.start", refuse)
    report = await examine(patient(tmp_path / "state", environment, "bubblewrap"))
    level = level_of(report, "bubblewrap")
    assert level.status is LevelStatus.AVAILABLE
    for layer in layers_of(level).values():
        # Whose a process is on the host needs none: it is compared with the service's own.
        if layer.name != "uid":
            assert layer.status is not LayerStatus.IN_FORCE, layer
    assert not report.ok
    assert any("no counter-proof" in problem for problem in report.problems)
