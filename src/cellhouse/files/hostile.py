"""A directory that hostile code writes to, held by a descriptor, and read and written from outside.

Nothing is followed, nothing that is not a regular file is opened, nothing waits, and every read and walk is bounded.
Paths are relative; a `str` is the printable form of `names.escape_name`, so whatever a scan gave can be handed back, and
`bytes` are taken as they are.
"""

import contextlib
import os
import secrets
import stat
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from cellhouse.files.beneath import PATH_FLAGS, SAFE_FLAGS, expect_directory, open_beneath, open_listing
from cellhouse.files.clearing import CLEAR_NAMES, clear_directory
from cellhouse.files.errors import (
    FileBusy,
    FileTooLarge,
    NotRegularFile,
    PathEscapes,
    disk_full_named,
)
from cellhouse.files.incoming import Incoming, Written
from cellhouse.files.names import MAX_PATH_BYTES, escape_name, relative_path

SCAN_DEPTH = 64
SCAN_DEPTH_MAX = 256
_READ_BYTES = 1 << 20
_KINDS = (
    (stat.S_ISDIR, "directory"),
    (stat.S_ISLNK, "symbolic link"),
    (stat.S_ISFIFO, "fifo"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "character device"),
    (stat.S_ISBLK, "block device"),
)


def kind_of(mode: int) -> str:
    """What `st_mode` says in a word: "file", "directory", "symbolic link", "fifo", "socket", …"""
    return next(
        (name for test, name in _KINDS if test(mode)), "file" if stat.S_ISREG(mode) else "unknown kind"
    )


@dataclass(frozen=True, slots=True)
class ScanEntry:
    """One name beneath the directory: its printable relative path, the raw one, and its lstat."""

    name: str
    path: bytes
    stat: os.stat_result

    @property
    def kind(self) -> str:
        return kind_of(self.stat.st_mode)


@dataclass(frozen=True, slots=True)
class Scan:
    """What a bounded walk saw. `cut` says why it is not everything ("entries", "depth", "unreadable"); empty: it is."""

    entries: list[ScanEntry]
    cut: frozenset[str]


