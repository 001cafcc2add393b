"""What a process that gives up root still reaches of the host, and its giving up.

Who is not root any more can't go through directories that are closed to everybody, such as root's home. So a keeper has a
mount namespace of its own, in which those are covered by empty ones that lead to what it needs, under its own name, and to
nothing else. The namespace is seen by nobody else, and goes with the last process in it.
"""

import contextlib
import ctypes
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from cellhouse.sandbox.privileged import starter
from cellhouse.sandbox.privileged.uids import Identity

COVER_BYTES: Final = 65_536
SYS_OPEN_TREE: Final = 428  # the same on every architecture; Linux 5.2
SYS_MOVE_MOUNT: Final = 429
OPEN_TREE_CLONE: Final = 1
MOVE_MOUNT_F_EMPTY_PATH: Final = 4
PR_SET_DUMPABLE: Final = 4
_QUIET: Final = starter.MS_NOSUID | starter.MS_NODEV | starter.MS_NOEXEC


def narrow(read_only: Iterable[Path], writable: Iterable[Path]) -> int:
    """Enter a mount namespace of its own in which these paths can be reached by everybody, as far as they let anybody in.

    A descriptor of the namespace. OSError where it can't be. Called by root, in a process of one thread. What lies beside
    them in a directory that is closed to everybody is not to be seen any more, not even by root.
    """
    starter.check(starter.LIBC.unshare(starter.CLONE_NEWNS), "a mount namespace")
    starter.mount("none", "/", "none", starter.MS_REC | starter.MS_SLAVE)
    wanted = dict.fromkeys(read_only, False) | dict.fromkeys(writable, True)
    covers: dict[Path, list[tuple[Path, int, bool]]] = {}
    # Held before anything is covered, the shorter first: one may lead through another.
    for path in sorted(wanted, key=lambda each: len(each.parts)):
        if (closed := _closed_above(path)) is not None:
            held = os.open(path, os.O_PATH | os.O_CLOEXEC)
            below = closed.resolve() / path.relative_to(closed)
            covers.setdefault(closed.resolve(), []).append((below, held, wanted[path]))
    for cover, entries in covers.items():
        options = f"mode=0755,size={COVER_BYTES}"
        starter.mount("cellhouse", str(cover), "tmpfs", _QUIET, options)
        for target, held, writes in entries:
            _bind(held, target, writable=writes)
            os.close(held)
        starter.mount(
            "none", str(cover), "none", starter.MS_REMOUNT | starter.MS_BIND | starter.MS_RDONLY | _QUIET
        )
    return os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)


def _closed_above(path: Path) -> Path | None:
    """The first directory on the way to it that not everybody can go through."""
    for parent in reversed(path.parents):
        if not parent.stat().st_mode & stat.S_IXOTH:
            return parent
    return None


def _bind(held: int, target: Path, *, writable: bool) -> None:
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if stat.S_ISDIR(os.fstat(held).st_mode):
        target.mkdir(mode=0o755, exist_ok=True)
    else:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    starter.mount(f"/proc/self/fd/{held}", str(target), "none", starter.MS_BIND | starter.MS_REC)
    if not writable:
        starter.make_readonly(str(target))


def give_up(identity: Identity, own: int | None = None) -> None:
    """Stop being root for good: no capability, none to be had again, no core, nobody's to look into.

    With `own`, that is who this process is to those who would signal or trace it (its real and its saved uid), while
    what it opens and makes is the identity's.
    """
    starter.take_on(identity.uid, identity.gid, own)
    starter.check(starter.LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "no dumps")


def unreachable(paths: Iterable[Path]) -> Iterator[Path]:
    """Which of these this process can't read, or not list or enter where they are directories."""
    for path in paths:
        modes = os.R_OK | os.X_OK if os.path.isdir(path) else os.R_OK
        if not os.access(path, modes, effective_ids=True):
            yield path


def show(path: Path, namespace: int) -> None:
    """What is mounted at this path here is mounted there too, in another mount namespace. OSError where it can't be.

    Called by root, in a process of one thread. The path must lead to the same place there.
    """
    given = ctypes.c_char_p(os.fsencode(path))
    tree = starter.LIBC.syscall(
        SYS_OPEN_TREE, starter.AT_FDCWD, given, ctypes.c_uint(OPEN_TREE_CLONE | os.O_CLOEXEC)
    )
    if tree < 0:
        starter.check(-1, f"a second mount of {path}")
    pid = os.fork()
    if pid == 0:
        number = 1
        try:
            number = _move(tree, given, namespace)
        finally:
            os._exit(number & 0xFF)
    os.close(tree)
    number = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if number:
        raise OSError(abs(number), f"{path} can't be mounted for its keeper: {os.strerror(abs(number))}")


def _move(tree: int, path: ctypes.c_char_p, namespace: int) -> int:
    if starter.LIBC.setns(namespace, starter.CLONE_NEWNS) != 0:
        return ctypes.get_errno()
    flags = ctypes.c_uint(MOVE_MOUNT_F_EMPTY_PATH)
    if starter.LIBC.syscall(SYS_MOVE_MOUNT, tree, ctypes.c_char_p(b""), starter.AT_FDCWD, path, flags) != 0:
        return ctypes.get_errno()
    return 0
