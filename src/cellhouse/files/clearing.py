"""Emptying a directory that hostile code filled: however deep, whatever its modes, in constant memory."""

import contextlib
import os
import secrets
import stat
from pathlib import Path

from cellhouse.files.beneath import PATH_FLAGS, expect_directory, open_beneath, open_listing
from cellhouse.files.names import escape_name

CLEAR_NAMES = 50_000_000
_LISTING = 1_000


def clear_directory(dir_fd: int, limit: int = CLEAR_NAMES) -> int:
    """Remove what lies beneath `dir_fd`; the number of names removed. See `HostileDir.clear`."""
    removed = 0
    fd = open_listing(dir_fd, b"")
    try:
        while removed < limit and (names := _listing(fd)):
            for raw in names:
                removed += _remove(fd, raw)
    finally:
        os.close(fd)
    return removed


def _remove(top: int, raw: bytes) -> int:
    """Remove one name of `top`, or some of what is in it; the number of names that went."""
    if _unlinked(top, raw):
        return 1
    inner = _open_to_clear(top, raw)
    removed = 0
    try:
        names = _listing(inner)
        for name in names:
            if _unlinked(inner, name):
                removed += 1
            else:
                _lift(inner, name, top)
    finally:
        os.close(inner)
    if len(names) == _LISTING:
        return removed
    os.rmdir(raw, dir_fd=top)
    return removed + 1


def _lift(dir_fd: int, raw: bytes, top: int) -> None:
    """Move a directory up under a passing name."""
    passing = b".cellhouse-%s.gone" % secrets.token_hex(8).encode()
    try:
        os.rename(raw, passing, src_dir_fd=dir_fd, dst_dir_fd=top)
    except PermissionError:
        # To move a directory is to rewrite its "..": it must be writable itself.
        os.close(_open_to_clear(dir_fd, raw))
        os.rename(raw, passing, src_dir_fd=dir_fd, dst_dir_fd=top)


def _unlinked(dir_fd: int, raw: bytes) -> bool:
    """Unlink a name; False where it is a directory, which then is ours to open and empty."""
    try:
        os.unlink(raw, dir_fd=dir_fd)
    except FileNotFoundError:
        return True
    except IsADirectoryError:
        return False
    return True


def _open_to_clear(top: int, raw: bytes) -> int:
    """A readable descriptor of a directory, opened up first where the code inside closed it to its owner: us."""
    try:
        inner = open_listing(top, raw)
    except PermissionError:
        held = open_beneath(top, raw, PATH_FLAGS)
        try:
            expect_directory(held, escape_name(raw))
            Path(f"/proc/self/fd/{held}").chmod(0o700)
            return open_listing(held, b"")
        finally:
            os.close(held)
    if os.fstat(inner).st_mode & stat.S_IRWXU != stat.S_IRWXU:
        with contextlib.suppress(PermissionError):
            # Not ours to change; whether it can be emptied all the same shows when it is.
            os.fchmod(inner, 0o700)
    return inner


def _listing(fd: int) -> list[bytes]:
    """The first names of a directory: a bounded list, taken before anything is changed."""
    names: list[bytes] = []
    with os.scandir(fd) as found:
        for entry in found:
            names.append(os.fsencode(entry.name))
            if len(names) == _LISTING:
                break
    return names
