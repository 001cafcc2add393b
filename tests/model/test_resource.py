"""Runtimes and sessions on the wire."""

import pytest

from cellhouse.model import (
    Enforcement,
    InvalidArgument,
    Isolation,
    IsolationLayer,
    LimitReport,
    Runtime,
    RuntimeSpec,
    RuntimeStatus,
    Session,
    SessionStatus,
    WallLimits,
)


def test_a_runtime_tells_what_is_in_force() -> None:
    runtime = Runtime(
        name="runtimes/a",
        status=RuntimeStatus.ACTIVE,
        environment="default",
        isolation=Isolation(
            level="bubblewrap",
            layers=(IsolationLayer(name="pid namespace", status="in force", detail="own"),),
        ),
        limits=(
            LimitReport(name="memory", value=2**31, enforcement=Enforcement.WATCHED),
            LimitReport(name="cpus", value=1.5, enforcement=Enforcement.EXACT),
            LimitReport(name="network", enforcement=Enforcement.NONE),
        ),
        network_policy="none",
        sessions=(),
        expire_time="2026-01-02T03:04:05.678Z",
    )
    assert runtime.to_wire() == {
        "name": "runtimes/a",
        "status": "ACTIVE",
        "environment": "default",
        "isolation": {
            "level": "bubblewrap",
            "layers": [{"name": "pid namespace", "status": "in force", "detail": "own"}],
        },
        "limits": [
            {"name": "memory", "value": 2**31, "enforcement": "watched"},
            {"name": "cpus", "value": 1.5, "enforcement": "exact"},
            {"name": "network", "enforcement": "none"},
        ],
        "networkPolicy": "none",
        "sessions": [],
        "expireTime": "2026-01-02T03:04:05.678Z",
    }


def test_a_session_that_waits_for_nothing_says_so() -> None:
    session = Session(name="runtimes/a/sessions/b", status=SessionStatus.IDLE, queued=0)
    assert session.to_wire() == {"name": "runtimes/a/sessions/b", "status": "IDLE", "queued": 0}


def test_a_spec_at_its_defaults_leaves_the_walls_to_the_house() -> None:
    assert RuntimeSpec().to_wire() == {"environment": "default"}


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_an_idle_time_is_above_zero(value: float) -> None:
    with pytest.raises(InvalidArgument, match=r"idleSeconds|idle_seconds"):
        RuntimeSpec(idle_seconds=value)


def test_how_native_kernels_start_is_one_of_two_ways() -> None:
    assert RuntimeSpec(start="fresh").to_wire() == {"environment": "default", "start": "fresh"}
    assert RuntimeSpec.from_wire({"start": "zygote"}).start == "zygote"
    with pytest.raises(InvalidArgument, match="start"):
        RuntimeSpec.from_wire({"start": "warm"})


def test_limits_that_are_named_go_over_the_defaults_and_are_remembered_as_named() -> None:
    spec = RuntimeSpec.from_wire(
        {"limits": {"memory": "134217728", "cpus": 0.5, "exact": ["memory", "content"]}}
    )
    assert spec.limits is not None
    assert spec.to_wire()["limits"] == {"memory": "134217728", "cpus": 0.5, "exact": ["memory", "content"]}
    limits = spec.limits.over(WallLimits(open_files=512))
    assert limits == WallLimits(memory=134_217_728, cpus=0.5, open_files=512)
    assert limits.named == {"memory", "cpus", "content"}
    assert limits.exact == {"memory", "content"}


@pytest.mark.parametrize("field", ["memory", "cpus", "processes", "content", "openFiles", "fileSize"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "much", [], 10**30, "-5"])
def test_a_limit_that_is_none_is_refused_with_its_field_and_its_rule(field: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match=r"takes a .*number of .* at least") as refused:
        RuntimeSpec.from_wire({"limits": {field: value}})
    assert refused.value.metadata["field"] == f"limits.{field}"


@pytest.mark.parametrize(
    "document", [{"limits": 5}, {"limits": {"exact": ["inodes"]}}, {"limits": {"exact": 1}}]
)
def test_limits_of_a_wrong_shape_are_refused(document: object) -> None:
    with pytest.raises(InvalidArgument) as refused:
        RuntimeSpec.from_wire(document)
    assert refused.value.metadata["field"].startswith("limits")
