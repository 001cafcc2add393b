"""Which files of a hostile directory were made or changed since the last look.

What decides is comparison: inode, size, times (of which code can't set the ctime), and where they don't tell, the
SHA-256. inotify says only where to look: without it, or where it lost something, everything is walked over.
"""

import contextlib
import os
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from cellhouse.files import inotify
from cellhouse.files.digests import FileDigest
from cellhouse.files.errors import FileError
from cellhouse.files.hostile import SCAN_DEPTH, HostileDir, kind_of
from cellhouse.files.inotify import Hint, Inotify
from cellhouse.files.leases import open_for_writing

# Written by the service or by tools on the side: not what the code made.
SKIPPED = frozenset({b".dsm_outputs", b".packages", b"__pycache__", b".ipynb_checkpoints"})

# A file system stamps times from the clock of the last tick, so they can lie behind by one.
_TICK_NS = 20_000_000
_HASHED_BYTES = 16 << 20
"""Of one file that is hashed only to see whether it changed; a larger one is believed to have."""
_HASHED_AT_ONCE = 64 << 20
_NAMES = 2_000
"""Names that are looked at one by one; more of them, and everything is walked over."""
_WATCHES = 4_096
_OPENS = 256
"""Files that somebody may have open: those that were opened last."""
_FEW = 32


@dataclass(frozen=True, slots=True)
class TrackLimits:
    """How far is looked: names in all, and levels."""

    entries: int = 100_000
    depth: int = SCAN_DEPTH


@dataclass(frozen=True, slots=True)
class FileMark:
    """What tells one state of a file from another."""

    kind: str
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    links: int = field(default=1, compare=False)
    allocated: int = field(default=0, compare=False)

    @classmethod
    def of(cls, seen: os.stat_result) -> "FileMark":
        return cls(
            kind_of(seen.st_mode),
            seen.st_ino,
            seen.st_size,
            seen.st_mtime_ns,
            seen.st_ctime_ns,
            seen.st_nlink,
            seen.st_blocks * 512,
        )

    @property
    def is_file(self) -> bool:
        return self.kind == "file"


@dataclass(frozen=True, slots=True)
class Change:
    """A name whose file is new, or was written to. `renamed_from`: the same file had that name before."""

    path: bytes
    mark: FileMark
    created: bool
    renamed_from: bytes | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """Since the last look: what is new or changed, what is gone, and why some may be missing (empty: none is)."""

    changed: list[Change]
    gone: set[bytes]
    cut: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Known:
    mark: FileMark
    looked_ns: int
    sha256: str = ""


