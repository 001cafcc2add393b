"""Opening a path that may not leave the directory it starts from: openat2, or a walk that holds each component.

Linux `openat2(2)` with RESOLVE_BENEATH, NO_SYMLINKS, NO_XDEV and NO_MAGICLINKS decides in the kernel, so nothing that is
swapped meanwhile can lead outside. Where it is missing (before Linux 5.6, or under an old seccomp filter) the walk
opens one component at a time without following, and compares the mount of each with that of the start.
"""

import ctypes
import errno
import os
import stat

from cellhouse.files.errors import PathEscapes
from cellhouse.files.names import escape_name

_SYS_OPENAT2 = 437  # the same number on every architecture
_RESOLVE = 0x01 | 0x02 | 0x04 | 0x08  # NO_XDEV, NO_MAGICLINKS, NO_SYMLINKS, BENEATH
_AT_FDCWD = -100
_RETRIES = 32

# Nothing we open may be followed, inherited, become our terminal, or make us wait.
SAFE_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
# openat2 refuses flags that O_PATH does not know.
PATH_FLAGS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
_syscall.restype = ctypes.c_long


def _openat2(dir_fd: int, path: bytes, flags: int, mode: int) -> int:
    how = _OpenHow(flags, mode, _RESOLVE)
    for _ in range(_RETRIES):
        fd = int(_syscall(_SYS_OPENAT2, dir_fd, path, ctypes.byref(how), ctypes.sizeof(how)))
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        # EAGAIN: a rename went by and the kernel can't tell whether we are still beneath (openat2(2)); EINTR: a signal.
        if code != errno.EINTR and (code != errno.EAGAIN or flags & os.O_PATH == 0):
            break
    raise OSError(code, os.strerror(code), escape_name(path))


def _probe() -> bool:
    try:
        os.close(_openat2(_AT_FDCWD, b".", PATH_FLAGS | os.O_DIRECTORY, 0))
    except OSError as error:
        # Old container filters answer EPERM for calls that they don't know.
        if error.errno in (errno.ENOSYS, errno.EPERM):
            return False
        raise
    return True


HAS_OPENAT2 = _probe()


def _mount_of(fd: int) -> tuple[int, bytes]:
    """Device and mount id: a bind mount has the device of its neighbours but an id of its own."""
    mount = b""
    try:
        with open(f"/proc/self/fdinfo/{fd}", "rb") as info:
            mount = next((line for line in info if line.startswith(b"mnt_id:")), b"")
    except FileNotFoundError:
        mount = b"unknown"
    return os.fstat(fd).st_dev, mount


def _walk(dir_fd: int, path: bytes, flags: int, mode: int) -> int:
    *parents, last = path.split(b"/")
    home = _mount_of(dir_fd)
    here = os.dup(dir_fd)
    try:
        for part in parents:
            below = os.open(part, PATH_FLAGS, dir_fd=here)
            os.close(here)
            here = below
            kind = os.fstat(here).st_mode
            if stat.S_ISLNK(kind):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), escape_name(path))
            if not stat.S_ISDIR(kind):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), escape_name(path))
            if _mount_of(here) != home:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), escape_name(path))
        fd = os.open(last, flags, mode, dir_fd=here)
        if _mount_of(fd) != home:
            os.close(fd)
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), escape_name(path))
        return fd
    finally:
        os.close(here)


def open_beneath(dir_fd: int, path: bytes, flags: int, mode: int = 0) -> int:
    """Open `path` beneath `dir_fd`; a descriptor, close-on-exec. `path` must have passed `names.relative_path`, or be `.`.

    Raises PathEscapes where a component is a symbolic link or another mount, FileNotFoundError, NotADirectoryError and
    the other OSErrors of open(2). A link at the very end is opened itself where `flags` have O_PATH.
    """
    try:
        return (_openat2 if HAS_OPENAT2 else _walk)(dir_fd, path, flags, mode)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EXDEV):
            what = "a symbolic link" if error.errno == errno.ELOOP else "another mount"
            raise PathEscapes(
                f"{escape_name(path)} leads through {what}; only what lies in the directory itself is opened"
            ) from error
        raise


def expect_directory(fd: int, label: str) -> None:
    mode = os.fstat(fd).st_mode
    if stat.S_ISLNK(mode):
        raise PathEscapes(f"{label} is or leads through a symbolic link; only a directory itself is held")
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), label)


def open_listing(dir_fd: int, below: bytes) -> int:
    """A readable descriptor of the directory `below` (empty: itself)."""
    held = open_beneath(dir_fd, below, PATH_FLAGS) if below else os.dup(dir_fd)
    try:
        return os.open(b".", os.O_RDONLY | os.O_DIRECTORY | SAFE_FLAGS, dir_fd=held)
    finally:
        os.close(held)
