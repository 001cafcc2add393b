"""A disk below the state directory that takes nothing any more: told, nothing recorded is lost, reading goes on."""

import errno
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellhouse.environments import Environment
from cellhouse.keepers import KeptHouse, Template
from cellhouse.model import ResourceExhausted
from tests.keepers.support import recorded, run, settings, start
from tests.sandbox.support import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.geteuid() != 0 or not all(map(shutil.which, ("mkfs.ext4", "e2fsck", "mount"))),
        reason="needs root, who can mount an ext4 of a test's own",
    ),
]
NAME = "runtimes/here/sessions/main/executions/"


def done(*argv: str | Path) -> None:
    subprocess.run(list(map(str, argv)), check=True, capture_output=True, timeout=60)


class Disk:
    """A file system in a file, which can fail as a disk does."""

    def __init__(self, directory: Path) -> None:
        self._image, self.path = directory / "image", directory / "disk"
        self.path.mkdir()
        with self._image.open("wb") as file:
            file.truncate(256 << 20)
        done("mkfs.ext4", "-q", "-m", "0", self._image)

    def mount(self, options: str = "rw") -> None:
        done("mount", "-o", f"loop,{options}", self._image, self.path)

    def fail(self) -> None:
        """As after an error of the device: every write fails, also of what is open."""
        subprocess.run(
            ["mount", "-o", "remount,abort", self.path], check=False, capture_output=True, timeout=60
        )
        with pytest.raises(OSError, match=os.strerror(errno.EROFS)):
            (self.path / "probe").write_text("")

    async def unmount(self) -> None:
        """When nobody has anything there any more; with what was mounted from it and could not be cleared up."""
        await until(self._is_unmounted)

    def _is_unmounted(self) -> bool:
        mounted = [Path(line.split()[1]) for line in Path("/proc/self/mounts").read_text().splitlines()]
        ours = [path for path in reversed(mounted) if path.is_relative_to(self.path)]
        return all(
            subprocess.run(["umount", path], check=False, capture_output=True).returncode == 0
            for path in ours
        )

    def mend(self) -> None:
        subprocess.run(["e2fsck", "-y", self._image], check=False, capture_output=True, timeout=60)


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[Disk]:
    made = Disk(tmp_path)
    made.mount()
    yield made
    await made.unmount()


async def test_one_that_fails_while_it_is_used(
    template: Template, environment: Environment, disk: Disk
) -> None:
    own = settings(disk.path / "state", environment, durability="full")
    async with KeptHouse(own, template=template) as house:
        await house.create_runtime(runtime_id="here")
        assert (await run(house, "print('before')", execution_id="before")).stdout == "before\n"
        before = await recorded(house, NAME + "before")
        disk.fail()
        for asked in (start(house, "print('after')", execution_id="after"), house.create_runtime()):
            with pytest.raises(ResourceExhausted, match="read-only") as refused:
                await asked
            assert (refused.value.http, refused.value.reason) == (507, "SERVER_DISK_FULL")
        assert await recorded(house, NAME + "before") == before
        assert (await start(house, "print('before')", execution_id="before")).attached
    await disk.unmount()
    disk.mend()
    disk.mount("ro")
    with pytest.raises((ResourceExhausted, OSError), match=r"[Rr]ead-only"):
        await KeptHouse(own, template=template).__aenter__()
    await disk.unmount()
    disk.mount()
    async with KeptHouse(own, template=template) as house:
        assert await recorded(house, NAME + "before") == before
        assert (await start(house, "print('before')", execution_id="before")).attached
