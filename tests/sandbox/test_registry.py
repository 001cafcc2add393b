"""Which isolation levels there are."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import cellhouse.sandbox
from cellhouse.model import FailedPrecondition
from cellhouse.sandbox import DEFAULT_LEVEL, create_sandbox, levels, registry
from cellhouse.sandbox.none import NoneSandbox
from tests.sandbox.support import spec


class MoatSandbox(NoneSandbox):
    level = "moat"


@pytest.fixture
def moat(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a package with a backend of its own, and one that would like to be ours, were installed."""
    points = [
        EntryPoint(name, f"{__name__}:MoatSandbox", registry.ENTRY_POINTS) for name in ("moat", "bubblewrap")
    ]

    def entry_points(group: str, name: str | None = None) -> list[EntryPoint]:
        return [point for point in points if point.group == group and name in (None, point.name)]

    monkeypatch.setattr(registry, "entry_points", entry_points)


def test_ours() -> None:
    assert levels()[:2] == ("none", "bubblewrap")
    assert DEFAULT_LEVEL == "bubblewrap"


def test_an_unknown_level_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(
        FailedPrecondition, match="'moat' is not known here; known are none, bubblewrap"
    ) as caught:
        create_sandbox("moat", spec(tmp_path / "state"))
    assert caught.value.reason == "ISOLATION_UNAVAILABLE"
    assert caught.value.metadata == {"isolation": "moat"}


@pytest.mark.usefixtures("moat")
def test_a_package_adds_a_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert levels() == ("none", "bubblewrap", "moat")
    monkeypatch.setattr(EntryPoint, "load", lambda self: MoatSandbox)
    assert isinstance(create_sandbox("moat", spec(tmp_path / "state")), MoatSandbox)


@pytest.mark.usefixtures("moat")
def test_a_package_can_not_take_the_place_of_ours(tmp_path: Path) -> None:
    assert not isinstance(create_sandbox("bubblewrap", spec(tmp_path / "state")), MoatSandbox)


def test_what_is_public_exists() -> None:
    assert sorted(cellhouse.sandbox.__all__) == sorted(set(cellhouse.sandbox.__all__))
    assert all(hasattr(cellhouse.sandbox, name) for name in cellhouse.sandbox.__all__)
