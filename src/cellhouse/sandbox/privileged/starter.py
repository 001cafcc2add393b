"""Root's last words before a sandbox: goes into its groups, puts up its view of the host, becomes its uid, and execs.

Run as ``python -I -S -B starter.py PLAN PROGRAM [ARGUMENT ...]`` by root, with the descriptors that the program is to
have. Only the standard library, no threads, no file that the sandbox could have touched. PLAN is JSON::

    {"parent": pid, "uid": ..., "gid": ..., "enter": [a group's cgroup.procs, ...],
     "placing": [[a descriptor, the number that the program is to have it under], ...],
     "place": an empty directory, "view": [[path of the host, name below the place, whether it can be written], ...]}

In a mount namespace of this process alone, each path of `view` is bound below `place`: so the uid, for which the
host's own way there may be closed, reaches what its walls are made of, and nothing else that was closed to it. The
namespace goes with the last process in it; of the host's mounts it sees what comes and goes, the host sees nothing of
its own. Then the uid and the gid are taken on for good: no other group, no capability, none to be had again.

What fails is told on standard error, with the step that failed, and ends this with status 125.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import signal
import stat
import sys

TYPE_CHECKING = False  # typing is not imported: it is a tenth of the time that a start takes
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

SAYS = "cellhouse starter"
FAILED = 125
PLACE_BYTES = 65_536

CLONE_NEWNS = 0x20000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_SLAVE = 32, 4096, 16384, 1 << 19
PR_SET_PDEATHSIG, PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 23, 24, 38
SYS_MOUNT_SETATTR = 442  # the same on every architecture; Linux 5.12
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
CAPABILITIES = 64

LIBC = ctypes.CDLL(None, use_errno=True)


class MountAttr(ctypes.Structure):
    """struct mount_attr of mount_setattr(2)."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns")]


def check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    given = [text.encode(errors="surrogateescape") for text in (source, target, kind, data)]
    check(LIBC.mount(given[0], given[1], given[2], ctypes.c_ulong(flags), given[3]), f"mount {target}")


def make_readonly(target: str) -> None:
    """The mount and all below it; the one only, where the kernel of the host is older than 5.12."""
    wanted = MountAttr(set=MS_RDONLY)
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    path = ctypes.c_char_p(target.encode(errors="surrogateescape"))
    flags = ctypes.c_uint(AT_RECURSIVE)
    if LIBC.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, path, flags, ctypes.byref(wanted), size) == 0:
        return
    if ctypes.get_errno() != errno.ENOSYS:
        check(-1, f"make {target} read-only")
    kept = os.statvfs(target).f_flag & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC)
    mount("none", target, "none", MS_REMOUNT | MS_BIND | MS_RDONLY | kept)


def put_up(place: str, view: Sequence[tuple[str, str, bool]]) -> None:
    """The view, in a mount namespace of our own."""
    check(LIBC.unshare(CLONE_NEWNS), "a mount namespace")
    mount("none", "/", "none", MS_REC | MS_SLAVE)
    # Held before anything is covered: a path may lead through the place itself.
    held = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path, _, _ in view]
    mount("cellhouse", place, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, f"mode=0755,size={PLACE_BYTES}")
    for descriptor, (_, name, writable) in zip(held, view, strict=True):
        target = os.path.join(place, name)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.mkdir(target, 0o755)
        else:
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        mount(f"/proc/self/fd/{descriptor}", target, "none", MS_BIND | MS_REC)
        if not writable:
            make_readonly(target)
        os.close(descriptor)
    mount("none", place, "none", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)


def put_in_place(placing: Sequence[tuple[int, int]]) -> None:
    if not placing:
        return
    above = 1 + max(place for _, place in placing)
    # Out of the way first: one that comes to stand at a number must not close another that is yet to move.
    moved = [(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, above), place) for descriptor, place in placing]
    for descriptor, _ in placing:
        os.close(descriptor)
    for descriptor, place in moved:
        os.dup2(descriptor, place)


def enter(groups: Sequence[str]) -> None:
    for path in groups:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        os.write(descriptor, b"0")
        os.close(descriptor)


def take_on(uid: int, gid: int, own: int | None = None) -> None:
    """Become this uid and gid for good; what there is of a real and a saved one is `own`, where that is another."""
    held = (uid, gid) if own is None else (own, own)
    for capability in range(CAPABILITIES):
        if LIBC.prctl(PR_CAPBSET_READ, ctypes.c_ulong(capability), 0, 0, 0) == 1:
            check(
                LIBC.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0),
                f"drop capability {capability}",
            )
    os.setgroups([])
    os.setresgid(held[1], gid, held[1])
    os.setresuid(held[0], uid, held[0])
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0), "no new privileges")
    uids, gids = (held[0], uid, held[0]), (held[1], gid, held[1])
    if os.getresuid() != uids or os.getresgid() != gids or os.getgroups():
        raise PermissionError(errno.EPERM, "it is still somebody else")


def become(plan: dict[str, Any], argv: Sequence[str]) -> NoReturn:
    """OSError says which step failed."""
    step: Callable[[], None]
    for name, step in (
        ("groups", lambda: enter(plan["enter"])),
        ("view", lambda: put_up(plan["place"], plan["view"])),
        ("uid", lambda: take_on(plan["uid"], plan["gid"])),
    ):
        try:
            step()
        except OSError as error:
            raise OSError(error.errno, f"{name}: {error.strerror or error}") from error
    # Taken on with the uid, this is lost; asked for before the parent is looked at, no moment is left open.
    check(LIBC.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0), "the parent's death")
    if os.getppid() != plan["parent"]:
        os._exit(FAILED)
    os.chdir("/")
    put_in_place(plan["placing"])
    # What the interpreter ignores, or whoever started it, an exec would hand on.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    try:
        os.execve(argv[0], list(argv), {})
    except OSError as error:
        raise OSError(error.errno, f"exec: {argv[0]}: {error.strerror}") from error


def main() -> None:
    with contextlib.suppress(BrokenPipeError):
        try:
            become(json.loads(sys.argv[1]), sys.argv[2:])
        except OSError as error:
            os.write(2, f"{SAYS}: {error.strerror or error}\n".encode("utf-8", "backslashreplace"))
    os._exit(FAILED)


if __name__ == "__main__":
    main()
