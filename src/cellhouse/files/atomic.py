"""Whole files put in place at once, in directories that are ours alone."""

import os
import secrets
from pathlib import Path

from cellhouse.files.errors import disk_full_named
from cellhouse.files.incoming import write_all


def sync_dir(path: Path) -> None:
    """Make the names in a directory survive power loss."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomic(path: Path, data: bytes, durable: bool = False, *, mode: int = 0o600) -> None:
    """Put `data` at `path`, whole or not at all; `durable` makes it survive power loss. Raises DiskFull."""
    passing = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    with disk_full_named(str(path)):
        fd = os.open(passing, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            try:
                write_all(fd, data)
                os.fchmod(fd, mode)
                if durable:
                    os.fsync(fd)
            finally:
                os.close(fd)
            passing.rename(path)
        except BaseException:
            passing.unlink(missing_ok=True)
            raise
        if durable:
            sync_dir(path.parent)
