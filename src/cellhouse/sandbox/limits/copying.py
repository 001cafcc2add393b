"""A copy of a tree that hostile code has made and can change no more: of any depth, with any names, holes as holes."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

COPY_BYTES: Final = 64 * 1024 * 1024  # at once, by the kernel of the host
LINKS: Final = ".links"
"""Beside the copy, for as long as it is made: one name for each file that has several."""


@dataclass(slots=True)
class _Level:
    """A directory on the way down: what is left to do in it, and what it is to look like when that is done."""

    names: Iterator[str]
    found: os.stat_result


def copy_tree(source: Path, target: Path) -> None:
    """Copy what is in `source` into the new directory `target`, with modes, owners and times. OSError where it can't.

    Nobody may change the target meanwhile. Who changes the source gets a copy of whatever there was, or ESTALE where the
    way up is not the way down any more; what lies outside of it is never read. Links are copied as links, devices not
    at all, and no program gets a set-id bit.
    """
    links = target.with_name(target.name + LINKS)
    target.mkdir(mode=0o700)
    links.mkdir(mode=0o700)
    linked = os.open(links, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    here = [os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) for path in (source, target)]
    try:
        # Names only, and two descriptors: a tree may be deeper than a process may have files open.
        levels = [_Level(iter(os.listdir(here[0])), os.fstat(here[0]))]
        while levels:
            name = next(levels[-1].names, None)
            if name is None:
                _finish(here[1], levels.pop().found)
                if levels:
                    _move(here, "..")
                    if not os.path.samestat(os.fstat(here[0]), levels[-1].found):
                        raise OSError(errno.ESTALE, "a directory was moved while it was copied")
                continue
            found = os.stat(name, dir_fd=here[0], follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                os.mkdir(name, 0o700, dir_fd=here[1])
                _move(here, name)
                levels.append(_Level(iter(os.listdir(here[0])), os.fstat(here[0])))
            else:
                _copy(name, found, here[0], here[1], linked)
    finally:
        for descriptor in (*here, linked):
            os.close(descriptor)
    clear_links(target)


def clear_links(target: Path) -> None:
    """Remove what a copy needed beside it while it was made; also one that was broken off."""
    links = target.with_name(target.name + LINKS)
    with contextlib.suppress(FileNotFoundError):
        for entry in list(os.scandir(links)):
            os.unlink(entry.path)
        links.rmdir()


def _move(here: list[int], name: str) -> None:
    for number, descriptor in enumerate(here):
        here[number] = os.open(
            name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor
        )
        os.close(descriptor)


def _copy(name: str, found: os.stat_result, source: int, target: int, linked: int) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFLNK:
        os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
    elif kind == stat.S_IFREG:
        if found.st_nlink > 1:
            with contextlib.suppress(FileNotFoundError):
                os.link(str(found.st_ino), name, src_dir_fd=linked, dst_dir_fd=target)
                return
        _copy_file(name, found.st_size, source, target)
        if found.st_nlink > 1:
            os.link(name, str(found.st_ino), src_dir_fd=target, dst_dir_fd=linked)
    elif kind in (stat.S_IFIFO, stat.S_IFSOCK):
        os.mknod(name, kind | 0o600, dir_fd=target)
    else:
        return
    with contextlib.suppress(PermissionError):
        os.chown(name, found.st_uid, found.st_gid, dir_fd=target, follow_symlinks=False)
    if kind != stat.S_IFLNK:
        os.chmod(name, stat.S_IMODE(found.st_mode) & 0o1777, dir_fd=target)
    os.utime(name, ns=(found.st_atime_ns, found.st_mtime_ns), dir_fd=target, follow_symlinks=False)


def _copy_file(name: str, size: int, source: int, target: int) -> None:
    reading = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=source)
    try:
        if not stat.S_ISREG(os.fstat(reading).st_mode):
            raise OSError(errno.ESTALE, f"{name!r} was replaced while it was copied")
        writing = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=target)
        try:
            os.truncate(writing, size)
            end = 0
            while end < size:
                try:
                    start = os.lseek(reading, end, os.SEEK_DATA)
                except OSError as error:
                    if error.errno == errno.ENXIO:
                        break  # a hole up to its end
                    raise
                end = os.lseek(reading, start, os.SEEK_HOLE)
                os.lseek(reading, start, os.SEEK_SET)
                os.lseek(writing, start, os.SEEK_SET)
                while start < end:
                    sent = os.sendfile(writing, reading, None, min(end - start, COPY_BYTES))
                    if not sent:
                        raise OSError(errno.EIO, f"{name!r} ended early")
                    start += sent
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _finish(target: int, found: os.stat_result) -> None:
    with contextlib.suppress(PermissionError):
        os.fchown(target, found.st_uid, found.st_gid)
    os.fchmod(target, stat.S_IMODE(found.st_mode) & 0o1777)
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
