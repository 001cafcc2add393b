"""Environments, state, and a Linux without Landlock scopes, as they are told."""

import os
from pathlib import Path

import pytest

from cellhouse.doctor import LayerStatus, LevelStatus, examine
from cellhouse.doctor.surroundings import look_at_environments
from cellhouse.environments import Environment
from cellhouse.sandbox import UidRange
from tests.doctor.support import layers_of, level_of, patient
from tests.environments.fake_prefix import make_base, make_environment


async def test_without_an_environment_walls_are_shown_and_the_remedy_is_told(
    tmp_path: Path, environment: Environment
) -> None:
    report = await examine(
        patient(tmp_path / "state", environment, "none", "bubblewrap", environments=(tmp_path / "nothing",))
    )
    level = level_of(report, "bubblewrap")
    assert level.status is LevelStatus.AVAILABLE, level
    assert layers_of(level)["mount"].status is LayerStatus.IN_FORCE
    assert layers_of(level)["landlock"].status is LayerStatus.NOT_SHOWN
    assert level.sessions is not None
    assert not level.sessions.works
    assert not report.ok
    assert any("make setup" in problem for problem in report.problems)
    assert [each.usable for each in report.environments if each.default] == [False]


async def test_state_that_cannot_be_written_is_told_and_walls_are_shown_elsewhere(
    tmp_path: Path, environment: Environment
) -> None:
    (tmp_path / "file").write_text("no directory")
    report = await examine(patient(tmp_path / "file" / "state", environment, "none", "bubblewrap"))
    assert not report.state.writable
    assert report.state.free_bytes is None
    assert any("CELLHOUSE_STATE_DIR" in problem for problem in report.problems)
    assert layers_of(level_of(report, "bubblewrap"))["mount"].status is LayerStatus.IN_FORCE


@pytest.mark.native
async def test_without_landlock_scopes_sessions_start_fresh_and_it_is_said(
    tmp_path: Path, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("runtime.native", "doctor.sessions", "doctor.remedies"):
        monkeypatch.setattr(f"cellhouse.{place}.landlock_abi", lambda: 5)
    report = await examine(patient(tmp_path / "state", environment, "none", "bubblewrap"))
    level = level_of(report, "bubblewrap")
    assert level.sessions is not None
    assert level.sessions.works, level.sessions
    assert level.sessions.start == "fresh"
    assert "no Landlock scopes" in (level.sessions.detail or "")
    layer = layers_of(level)["landlock"]
    assert layer.status is LayerStatus.ABSENT
    assert "6.12" in (layer.remedy or "")
    assert report.ok, report.problems


def test_environments_that_lack_something_are_told_with_the_remedy(tmp_path: Path) -> None:
    places = tmp_path / "places"
    make_environment(places / "bare", make_base(tmp_path / "base"), kernels=())
    (places / "half").mkdir()
    (places / "half" / "pyvenv.cfg").write_text("home = /nowhere\n")
    found = {each.name: each for each in look_at_environments([places])}
    assert next(iter(found)) == "default"  # though there is none
    assert not found["default"].usable
    assert not found["bare"].usable
    assert "install ipython" in (found["bare"].missing or "")
    assert not found["half"].usable
    assert "make it anew" in (found["half"].missing or "")


def test_an_environment_path_that_is_relative_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELLHOUSE_ENV_PATH", os.path.join("some", "where"))
    (only,) = look_at_environments()
    assert not only.usable
    assert "relative" in (only.missing or "")


@pytest.mark.native
async def test_settings_that_want_fresh_starts_are_told_as_that(
    tmp_path: Path, environment: Environment
) -> None:
    report = await examine(patient(tmp_path / "state", environment, "none", start="fresh"))
    sessions = level_of(report, "none").sessions
    assert sessions is not None
    assert (sessions.works, sessions.start) == (True, "fresh")
    assert sessions.detail == "started fresh, as the settings say"


@pytest.mark.skipif(os.geteuid() != 0, reason="not root: only root gives runtimes uids of their own")
async def test_uids_that_were_named_are_those_of_the_runtimes(
    tmp_path: Path, environment: Environment
) -> None:
    report = await examine(
        patient(tmp_path / "state", environment, "none", "bubblewrap", uids=UidRange(48_000, 48_063))
    )
    layer = layers_of(level_of(report, "bubblewrap"))["uid"]
    assert layer.status is LayerStatus.IN_FORCE, layer
    (probe,) = layer.probes
    assert (probe.answer or "").startswith("missed: uid 480")