class HostileDir:
    """A held O_PATH descriptor of one directory. Its methods may be called from any thread; `close` from one."""

    def __init__(self, fd: int, label: str, owner: tuple[int, int] | None = None) -> None:
        """Takes over `fd`. `owner` (uid, gid) is given to everything created here."""
        self._fd = fd
        self._label = label
        self._owner = owner
        # Names that files on their way have until they are whole: nobody's but ours.
        self.passing: set[bytes] = set()

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, owner: tuple[int, int] | None = None) -> Self:
        """Hold the directory at a path that we trust up to its last component, which must be no symbolic link."""
        return cls._checked(os.open(path, PATH_FLAGS), os.fspath(path), owner)

    @classmethod
    def _checked(cls, fd: int, label: str, owner: tuple[int, int] | None) -> Self:
        try:
            expect_directory(fd, label)
        except BaseException:
            os.close(fd)
            raise
        return cls(fd, label, owner)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if self._fd >= 0:
            warnings.warn(f"unclosed directory {self._label}", ResourceWarning, source=self, stacklevel=2)
            self.close()

    def __repr__(self) -> str:
        return f"HostileDir({self._label!r}, fd={self._fd})"

    def fileno(self) -> int:
        """The held descriptor (O_PATH); it stays ours."""
        if self._fd < 0:
            raise ValueError(f"the directory {self._label} is closed; open it again")
        return self._fd

    def close(self) -> None:
        """Let go of the directory; calling it again does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    # Looking

    def stat(self, rel: str | bytes) -> os.stat_result:
        """lstat of what stands at `rel`, of whatever kind."""
        fd = open_beneath(self.fileno(), relative_path(rel), PATH_FLAGS)
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)

    def open_read(self, rel: str | bytes) -> int:
        """A non-blocking descriptor of the regular file at `rel`; the caller closes it.

        Raises HostilePath, PathEscapes, NotRegularFile, FileBusy, and OSError (FileNotFoundError, PermissionError).
        """
        raw = relative_path(rel)
        held = open_beneath(self.fileno(), raw, PATH_FLAGS)
        try:
            # Looked at before it is opened: merely opening a fifo or a device can have an effect.
            mode = os.fstat(held).st_mode
            if stat.S_ISLNK(mode):
                raise PathEscapes(f"{escape_name(raw)} is a symbolic link; links are not followed here")
            if not stat.S_ISREG(mode):
                raise NotRegularFile(f"{escape_name(raw)} is a {kind_of(mode)}; only regular files are read")
            return os.open(f"/proc/self/fd/{held}", os.O_RDONLY | (SAFE_FLAGS & ~os.O_NOFOLLOW))
        except BlockingIOError as error:
            raise FileBusy(
                f"{escape_name(raw)} is held by a lease; try again when its holder has let go"
            ) from error
        except OSError as error:
            error.filename = escape_name(raw)
            raise
        finally:
            os.close(held)

    def read(self, rel: str | bytes, limit: int) -> bytes:
        """The whole file, or FileTooLarge where it has more than `limit` bytes (also where it grows meanwhile)."""
        fd = self.open_read(rel)
        try:
            size = os.fstat(fd).st_size
            data = b"" if size > limit else _read_up_to(fd, limit + 1)
            if max(size, len(data)) > limit:
                raise FileTooLarge(escape_name(relative_path(rel)), max(size, len(data)), limit)
            return data
        finally:
            os.close(fd)

    def scan(
        self,
        limit: int,
        *,
        depth: int = SCAN_DEPTH,
        skip: Collection[bytes] = (),
        below: bytes = b"",
        entering: Callable[[int, bytes], None] | None = None,
    ) -> Scan:
        """Walk breadth first over at most `limit` names, `depth` levels deep, not into directories named in `skip`.

        `depth` is taken up to 256: with it grows the cost of each step. What vanishes or changes its kind
        meanwhile is left out; what can't be read is told in `cut`. `below` is the directory to begin with, and `entering` is
        called with the descriptor and the path of each before it is read.
        """
        depth = min(depth, SCAN_DEPTH_MAX)
        entries: list[ScanEntry] = []
        cut: set[str] = set()
        todo: deque[tuple[bytes, int]] = deque([(below, 1 + below.count(b"/") + bool(below))])
        while todo:
            here, level = todo.popleft()
            try:
                full = self._scan_one(here, limit, entries, todo, level, depth, skip, cut, entering)
            except (FileNotFoundError, NotADirectoryError, PathEscapes):
                # Gone or swapped since its name was read: nothing of it was touched.
                continue
            except PermissionError:
                cut.add("unreadable")
                continue
            if full:
                cut.add("entries")
                break
        return Scan(entries, frozenset(cut))

    def _scan_one(
        self,
        below: bytes,
        limit: int,
        entries: list[ScanEntry],
        todo: deque[tuple[bytes, int]],
        level: int,
        depth: int,
        skip: Collection[bytes],
        cut: set[str],
        entering: Callable[[int, bytes], None] | None,
    ) -> bool:
        """Add the names of one directory; True where the limit stopped it."""
        fd = open_listing(self.fileno(), below)
        try:
            if entering is not None:
                entering(fd, below)
            with os.scandir(fd) as names:
                for found in names:
                    raw = os.fsencode(found.name)
                    if raw in skip or raw in self.passing:
                        continue
                    if len(entries) >= limit:
                        return True
                    path = below + b"/" + raw if below else raw
                    try:
                        seen = found.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    entries.append(ScanEntry(escape_name(path), path, seen))
                    if stat.S_ISDIR(seen.st_mode):
                        if level >= depth or len(path) + 256 > MAX_PATH_BYTES:
                            cut.add("depth")
                        else:
                            todo.append((path, level + 1))
        finally:
            os.close(fd)
        return False

    # Changing

    def subdir(self, rel: str | bytes, create: bool = False) -> "HostileDir":
        """Hold a directory beneath this one; with `create`, what is missing of it is made (mode 0755)."""
        raw = relative_path(rel)
        if create:
            self._make_dirs(raw)
        label = f"{self._label}/{escape_name(raw)}"
        return type(self)._checked(open_beneath(self.fileno(), raw, PATH_FLAGS), label, self._owner)

    def _make_dirs(self, raw: bytes) -> None:
        here = os.dup(self.fileno())
        try:
            for part in raw.split(b"/"):
                made = False
                with contextlib.suppress(FileExistsError), disk_full_named(escape_name(raw)):
                    os.mkdir(part, 0o755, dir_fd=here)
                    made = True
                below = open_beneath(here, part, PATH_FLAGS)
                os.close(here)
                here = below
                expect_directory(here, escape_name(raw))
                if made and self._owner is not None:
                    # Through ".", so that only a directory can change hands, never a link put in its place.
                    os.chown(b".", *self._owner, dir_fd=here, follow_symlinks=False)
        finally:
            os.close(here)

    def _parent(self, raw: bytes) -> tuple[int, bytes]:
        """A new descriptor of the directory that the checked path lies in, and the last component."""
        above, _, name = raw.rpartition(b"/")
        if not above:
            return os.dup(self.fileno()), name
        parent = open_beneath(self.fileno(), above, PATH_FLAGS)
        try:
            expect_directory(parent, escape_name(above))
        except BaseException:
            os.close(parent)
            raise
        return parent, name

    def create(self, rel: str | bytes, chunks: Iterable[bytes | memoryview], *, mode: int = 0o644) -> Written:
        """Put a whole file at `rel` at once, replacing what stands there (a link is replaced, never followed).

        It is written under a passing name in the same directory and renamed; on any failure that name goes away.
        Raises DiskFull, FileNotFoundError (no such parent), IsADirectoryError (a directory stands there), PathEscapes.
        """
        incoming = self.incoming(rel, mode=mode)
        try:
            for chunk in chunks:
                incoming.write(chunk)
            return incoming.commit()
        finally:
            incoming.discard()

    def incoming(self, rel: str | bytes, *, mode: int = 0o644) -> Incoming:
        """The same by pieces: the caller writes, and then commits or discards. Raises as `create`."""
        raw = relative_path(rel)
        parent, name = self._parent(raw)
        passing = b".cellhouse-%s.part" % secrets.token_hex(8).encode()
        self.passing.add(passing)
        try:
            with disk_full_named(escape_name(raw)):
                fd = open_beneath(parent, passing, os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFE_FLAGS, mode)
        except BaseException:
            self.passing.discard(passing)
            os.close(parent)
            raise
        return Incoming(
            parent,
            fd,
            passing=passing,
            name=name,
            label=escape_name(raw),
            mode=mode,
            owner=self._owner,
            on_end=lambda: self.passing.discard(passing),
        )

    def unlink(self, rel: str | bytes) -> None:
        """Remove the name `rel` (a link itself, never its target); a directory raises IsADirectoryError."""
        parent, name = self._parent(relative_path(rel))
        try:
            os.unlink(name, dir_fd=parent)
        finally:
            os.close(parent)

    def clear(self, limit: int = CLEAR_NAMES) -> int:
        """Remove everything beneath, however deep, in constant memory; the number of names removed.

        What lies in a directory is moved up under a passing name before the directory goes, so that no path grows and no
        stack deepens. For a directory that nobody uses any more: `limit` names end it where somebody keeps adding.
        """
        return clear_directory(self.fileno(), limit)


def _read_up_to(fd: int, limit: int) -> bytes:
    parts: list[bytes] = []
    while limit > 0:
        part = os.read(fd, min(limit, _READ_BYTES))
        if not part:
            break
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)
