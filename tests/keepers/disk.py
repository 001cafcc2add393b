"""A file system of a test's own, that can fail, and lose what was not synced, as a disk does."""

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.sandbox.support import until

needs_disk = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("mkfs.ext4", "e2fsck", "mount"))),
    reason="needs root, who can mount an ext4 of a test's own",
)


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

    async def unmount(self, *, all_of_it: bool = False) -> None:
        """When nobody has anything there any more; with what is mounted from it still, where nobody could clear it up."""
        await until(lambda: self._unmounted(all_of_it))

    def _unmounted(self, all_of_it: bool) -> bool:
        mounted = [Path(line.split()[1]) for line in Path("/proc/self/mounts").read_text().splitlines()]
        ours = [path for path in reversed(mounted) if path.is_relative_to(self.path)]
        return (all_of_it or len(ours) < 2) and all(
            subprocess.run(["umount", path], check=False, capture_output=True).returncode == 0
            for path in ours
        )

    def mend(self) -> None:
        subprocess.run(["e2fsck", "-y", self._image], check=False, capture_output=True, timeout=60)

    def snapshot(self) -> None:
        """Keep what is on the device now: all that was synced, and of the rest what happens to have been written."""
        done("cp", "--sparse=always", self._image, self._image.with_name("snapshot"))

    async def go_back(self) -> None:
        """As if the power had gone at the last snapshot."""
        await self.unmount()
        self._image.with_name("snapshot").replace(self._image)
        self.mount()
