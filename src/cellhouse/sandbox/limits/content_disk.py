"""A disk of its own for /content: an ext4 in a file, mounted in its place while the sandbox lives. Needs root."""

import contextlib
import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Final

from cellhouse.files import HostileDir
from cellhouse.sandbox.limits.copying import clear_links, copy_tree

IMAGE: Final = "content.img"
CONTENT: Final = "content"
OUT: Final = "content.out"
PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"
SECONDS: Final = 60.0
SAID_CHARS: Final = 500


class DiskUnavailable(Exception):
    """/content can't have a disk of its own; the message says why, as the end of a sentence."""


def mount_disk(state: Path, size: int) -> None:
    """Mount an empty disk of `size` bytes over <state>/content. DiskUnavailable; nothing is left then."""
    if os.geteuid() != 0:
        raise DiskUnavailable("only root can mount a disk")
    image, content = state / IMAGE, state / CONTENT
    if any(content.iterdir()):
        raise DiskUnavailable("/content is not empty")
    before = content.stat()  # whose it is and who may enter holds for the disk too
    try:
        with image.open("xb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.truncate(size)
        _run(
            "mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal,^resize_inode",
            "-E", "lazy_itable_init=1,nodiscard", str(image),
        )  # fmt: skip
        _mount(image, content)
        (content / "lost+found").rmdir()
        os.chown(content, before.st_uid, before.st_gid)
        content.chmod(stat.S_IMODE(before.st_mode))
    except (OSError, DiskUnavailable) as error:
        with contextlib.suppress(DiskUnavailable):  # it is told as it is already
            _unmount(content)
        image.unlink(missing_ok=True)
        raise DiskUnavailable(str(error)) from error


def settle_disk(state: Path) -> None:
    """What is on the disk becomes the directory <state>/content, and the disk is no more. Nothing where there is none.

    All that could write to it has ended. Whatever it finds of an earlier try that was broken off is put in order.
    OSError where it can't be: then all that was written is still in the image.
    """
    image, content, out = state / IMAGE, state / CONTENT, state / OUT
    if not image.exists():
        return
    try:
        content.mkdir(mode=0o700, exist_ok=True)
        if not os.path.ismount(content):  # not since a restart of the machine, say
            _mount(image, content)
        _clear(out)
        clear_links(out)
        copy_tree(content, out)
    except DiskUnavailable as error:
        raise OSError(f"what is in /content can't be taken off its disk {image}: {error}") from error
    try:
        _unmount(content)
    except DiskUnavailable as error:
        raise OSError(f"the disk {image} of /content can't be unmounted: {error}") from error
    content.rmdir()
    out.rename(content)
    image.unlink()


def discard_disk(state: Path) -> None:
    """The disk is no more, and nothing of what is on it: for who removes all of <state>. OSError where it resists."""
    image, content = state / IMAGE, state / CONTENT
    if image.exists() or os.path.ismount(content):
        try:
            _unmount(content)
        except DiskUnavailable as error:
            raise OSError(f"the disk {image} of /content can't be unmounted: {error}") from error
        image.unlink(missing_ok=True)


def _mount(image: Path, content: Path) -> None:
    _run("mount", "-t", "ext4", "-o", "loop,nosuid,nodev,noatime", str(image), str(content))


def _unmount(content: Path) -> None:
    while os.path.ismount(content):
        # Lazily: somebody may still read there. The loop device goes with the last of them.
        _run("umount", "-l", str(content))


def _clear(path: Path) -> None:
    if path.is_dir():
        with HostileDir.open(path) as held:
            while held.clear():
                pass
        path.rmdir()


def _run(program: str, *arguments: str) -> None:
    found = shutil.which(program, path=PATH)
    if found is None:
        raise DiskUnavailable(f"there is no {program} here; install it")
    try:
        done = subprocess.run(
            [found, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={"PATH": PATH, "LC_ALL": "C"},
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DiskUnavailable(f"{program}: {error}") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()[-SAID_CHARS:]
        raise DiskUnavailable(f"{program} failed: {said or done.returncode}")
