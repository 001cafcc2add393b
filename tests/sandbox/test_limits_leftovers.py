"""What limits leave when their service is killed, and a disk of /content that a machine's end left: all of it is settled."""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cellhouse.files import HostileDir
from cellhouse.model import MIB
from cellhouse.sandbox import remove_leftovers
from cellhouse.sandbox.limits.content_disk import DiskUnavailable, mount_disk, settle_disk
from cellhouse.sandbox.limits.leftovers import remove_limit_leftovers
from tests.sandbox.support import ROOT, SECONDS

SIZE = 32 * MIB
VICTIM = """
import asyncio, sys
from pathlib import Path
from cellhouse.model import WallLimits
from cellhouse.sandbox import create_sandbox
from tests.sandbox.support import run_python, spec

async def main():
    sandbox = create_sandbox(sys.argv[1], spec(Path(sys.argv[2]), limits=WallLimits(content=32 << 20)))
    await sandbox.start()
    await run_python(sandbox, "open('file', 'w').write('kept')")
    print([each.detail for each in sandbox.limits], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a disk")


def mounted(path: Path) -> bool:
    return str(path) in Path("/proc/self/mountinfo").read_text(encoding="utf-8")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A state directory whose content has a disk of its own."""
    (tmp_path / "content").mkdir(mode=0o700)
    mount_disk(tmp_path, SIZE)
    yield tmp_path
    settle_disk(tmp_path)


async def test_a_service_that_was_killed(level: str, tmp_path: Path) -> None:
    state = tmp_path / "state"
    victim = await asyncio.create_subprocess_exec(
        sys.executable, "-c", VICTIM, level, str(state), stdout=asyncio.subprocess.PIPE, cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )  # fmt: skip
    assert victim.stdout is not None
    async with asyncio.timeout(SECONDS):
        told = (await victim.stdout.readline()).decode()
        victim.send_signal(signal.SIGKILL)
        await victim.wait()
    noted = state / "groups.json"
    groups = [Path(each) for each in json.loads(noted.read_text())] if noted.exists() else []
    assert bool(groups) is ("'by cgroup" in told)
    assert mounted(state) is ("a disk of its own, what" in told)
    remove_leftovers(state)
    assert not mounted(state)
    assert not any(each.exists() for each in groups)
    assert [path.name for path in state.iterdir()] == ["content"]
    assert (state / "content" / "file").read_text() == "kept"
    remove_leftovers(state)


@only_root
def test_a_disk_is_as_large_as_it_is_said_and_empty(disk: Path) -> None:
    assert os.path.ismount(disk / "content")
    assert list((disk / "content").iterdir()) == []
    assert (disk / "content").stat().st_mode & 0o777 == 0o700
    room = os.statvfs(disk / "content")
    assert SIZE * 0.8 < room.f_bavail * room.f_frsize <= SIZE
    assert (disk / "content.img").stat().st_mode & 0o077 == 0


@only_root
def test_all_that_hostile_code_leaves_comes_off_its_disk_as_it_is(disk: Path) -> None:
    content = disk / "content"
    (content / "link").symlink_to("/etc/passwd")
    (content / os.fsdecode(b"new\nline \xff")).write_text("odd")
    os.mkfifo(content / "fifo")
    with (content / "sparse").open("wb") as file:
        file.truncate(SIZE // 2)
    with (content / "sparse").open("r+b") as file:
        file.seek(SIZE // 4)
        file.write(b"data")
    (content / "sparse").chmod(0o4755)
    os.link(content / "sparse", content / "hard")
    deep = os.open(content, os.O_RDONLY)
    for _ in range(2200):
        os.mkdir("d", dir_fd=deep)
        below = os.open("d", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(deep)
    settle_disk(disk)
    assert not mounted(disk)
    assert os.readlink(content / "link") == "/etc/passwd"
    assert (content / os.fsdecode(b"new\nline \xff")).read_text() == "odd"
    assert (content / "fifo").is_fifo()
    with (content / "sparse").open("rb") as file:
        assert (file.seek(SIZE // 4), file.read(4)) == (SIZE // 4, b"data")
    assert (content / "sparse").stat().st_size == SIZE // 2
    assert (content / "sparse").stat().st_blocks <= 16
    assert (content / "sparse").stat().st_mode & 0o7777 == 0o755
    assert sorted(path.name for path in disk.iterdir()) == ["content"]
    assert (content / "sparse").stat().st_ino == (content / "hard").stat().st_ino
    with HostileDir.open(content) as held:  # which the tests' own removal of files is too shallow for
        while held.clear():
            pass


@only_root
def test_a_disk_that_is_mounted_no_more_is_settled_too(disk: Path) -> None:
    (disk / "content" / "file").write_text("kept")
    (disk / "content.out").mkdir()  # a try that was broken off
    (disk / "content.out" / "half").write_text("half")
    assert os.system(f"umount '{disk}/content'") == 0  # as after the machine's end
    settle_disk(disk)
    assert [path.name for path in (disk / "content").iterdir()] == ["file"]
    assert (disk / "content" / "file").read_text() == "kept"
    assert sorted(path.name for path in disk.iterdir()) == ["content"]


@only_root
def test_the_disk_is_whose_the_directory_was(tmp_path: Path) -> None:
    (tmp_path / "content").mkdir()
    os.chown(tmp_path / "content", 4711, 4712)
    (tmp_path / "content").chmod(0o710)
    mount_disk(tmp_path, SIZE)
    found = (tmp_path / "content").stat()
    settle_disk(tmp_path)
    after = (tmp_path / "content").stat()
    for each in (found, after):
        assert (each.st_uid, each.st_gid, each.st_mode & 0o777) == (4711, 4712, 0o710)


@only_root
def test_no_disk_over_what_is_there_already(tmp_path: Path) -> None:
    (tmp_path / "content").mkdir()
    (tmp_path / "content" / "file").touch()
    with pytest.raises(DiskUnavailable, match="not empty"):
        mount_disk(tmp_path, SIZE)
    assert [path.name for path in tmp_path.iterdir()] == ["content"]


@only_root
def test_no_disk_without_its_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "content").mkdir()
    monkeypatch.setattr(shutil, "which", lambda name, path: None)
    with pytest.raises(DiskUnavailable, match=r"there is no mkfs\.ext4 here; install it"):
        mount_disk(tmp_path, SIZE)
    assert [path.name for path in tmp_path.iterdir()] == ["content"]


def test_nothing_else_than_our_groups_is_removed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    ours = tmp_path / "cellhouse-1"
    for directory in (other, ours, ours / "s1"):
        directory.mkdir()
    for text in (f'["{other}", "{ours}"]', "[1]", "no json", "{}"):
        (tmp_path / "groups.json").write_text(text)
        remove_limit_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
