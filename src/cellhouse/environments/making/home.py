"""Where environments that were made by name are kept: names lead to prefixes, and one prefix may have several names.

<home>/NAME                a link to what it means
<home>/.made/<digest>      a prefix, named for its lock and its Python; never changed once it is whole
<home>/.registered/<id>    likewise, one that another language's kernel was registered in
<home>/.asked/<digest>     what a request was resolved to, so that the same request stays the same environment
<home>/.lock               held while any of this changes
"""

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cellhouse.environments.making.lock import BadLock, Lock
from cellhouse.environments.prefix import RECORD, RECORD_BYTES, UNFINISHED
from cellhouse.environments.search import HOME_PLACES, check_name, distrusted_home, environment_home
from cellhouse.environments.use import USE
from cellhouse.files import write_atomic
from cellhouse.model import AlreadyExists, CallReason, FailedPrecondition, NotFound

MADE, REGISTERED = HOME_PLACES
ASKED: Final = ".asked"


@dataclass(frozen=True, slots=True)
class Entry:
    """One name, and the prefix that it means: of our own making, or one that was registered."""

    name: str
    prefix: Path
    own: bool


class EnvironmentHome:
    """The directory of one account's environments. Every method may raise OSError."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = (environment_home() if path is None else path).absolute()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else changes anything meanwhile; makes the directory. What a crash left half made is removed first."""
        for directory in (self.path, self.path / MADE, self.path / REGISTERED, self.path / ASKED):
            directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        if wrong := distrusted_home(self.path):
            raise FailedPrecondition(
                f"{self.path} {wrong}",
                reason="ENVIRONMENT_HOME_INVALID",
                metadata={"path": str(self.path)[:200]},
            )
        fd = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            self._sweep()
            yield
        finally:
            os.close(fd)

    def entries(self) -> list[Entry]:
        """All names, in order."""
        try:
            names = sorted(entry.name for entry in os.scandir(self.path) if entry.is_symlink())
        except FileNotFoundError:
            return []
        return [self._entry(name) for name in names if not name.startswith(".")]

    def entry(self, name: str) -> Entry:
        """Raises InvalidArgument, NotFound."""
        check_name(name)
        if not (self.path / name).is_symlink():
            there = ", ".join(entry.name for entry in self.entries()[:20]) or "none"
            raise NotFound(
                f"environment {name!r} is not among those made here ({self.path} has {there})",
                reason=CallReason.NO_SUCH_ENVIRONMENT,
                metadata={"environment": name},
            )
        return self._entry(name)

    def _entry(self, name: str) -> Entry:
        prefix = (self.path / name).resolve()
        return Entry(name, prefix, own=self._is_own(prefix))

    def _is_own(self, prefix: Path) -> bool:
        home = self.path.resolve()
        return prefix.parent in (home / MADE, home / REGISTERED)

    # changing: only while held

    def point(self, name: str, prefix: Path, *, replace: bool) -> None:
        """Let the name mean this prefix, at once. Raises AlreadyExists where it means another."""
        check_name(name)
        link = self.path / name
        if os.path.lexists(link):
            if link.is_symlink() and link.resolve() == prefix.resolve():
                return
            if not replace or not link.is_symlink():
                raise self.taken(name)
        passing = self.path / f".{name}.new"
        passing.unlink(missing_ok=True)
        passing.symlink_to(os.path.relpath(prefix, self.path) if self._is_own(prefix) else prefix)
        passing.rename(link)

    def check_free(self, name: str) -> None:
        """Raises InvalidArgument, AlreadyExists: before a long build, and not after."""
        check_name(name)
        if os.path.lexists(self.path / name):
            raise self.taken(name)

    def taken(self, name: str) -> AlreadyExists:
        return AlreadyExists(
            f"environment {name!r} is there already, and means something else; --replace changes what it means, "
            f"`cellhouse env remove {name}` takes it away",
            reason=CallReason.ID_TAKEN,
            metadata={"environment": name},
        )

    def forget(self, name: str) -> Entry:
        """Take the name away; what nobody else means nor uses goes with it. Raises NotFound."""
        entry = self.entry(name)
        (self.path / name).unlink()
        self._sweep()
        return entry

    def known(self, asked: str) -> Lock | None:
        """What this request was resolved to before; None where it was not, or its record is no good any more."""
        try:
            return Lock.from_wire(_read_json(self.path / ASKED / asked))
        except (FileNotFoundError, ValueError):
            return None

    def remember(self, asked: str, lock: Lock) -> None:
        write_atomic(self.path / ASKED / asked, json.dumps(lock.to_wire()).encode(), mode=0o644)

    def made(self, digest: str) -> Path:
        return self.path / MADE / digest[:32]

    def registered(self, name: str) -> Path:
        return self.path / REGISTERED / name

    def _sweep(self) -> None:
        """Prefixes without a name that nobody uses, and what was left half made: nobody is at work while it is held."""
        meant = {entry.prefix for entry in self.entries()}
        for place in (MADE, REGISTERED):
            for prefix in sorted((self.path / place).iterdir()):
                if prefix.resolve() not in meant or (prefix / UNFINISHED).exists():
                    with unused(prefix) as free:
                        if free:
                            discard(prefix)


@contextlib.contextmanager
def unused(prefix: Path) -> Iterator[bool]:
    """Whether no runtime uses it; none begins to meanwhile."""
    try:
        fd = os.open(prefix / USE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        yield True
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


def discard(prefix: Path) -> None:
    """Remove it, marked unfinished first: one that is half there is never taken for whole."""
    if prefix.is_dir():
        (prefix / UNFINISHED).touch()
        shutil.rmtree(prefix)


def write_record(prefix: Path, record: dict[str, Any]) -> None:
    (prefix / USE).touch(mode=0o644)
    write_atomic(prefix / RECORD, json.dumps(record, indent=1).encode(), mode=0o644)


def read_record(prefix: Path) -> dict[str, Any]:
    """What the prefix says of its making; empty for one that was not made here."""
    try:
        document = _read_json(prefix / RECORD)
    except (FileNotFoundError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _read_json(path: Path) -> Any:
    with path.open("rb") as file:
        data = file.read(RECORD_BYTES + 1)
    if len(data) > RECORD_BYTES:
        raise BadLock(f"{path} has more than {RECORD_BYTES} bytes")
    return json.loads(data)
