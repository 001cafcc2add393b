"""Cgroups of version 2, over a tree of files that looks like a delegated group: what is written where."""

import os
from pathlib import Path

import pytest

from cellhouse.model import WallLimits
from cellhouse.sandbox.limits.base import GroupUnavailable
from cellhouse.sandbox.limits.cgroup_v2 import SERVICE, GroupV2, delegated

LIMITS = WallLimits(memory=1 << 30, cpus=1.5, processes=99)
FILES = ("memory.max", "memory.swap.max", "pids.max", "cpu.max", "cgroup.procs", "cgroup.subtree_control")


class Tree:
    """/proc/self and a hierarchy. What the kernel puts into a new group is there when `mkdir` has made it."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, controllers: str) -> None:
        self.process, self.root = directory / "proc", directory / "cgroup of tests"
        self.own = self.root / "house.service"
        self.controllers = controllers
        self.process.mkdir()
        self.root.mkdir()
        make = Path.mkdir

        def mkdir(path: Path, *arguments: object, **options: object) -> None:
            make(path, *arguments, **options)  # type: ignore[arg-type]
            if self.root in path.parents:
                for name in FILES:
                    (path / name).touch()
                (path / "cgroup.controllers").write_text(controllers)
                (path / "memory.events").write_text("low 0\noom 3\noom_kill 0\n")

        monkeypatch.setattr(Path, "mkdir", mkdir)
        self.own.mkdir()
        (self.own / "cgroup.procs").write_text(f"{os.getpid()}\n")
        where = str(self.root).replace(" ", r"\040")
        (self.process / "mountinfo").write_text(
            "20 1 0:20 / /proc rw - proc proc rw\n"
            f"30 1 0:30 / {where} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
        )
        (self.process / "cgroup").write_text("4:memory:/old\n0::/house.service\n")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    return Tree(tmp_path, monkeypatch, "cpuset cpu io memory pids\n")


def test_a_group_holds_all_three(tree: Tree) -> None:
    group = GroupV2("cellhouse-1", LIMITS, process=tree.process)
    own, made = tree.own, tree.own / "cellhouse-1"
    assert group.held == {"memory", "cpus", "processes"}
    assert (made / "memory.max").read_text() == str(1 << 30)
    assert (made / "memory.swap.max").read_text() == "0"
    assert (made / "pids.max").read_text() == "99"
    assert (made / "cpu.max").read_text() == "150000 100000"
    # The service is out of the way, and what runs goes where there is nothing below.
    assert (own / SERVICE / "cgroup.procs").read_text() == str(os.getpid())
    assert (own / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"
    assert (made / "cgroup.subtree_control").read_text() == "+memory"
    assert group.entrances == (made / "main" / "cgroup.procs",)
    assert group.directories == (made,)


def test_a_seat_counts_its_own_dead(tree: Tree) -> None:
    group = GroupV2("cellhouse-1", LIMITS, process=tree.process)
    seat = group.seat("s1")
    seat.enter(4711)
    assert (tree.own / "cellhouse-1" / "s1" / "cgroup.procs").read_text() == "4711"
    assert (seat.kills(), group.kills(), group.peak()) == (0, 0, None)
    (tree.own / "cellhouse-1" / "s1" / "memory.events").write_text("oom 1\noom_kill 2\noom_group_kill 0\n")
    (tree.own / "cellhouse-1" / "memory.peak").write_text("12345\n")
    assert (seat.kills(), group.kills(), group.peak()) == (2, 0, 12345)
    seat.leave()
    # Here as where the kernel of the host refuses it for a moment, the directory is still there: nothing is opened anew.
    before = set(os.listdir("/proc/self/fd"))
    assert (seat.kills(), set(os.listdir("/proc/self/fd"))) == (0, before)


def test_a_service_that_has_moved_moves_no_more(tree: Tree) -> None:
    GroupV2("cellhouse-1", LIMITS, process=tree.process)
    (tree.process / "cgroup").write_text(f"0::/house.service/{SERVICE}\n")
    (tree.own / "cgroup.procs").write_text("")
    (tree.own / "cgroup.subtree_control").write_text("cpu memory pids\n")
    assert delegated(tree.process) == tree.own
    assert GroupV2("cellhouse-2", LIMITS, process=tree.process).held == {"memory", "cpus", "processes"}
    assert (tree.own / "cgroup.subtree_control").read_text() == "cpu memory pids\n"


def test_only_what_is_delegated_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree(tmp_path, monkeypatch, "memory pids\n")
    assert GroupV2("cellhouse-1", LIMITS, process=tree.process).held == {"memory", "processes"}


def test_none_without_controllers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree(tmp_path, monkeypatch, "cpuset io\n")
    with pytest.raises(GroupUnavailable, match="none of the controllers memory, pids, cpu"):
        GroupV2("cellhouse-1", LIMITS, process=tree.process)


def test_none_where_others_are_in_the_group(tree: Tree) -> None:
    (tree.own / "cgroup.procs").write_text(f"1\n{os.getpid()}\n")
    with pytest.raises(
        GroupUnavailable, match=r"other processes than this service \(1\); start it in a group"
    ):
        GroupV2("cellhouse-1", LIMITS, process=tree.process)
    assert (tree.own / "cgroup.subtree_control").read_text() == ""


def test_none_where_there_is_no_hierarchy(tree: Tree) -> None:
    (tree.process / "mountinfo").write_text("20 1 0:20 / /proc rw - proc proc rw\n")
    with pytest.raises(GroupUnavailable, match="there is no cgroup v2"):
        GroupV2("cellhouse-1", LIMITS, process=tree.process)


def test_none_where_the_own_group_can_t_be_seen(tree: Tree) -> None:
    (tree.process / "cgroup").write_text("0::/../elsewhere\n")
    with pytest.raises(GroupUnavailable, match="can't be seen"):
        GroupV2("cellhouse-1", LIMITS, process=tree.process)
