"""Where tokens lie, `<state>/tokens`, and reading what is there only where nobody else could have written or read it.

tokens/tokens.json   what is known of each token, with the digest of its secret; replaced whole
tokens/local         the text of the token that `serve` made for this account
tokens/lock          held by whoever changes either
"""

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cellhouse.model import MIB, FailedPrecondition

UNSAFE: Final = "TOKENS_UNSAFE"
UNREADABLE: Final = "TOKENS_UNREADABLE"
MAX_BYTES: Final = 8 * MIB
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

Mark = tuple[int, ...]
"""Changes whenever a file or its directory was exchanged, written or given other rights."""


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """The directory of tokens in one state directory; `uid` is whose it has to be."""

    directory: Path
    uid: int

    @classmethod
    def of(cls, state_dir: Path) -> "TokenPlace":
        """That of the account we run as."""
        return cls(state_dir / "tokens", os.geteuid())

    @property
    def tokens(self) -> Path:
        return self.directory / "tokens.json"

    @property
    def local(self) -> Path:
        return self.directory / "local"

    @property
    def lock(self) -> Path:
        return self.directory / "lock"

    def mark(self, path: Path) -> Mark | None:
        """What `path` and the directory are now; None where there is nothing. Two system calls."""
        try:
            around, found = os.lstat(self.directory), os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unreadable(path, error) from None
        return (
            *(around.st_dev, around.st_ino, around.st_mode, around.st_uid),
            *(found.st_dev, found.st_ino, found.st_mode, found.st_uid),
            *(found.st_size, found.st_mtime_ns, found.st_ctime_ns),
        )

    def check(self) -> None:
        """TOKENS_UNSAFE where the directory is not this account's alone; FileNotFoundError where there is none."""
        try:
            found = os.lstat(self.directory)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _unreadable(self.directory, error) from None
        self._check(self.directory, found, stat.S_ISDIR, "directory", "700")

    def read(self, path: Path) -> bytes | None:
        """All of a file there; None where there is none. TOKENS_UNSAFE where others could have written or read it."""
        try:
            self.check()
            fd = os.open(path, _OPEN)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
                raise _unsafe(path, "is no regular file", "remove it") from None
            raise _unreadable(path, error) from None
        try:
            found = os.fstat(fd)
            self._check(path, found, stat.S_ISREG, "regular file", "600")
            data = _read_all(fd)
        except OSError as error:
            raise _unreadable(path, error) from None
        finally:
            os.close(fd)
        if len(data) > MAX_BYTES:
            raise _unsafe(path, f"has more than {MAX_BYTES} bytes", "remove it, and make new tokens")
        return data

    def make(self) -> None:
        """The directory, where it is not there yet."""
        self.directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            self.directory.mkdir(mode=0o700)
        self.check()

    def _check(
        self, path: Path, found: os.stat_result, is_kind: Callable[[int], bool], kind: str, mode: str
    ) -> None:
        if not is_kind(found.st_mode):
            raise _unsafe(path, f"is no {kind}", "remove it")
        if found.st_uid != self.uid:
            raise _unsafe(
                path,
                f"belongs to uid {found.st_uid}, and this is uid {self.uid}",
                f"run as uid {found.st_uid}, or name a state directory of this account",
            )
        if found.st_mode & _OTHERS:
            raise _unsafe(
                path,
                f"is open to other accounts (mode {stat.S_IMODE(found.st_mode):04o})",
                f"see who could have changed it, then: chmod {mode} {path}",
            )


def _read_all(fd: int) -> bytes:
    """At most one byte more than there may be."""
    pieces, left = [], MAX_BYTES + 1
    while left and (piece := os.read(fd, min(left, MIB))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _unsafe(path: Path, what: str, remedy: str) -> FailedPrecondition:
    return FailedPrecondition(
        f"{path} {what}, so no token in it is taken; {remedy}", reason=UNSAFE, metadata={"path": str(path)}
    )


def _unreadable(path: Path, error: OSError) -> FailedPrecondition:
    return FailedPrecondition(
        f"{path} can't be read ({error.strerror or error}), so no token is taken; make it readable for this account",
        reason=UNREADABLE,
        metadata={"path": str(path)},
    )
