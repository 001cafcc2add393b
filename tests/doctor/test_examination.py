"""The real thing on this machine: what is said to stand was just tried, and nothing is left of the trial."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from jsonschema import Draft202012Validator

from cellhouse.doctor import DoctorReport, LayerStatus, LevelStatus, Patient, ProbeOutcome, examine
from cellhouse.doctor.examination import SECONDS
from cellhouse.environments import Environment
from cellhouse.model import Enforcement
from cellhouse.runtime import Settings
from cellhouse.sandbox import LANDLOCK_LEAST_ABI, LAYERS, landlock_abi, levels
from tests.doctor.support import layers_of, level_of, limits_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMIT_NAMES = {"memory", "cpus", "processes", "content", "openFiles", "fileSize"}
ENDS = 10.0
"""Seconds for the ends of what was started, on a machine that has other things to do."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("doctor") / "state"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def report(state: Path, environment: Environment) -> AsyncIterator[DoctorReport]:
    # Beside other tests all takes longer; that ten seconds do on a quiet machine is shown by the command itself.
    yield await examine(
        Patient(settings=Settings(state_dir=state, environments=(environment.prefix.parent,)), seconds=60.0)
    )


async def test_all_levels_are_told_of_and_none_by_less_than_all_layers_and_limits(
    report: DoctorReport,
) -> None:
    assert tuple(level.level for level in report.levels) == levels()
    for level in report.levels:
        assert level.status is LevelStatus.AVAILABLE, level
        assert tuple(layers_of(level)) == LAYERS
        assert set(limits_of(level)) == LIMIT_NAMES


async def test_the_default_walls_stand_and_code_can_be_run(report: DoctorReport) -> None:
    assert report.problems == ()
    assert report.ok
    found = layers_of(level_of(report, report.default_isolation))
    for name in ("mount", "pid", "network", "user", "ipc", "seccomp"):
        assert found[name].status is LayerStatus.IN_FORCE, found[name]
    expected = LayerStatus.IN_FORCE if landlock_abi() >= LANDLOCK_LEAST_ABI else LayerStatus.ABSENT
    assert found["landlock"].status is expected, found["landlock"]


async def test_what_is_in_force_was_refused_inside_and_reached_without_walls(report: DoctorReport) -> None:
    probes = [
        probe
        for level in report.levels
        for layer in level.layers or ()
        if layer.status is LayerStatus.IN_FORCE and layer.name != "limits"
        for probe in layer.probes
        if probe.outcome is ProbeOutcome.HELD
    ]
    assert len(probes) >= 14
    for probe in probes:
        assert probe.answer not in (None, "reached"), probe
        assert probe.unwalled == "reached", probe


async def test_each_layer_in_force_has_a_probe_that_was_held(report: DoctorReport) -> None:
    for level in report.levels:
        for layer in level.layers or ():
            if layer.status is LayerStatus.IN_FORCE and layer.name != "limits":
                assert ProbeOutcome.HELD in {probe.outcome for probe in layer.probes}, layer


async def test_level_none_has_no_layer_and_every_probe_gets_through(report: DoctorReport) -> None:
    for layer in layers_of(level_of(report, "none")).values():
        assert layer.status is LayerStatus.ABSENT
        assert layer.name == "limits" or layer.remedy is not None
        assert {probe.outcome for probe in layer.probes} <= {ProbeOutcome.REACHED, ProbeOutcome.NOT_SHOWN}
        reached = [probe for probe in layer.probes if probe.outcome is ProbeOutcome.REACHED]
        assert layer.name == "limits" or reached, layer


async def test_limits_are_run_into(report: DoctorReport) -> None:
    found = limits_of(level_of(report, report.default_isolation))
    for name in ("openFiles", "fileSize", "content", "processes", "memory"):
        limit = found[name]
        assert limit.status is LayerStatus.IN_FORCE, limit
        assert limit.enforcement in (Enforcement.EXACT, Enforcement.WATCHED)
        assert limit.probe is not None
        assert limit.probe.outcome is ProbeOutcome.HELD
        assert limit.probe.unwalled == "reached"
    # Whether CPU time is limited can't always be shown where others want it too.
    assert found["cpus"].status in (LayerStatus.IN_FORCE, LayerStatus.NOT_SHOWN, LayerStatus.ABSENT)
    if os.geteuid() == 0:
        assert {limit.enforcement for limit in found.values()} == {Enforcement.EXACT}


async def test_sessions_work_and_how_they_start_is_told(report: DoctorReport) -> None:
    sessions = level_of(report, report.default_isolation).sessions
    assert sessions is not None
    assert sessions.works, sessions
    assert sessions.kernel == "native"
    assert sessions.start == ("zygote" if landlock_abi() >= LANDLOCK_LEAST_ABI else "fresh")


async def test_a_network_policy_lets_through_what_it_names_and_nothing_else(report: DoctorReport) -> None:
    policy = level_of(report, "bubblewrap").network_policy
    assert policy is not None
    assert policy.status is LayerStatus.IN_FORCE, policy
    assert (policy.named, policy.detail) == ("reached", None)
    assert (policy.unnamed or "").startswith(
        "NOT_NAMED: this runtime's network policy does not name 127.0.0.1:"
    )
    assert (policy.direct, policy.without_policy) == ("ECONNREFUSED", "ECONNREFUSED")
    unwalled = level_of(report, "none").network_policy
    assert unwalled is not None
    assert unwalled.status is LayerStatus.ABSENT
    assert "can't be held" in (unwalled.detail or "")


async def test_the_machine_and_the_state_are_told(
    report: DoctorReport, state: Path, environment: Environment
) -> None:
    machine = report.machine
    assert machine.linux == os.uname().release
    assert (machine.uid, machine.root) == (os.geteuid(), os.geteuid() == 0)
    assert machine.landlock_abi == landlock_abi()
    assert machine.bubblewrap.found
    assert machine.user_namespaces.found
    assert report.state.writable
    assert report.state.directory == str(state)
    assert report.state.free_bytes
    (default,) = (each for each in report.environments if each.default)
    assert (default.usable, default.native, default.kernel) == (True, True, "native")
    assert default.ipython == environment.ipython


async def test_the_document_fits_its_schema_and_comes_back_as_it_was(report: DoctorReport) -> None:
    schema = DoctorReport.json_schema()
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(report.to_wire())
    assert DoctorReport.from_json(report.to_json()) == report
    assert "null" not in report.to_json()


async def test_nothing_is_left_where_state_lives(report: DoctorReport, state: Path) -> None:
    assert report.state.writable
    assert list(state.iterdir()) == []
    assert str(state) not in Path("/proc/self/mountinfo").read_text()


async def test_its_time_is_told_and_bounded(report: DoctorReport) -> None:
    assert 0 < report.seconds < 60 + ENDS
    assert SECONDS <= 10
