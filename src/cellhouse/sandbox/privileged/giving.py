"""The directories of a sandbox: made private, and given to its uid with all that stands in them before it begins."""

import errno
import os
import stat
from pathlib import Path

from cellhouse.sandbox.privileged.uids import Identity

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_private(directory: Path) -> None:
    """Make a directory that only its owner can enter. FileExistsError where something else has its name.

    Root may find it another's: what a sandbox with a uid of its own has left.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.is_symlink():
        raise FileExistsError(f"{directory} is a symbolic link; a private directory must be a real one")
    if os.geteuid() not in (0, directory.stat().st_uid):
        raise PermissionError(f"{directory} belongs to another user; a private directory must be one's own")
    directory.chmod(0o700)


def give_tree(top: str | Path, identity: Identity) -> None:
    """OSError where it can't be, ESTALE where somebody moves directories about meanwhile.

    Of links it is the link that is given. One descriptor, and no recursion: the tree may be of any depth.
    """
    here = os.open(top, _FLAGS)
    try:
        found = os.fstat(here)
        if (found.st_uid, found.st_gid) == (identity.uid, identity.gid):
            return
        device = found.st_dev
        levels = [(iter(os.listdir(here)), found)]
        while levels:
            name = next(levels[-1][0], None)
            if name is None:
                levels.pop()
                os.fchown(here, identity.uid, identity.gid)
                if levels:
                    here = _move(here, "..")
                    if not os.path.samestat(os.fstat(here), levels[-1][1]):
                        raise OSError(errno.ESTALE, "a directory was moved while it was given away")
                continue
            found = os.stat(name, dir_fd=here, follow_symlinks=False)
            if found.st_dev != device:
                continue  # another disk is none of what was written here
            if stat.S_ISDIR(found.st_mode):
                here = _move(here, name)
                levels.append((iter(os.listdir(here)), os.fstat(here)))
            else:
                os.chown(name, identity.uid, identity.gid, dir_fd=here, follow_symlinks=False)
    finally:
        os.close(here)


def _move(here: int, name: str) -> int:
    moved = os.open(name, _FLAGS, dir_fd=here)
    os.close(here)
    return moved
