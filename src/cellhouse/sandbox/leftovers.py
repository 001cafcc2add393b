"""What a sandbox leaves on the host, and its removal: by the sandbox itself, or after the death of its service."""

import contextlib
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from cellhouse.files import HostileDir
from cellhouse.sandbox.limits.content_disk import CONTENT
from cellhouse.sandbox.limits.leftovers import remove_limit_leftovers

RUN: Final = "run"  # the runtime directory, or a link to it where its own path is too long
HOME: Final = "home"
TMP: Final = "tmp"
SHORT_PARENT: Final = Path("/tmp")
SHORT_PREFIX: Final = "cellhouse-"


def make_short(link: Path) -> Path:
    """A private directory with a short path; `link` says, after a death of this process, which one it was."""
    remove(link)
    made = Path(tempfile.mkdtemp(prefix=SHORT_PREFIX, dir=SHORT_PARENT))
    try:
        link.symlink_to(made)
    except OSError:
        made.rmdir()
        raise
    return made


def remove(path: Path) -> None:
    """Remove a directory that hostile code has filled, a link with what we made behind it, or nothing."""
    if path.is_symlink():
        behind = Path(os.path.normpath(path.parent / path.readlink()))
        if behind.parent == SHORT_PARENT and behind.name.startswith(SHORT_PREFIX) and _is_ours(behind):
            remove(behind)
        path.unlink()
    elif path.is_dir():
        with HostileDir.open(path) as held:
            while held.clear():
                pass
        path.rmdir()


def _is_ours(path: Path) -> bool:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def remove_leftovers(state: Path) -> None:
    """Remove all that a sandbox made in its state directory, except `content`; for when its service is dead.

    Where /content had a disk of its own, what is on it becomes the directory `content`. OSError where it can't.

    Its processes need no looking for: they end with their service. Blocks for as long as there are files to remove.
    """
    for name in (RUN, HOME, TMP):
        remove(state / name)
    remove_limit_leftovers(state)
    if os.geteuid() == 0:
        # Whoever has that uid next has no claim to what stands there.
        with contextlib.suppress(FileNotFoundError):
            os.chown(state / CONTENT, 0, 0, follow_symlinks=False)
