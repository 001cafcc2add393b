"""Runtimes and sessions on the wire."""

import pytest

from cellhouse.model import (
    Enforcement,
    Isolation,
    IsolationLayer,
    LimitReport,
    Runtime,
    RuntimeSpec,
    RuntimeStatus,
    Session,
    SessionStatus,
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
    with pytest.raises(ValueError, match=r"idleSeconds|idle_seconds"):
        RuntimeSpec(idle_seconds=value)


def test_how_native_kernels_start_is_one_of_two_ways() -> None:
    assert RuntimeSpec(start="fresh").to_wire() == {"environment": "default", "start": "fresh"}
    assert RuntimeSpec.from_wire({"start": "zygote"}).start == "zygote"
    with pytest.raises(ValueError, match="start"):
        RuntimeSpec.from_wire({"start": "warm"})