class Tracker:
    """Looks at one directory again and again. From one thread at a time; holds `directory` and never closes it."""

    def __init__(self, directory: HostileDir, limits: TrackLimits | None = None) -> None:
        self._directory, self._limits = directory, limits or TrackLimits()
        self._known: dict[bytes, _Known] = {}
        self._directories: dict[bytes, int] = {}  # their inodes
        self._paths: dict[int, bytes] = {}  # of watches
        self._inotify = Inotify.open()
        # What hints have told of since the last look: a name, and whether it was surely written to.
        self._hinted: dict[bytes, bool] = {}
        self._open: dict[bytes, None] = {}  # somebody may have them open for writing
        self._ours: set[bytes] = set()
        # Known files with further names: what is written under one that is skipped gives no hint at all.
        self._linked: tuple[bytes, ...] = ()
        self._left: set[bytes] = set()  # directories that this look has found gone, or to be others
        self._everything = True
        self._deep = False
        self._cut: frozenset[str] = frozenset()
        self._looked_ns = 0
        self._budget = 0

    def close(self) -> None:
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None

    @property
    def watches(self) -> bool:
        """Whether hints are to be had; without them each look is a walk."""
        return self._inotify is not None

    # Hints

    def is_touched(self) -> bool:
        """Whether there is anything to look at. Costs one system call where there is not."""
        self._take_hints()
        return (
            self._everything
            or bool(self._hinted or self._open or self._linked or self._cut)
            or self._inotify is None
        )

    @property
    def is_quick(self) -> bool:
        """Whether a look needs no thread of its own: also the first one, at a directory that code has not seen yet."""
        if not self._looked_ns:
            return len(self._known) <= _FEW
        return (
            self._inotify is not None
            and not (self._everything or self._deep or self._cut)
            and len(self._hinted) + len(self._open) + len(self._linked) <= _FEW
        )

    def _take_hints(self) -> None:
        if self._inotify is None:
            return
        hints = self._inotify.drain()
        if hints is None:
            self._everything = True
            self._hinted.clear()
        else:
            for hint in hints:
                self._take_hint(hint)
        self._ours.clear()
        if len(self._hinted) > _NAMES:
            self._everything = True
            self._hinted.clear()

    def _take_hint(self, hint: Hint) -> None:
        mask, below = hint.mask, self._paths.get(hint.watch)
        if mask & inotify.IGNORED:
            self._paths.pop(hint.watch, None)
            return
        if below is None or (mask & inotify.OPEN and (mask & inotify.IS_DIR or not hint.name)):
            return
        if mask & inotify.MOVE_SELF or (
            mask & inotify.IS_DIR and mask & (inotify.MOVED_FROM | inotify.MOVED_TO)
        ):
            # Names of everything below it have changed: what stands where is learnt anew.
            if hint.name not in SKIPPED:
                self._everything = True
            return
        if not hint.name or hint.name in SKIPPED:
            return
        path = below + b"/" + hint.name if below else hint.name
        if mask & inotify.OPEN:
            if path not in self._ours:
                self._open[path] = None
            return
        self._deep = self._deep or bool(mask & inotify.IS_DIR)
        self._hinted[path] = self._hinted.get(path, False) or bool(mask & inotify.MODIFY)

    # Looking

    def look(self) -> Changes:
        """What has changed since the last look; blocks for as long as that takes. OSError, FileError."""
        self._take_hints()
        self._budget = _HASHED_AT_ONCE
        looked_ns = time.time_ns()
        hinted, self._hinted, self._deep = self._hinted, {}, False
        self._left.clear()
        seen: dict[bytes, FileMark] = {}
        gone: set[bytes] = set()
        cut = self._cut
        everything = self._everything or self._inotify is None or bool(self._cut)
        self._everything = True  # until this look has been through
        if everything:
            cut = self._walk(b"", seen)
            missed = self._known.keys() - seen.keys()
            if not cut:
                gone = missed
            else:
                for path in missed:  # it may be there, and can't be followed any more
                    del self._known[path]
        else:
            for path in dict.fromkeys((*hinted, *self._linked)):
                cut |= self._look_at(path, seen, gone)
        cut |= self._look_at_open(seen, gone)
        self._add_left(gone)
        cut |= self._look_at_other_names(seen, gone, hinted)
        self._add_left(gone)
        changes = self._compare(seen, gone, hinted, looked_ns)
        if seen or gone:
            self._linked = tuple(
                path for path, known in self._known.items() if known.mark.links > 1 and known.mark.is_file
            )
        # More came one by one than are compared: from now on each look says that it does not see them all.
        full = frozenset({"entries"}) if len(self._known) > self._limits.entries else frozenset()
        self._cut, self._looked_ns, self._everything = cut | full, looked_ns, False
        return Changes(changes, gone, cut)

    def _walk(self, below: bytes, seen: dict[bytes, FileMark]) -> frozenset[str]:
        if not below:
            self._paths.clear()
            self._directories.clear()
        scan = self._directory.scan(
            self._limits.entries, depth=self._limits.depth, skip=SKIPPED, below=below, entering=self._enter
        )
        for entry in scan.entries:
            if stat.S_ISDIR(entry.stat.st_mode):
                self._directories[entry.path] = entry.stat.st_ino
            else:
                seen[entry.path] = FileMark.of(entry.stat)
        return scan.cut

    def _enter(self, fd: int, path: bytes) -> None:
        """Before the names of a directory are read, so that none can come unseen in between."""
        if self._inotify is None:
            return
        watch = self._inotify.watch(fd) if len(self._paths) < _WATCHES else -1
        if watch < 0:
            self.close()
        else:
            self._paths[watch] = path

    def _look_at(self, path: bytes, seen: dict[bytes, FileMark], gone: set[bytes]) -> frozenset[str]:
        if path.rpartition(b"/")[2] in self._directory.passing:
            return frozenset()
        try:
            found = self._directory.stat(path)
        except (FileNotFoundError, NotADirectoryError, FileError):
            self._forget(path, gone)
            return frozenset()
        except PermissionError:
            return frozenset({"unreadable"})
        if not stat.S_ISDIR(found.st_mode):
            self._forget_below(path)
            seen[path] = FileMark.of(found)
            return frozenset()
        if path in self._known:
            gone.add(path)
        if self._directories.get(path) == found.st_ino:
            return frozenset()
        self._forget_below(path)
        self._directories[path] = found.st_ino
        return self._walk(path, seen)

    def _forget(self, path: bytes, gone: set[bytes]) -> None:
        if path in self._known:
            gone.add(path)
        self._forget_below(path)

    def _forget_below(self, path: bytes) -> None:
        if self._directories.pop(path, None) is None:
            return
        self._left.add(path)
        prefix = path + b"/"
        for each in [each for each in self._directories if each.startswith(prefix)]:
            del self._directories[each]

    def _add_left(self, gone: set[bytes]) -> None:
        """What was known below those directories. All at once: code can remove thousands beside a hundred thousand files."""
        if self._left:
            gone.update(path for path in self._known if not self._left.isdisjoint(_above(path)))
            self._left.clear()

    def _look_at_other_names(
        self, seen: dict[bytes, FileMark], gone: set[bytes], hinted: dict[bytes, bool]
    ) -> frozenset[str]:
        """What is written under one name of a file gives no hint for its others."""
        before = [known.mark for path in (*gone, *hinted) if (known := self._known.get(path)) is not None]
        inodes = {mark.inode for mark in (*seen.values(), *before) if mark.links > 1 and mark.is_file}
        cut: frozenset[str] = frozenset()
        if inodes:
            for path in [path for path, known in self._known.items() if known.mark.inode in inodes]:
                if path not in seen and path not in gone:
                    cut |= self._look_at(path, seen, gone)
        return cut

    def _look_at_open(self, seen: dict[bytes, FileMark], gone: set[bytes]) -> frozenset[str]:
        """What somebody has open can change without a hint, where it is mapped into memory.

        Where the kernel does not tell who has what open, the newest stay under suspicion.
        """
        cut: frozenset[str] = frozenset()
        for path in list(self._open)[:-_OPENS]:
            del self._open[path]
        for path in list(self._open):
            if path not in seen:
                cut |= self._look_at(path, seen, gone)
            mark = seen.get(path)
            if mark is None or not mark.is_file:
                self._open.pop(path, None)
            elif self._is_open(path) is False:
                self._open.pop(path, None)
                seen[path] = mark
        return cut

    def _is_open(self, path: bytes) -> bool | None:
        """None where it can't be learnt."""
        try:
            fd = self._opened(path)
        except (OSError, FileError):
            return None
        try:
            return open_for_writing(fd)
        finally:
            os.close(fd)

    def _opened(self, path: bytes) -> int:
        self._ours.add(path)
        return self._directory.open_read(path)

    # Comparing

    def _compare(
        self, seen: dict[bytes, FileMark], gone: set[bytes], hinted: dict[bytes, bool], looked_ns: int
    ) -> list[Change]:
        changes = []
        gone.difference_update(seen)
        before = {known.mark.inode: path for path in gone if (known := self._known.get(path)) is not None}
        for path, mark in sorted(seen.items()):
            old = self._known.get(path)
            if old is None:
                source = self._source(mark, before)
                if source is None and self._cut and mark.ctime_ns < self._looked_ns - _TICK_NS:
                    self._known[path] = _Known(
                        mark, looked_ns
                    )  # it was there; the last look did not get so far
                    continue
                sha256 = "" if source is None else self._known[source].sha256
                self._known[path] = _Known(mark, looked_ns, sha256)
                changes.append(Change(path, mark, True, source))
            elif self._differs(path, old, mark, written=hinted.get(path, False)):
                self._known[path] = _Known(mark, looked_ns)
                changes.append(Change(path, mark, False))
            else:
                old.mark, old.looked_ns = mark, looked_ns
        for path in gone:
            self._known.pop(path, None)
            self._open.pop(path, None)
        return changes

    def _source(self, mark: FileMark, before: dict[int, bytes]) -> bytes | None:
        """The name that this very file had; a number of an inode alone would say little, for they are used again."""
        path = before.get(mark.inode)
        if path is None or not mark.is_file:
            return None
        old = self._known[path].mark
        return path if (old.size, old.mtime_ns) == (mark.size, mark.mtime_ns) else None

    def _differs(self, path: bytes, old: _Known, mark: FileMark, *, written: bool) -> bool:
        was = old.mark
        if (was.kind, was.inode, was.size, was.mtime_ns) != (mark.kind, mark.inode, mark.size, mark.mtime_ns):
            return True
        if not mark.is_file:
            return False  # its mode or owner changed, or it got another name besides
        same = was.ctime_ns == mark.ctime_ns
        # One that was changed within the tick of the last look, or is mapped into memory, may look as it did.
        if same and not (written or path in self._open or mark.ctime_ns >= old.looked_ns - _TICK_NS):
            return False
        now = self._sha256(path, mark)
        if old.sha256 and now:
            return now != old.sha256
        if same and now:
            old.sha256 = now  # by which the next look can tell
        return written or not same

    def _sha256(self, path: bytes, mark: FileMark) -> str:
        """Empty where it is too much to read only for this, or can't be read."""
        if mark.size > min(_HASHED_BYTES, self._budget):
            return ""
        self._budget -= mark.size
        try:
            fd = self._opened(path)
        except (OSError, FileError):
            return ""
        digest = FileDigest(fd)
        try:
            digest.advance(mark.size)
        except OSError:
            return ""
        finally:
            os.close(fd)
        return digest.sha256 if digest.size == mark.size else ""

    # What is known from elsewhere

    def expect(self, path: bytes, mark: FileMark, sha256: str) -> None:
        """The service put this file there itself: as it is, it is no change."""
        self._known[path] = _Known(mark, time.time_ns(), sha256)

    def opening(self, path: bytes) -> None:
        """The service is about to open it for reading: no hint of anyone else's doing."""
        self._ours.add(path)

    def learn(self, read: Iterable[tuple[bytes, FileMark, str, bool]]) -> None:
        """What was read since the last look: the digest of a state, and whether somebody has it open for writing."""
        for path, mark, sha256, is_open in read:
            known = self._known.get(path)
            if known is not None and known.mark == mark:
                known.sha256 = sha256
            if is_open:
                self._open[path] = None
        with contextlib.suppress(OSError):
            self._take_hints()


def _above(path: bytes) -> Iterator[bytes]:
    """The directories that a path is below, the nearest first."""
    while path := path.rpartition(b"/")[0]:
        yield path
