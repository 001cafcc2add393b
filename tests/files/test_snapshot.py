"""Snapshots: which files are new or were written to, bounded, and honest about what was not looked at."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cellhouse.files import HostileDir, SnapshotLimits, changes, snapshot


@pytest.fixture
def held(tmp_path: Path) -> Iterator[HostileDir]:
    with HostileDir.open(tmp_path) as directory:
        yield directory


def test_new_and_changed_files_are_named(held: HostileDir, tmp_path: Path) -> None:
    (tmp_path / "same").write_text("same")
    (tmp_path / "grows").write_text("1")
    (tmp_path / "goes").write_text("1")
    before = snapshot(held)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "a.csv").write_text("1")
    (tmp_path / "grows").write_text("12")
    (tmp_path / "goes").unlink()
    found = changes(before, snapshot(held))
    assert [(change.name, change.created) for change in found] == [("grows", False), ("new/a.csv", True)]
    assert found[0].mark.size == 2


def test_no_change_is_an_empty_list(held: HostileDir, tmp_path: Path) -> None:
    (tmp_path / "same").write_text("same")
    assert changes(snapshot(held), snapshot(held)) == []


def test_a_change_hidden_behind_size_and_mtime_shows_in_ctime(held: HostileDir, tmp_path: Path) -> None:
    path = tmp_path / "sly"
    path.write_text("aaaa")
    os.utime(path, ns=(1, 1))
    before = snapshot(held)
    replacement = tmp_path / "replacement"
    replacement.write_text("bbbb")
    os.utime(replacement, ns=(1, 1))
    replacement.rename(path)
    assert [change.name for change in changes(before, snapshot(held))] == ["sly"]


def test_what_the_service_and_tools_write_is_left_out(held: HostileDir, tmp_path: Path) -> None:
    before = snapshot(held)
    for name in (".dsm_outputs", "__pycache__", ".ipynb_checkpoints", "package/__pycache__"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x").touch()
    (tmp_path / "package" / "module.py").touch()
    (tmp_path / "link").symlink_to("package/module.py")
    os.mkfifo(tmp_path / "pipe")
    assert [change.name for change in changes(before, snapshot(held))] == ["package/module.py"]


def test_a_cut_snapshot_says_so_and_claims_nothing_old(held: HostileDir, tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"old{number:02}").touch()
    few = SnapshotLimits(entries=5)
    before = snapshot(held, few)
    assert before.cut == {"entries"}
    later = type(before)(before.files, before.taken_ns + 3_600 * 10**9, before.cut)
    # Everything that the first look missed is older than it, so nothing of it is new.
    assert changes(later, snapshot(held)) == []
    (tmp_path / "new").touch()
    assert "new" in [change.name for change in changes(before, snapshot(held))]


def test_depth_is_bounded(held: HostileDir, tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c" / "file").touch()
    seen = snapshot(held, SnapshotLimits(depth=2))
    assert seen.cut == {"depth"}
    assert seen.files == {}
