"""Where a keeper lives: its directory, its socket, and the proofs of who is at the other end of it."""

import asyncio
import contextlib
import fcntl
import json
import os
import secrets
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from cellhouse.files import FileError, HostileDir, write_atomic
from cellhouse.model import Clock, SystemClock, check_id
from cellhouse.model.errors import InvalidArgument
from cellhouse.runtime import RuntimeStore, Settings
from cellhouse.runtime.requests import CreateRequest
from cellhouse.runtime.turns import TURNS_FILE

KEEPERS: Final = "keepers"
ARTIFACTS: Final = "artifacts"
SOCKET: Final = "keeper.sock"
LOG: Final = "keeper.log"
_TOLD: Final = "keeper.json"
_USER: Final = "user.json"
_OVER: Final = "over"
_REQUEST: Final = "request.json"
_TOLD_BYTES: Final = 1 << 20
_LOCK: Final = "journal/lock"
_LOCK_BYTES: Final = 4_096
_CREDENTIALS: Final = struct.Struct("3i")
BACKLOG: Final = 8
_ROOTS: Final = "root.lock"
_KEY: Final = "mint.key"
_KEY_BYTES: Final = 32
OWN_FILES: Final = frozenset((_TOLD, _USER, _OVER, _REQUEST, _ROOTS, _KEY))
"""The service's own there, also where the keeper is another user: what that one writes under these names counts for nothing."""

_settings: Final = TypeAdapter(Settings)


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end of a unix socket, as the kernel of the machine says."""

    pid: int
    uid: int

    @classmethod
    def of(cls, sock: Any) -> "Peer":
        size = _CREDENTIALS.size
        pid, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        return cls(pid, uid)

    @property
    def is_ours(self) -> bool:
        """The same user, or root, who could be anybody."""
        return self.uid in (os.geteuid(), 0)


@dataclass(frozen=True, slots=True)
class User:
    """Who a keeper is that has given up root: its process, its own uid, and the uid of what is its runtime's."""

    pid: int
    own: int
    uid: int


@dataclass(frozen=True, slots=True)
class Place:
    """`<state>/keepers/<runtime id>/`: the state directory of one keeper's house, and its socket beside it."""

    root: Path
    runtime: str

    @property
    def directory(self) -> Path:
        return self.root / KEEPERS / self.runtime

    def exists(self) -> bool:
        return self.directory.is_dir()

    def make(self) -> bool:
        """Whether it is new."""
        self.directory.parent.mkdir(mode=0o700, exist_ok=True)
        try:
            self.directory.mkdir(mode=0o700)
        except FileExistsError:
            return False
        return True

    @property
    def log(self) -> Path:
        return self.directory / LOG

    @property
    def store_directory(self) -> Path:
        return self.directory / "runtimes"

    def store(self, clock: Clock | None = None) -> RuntimeStore:
        """The runtime's own directory, in the house of its keeper."""
        return RuntimeStore(self.store_directory, clock or SystemClock())

    def recorded(self) -> bool:
        """Whether a runtime is there, be it closed, that was not deleted."""
        return self.exists() and self.store().read(self.runtime) is not None

    # What a keeper is told

    def tell(self, settings: Settings, *, reading: bool = False) -> None:
        """Write down what the keeper is to know; and that it is not over, but where all it does is to read."""
        turns = settings.turns_file or settings.state_dir / TURNS_FILE  # of all keepers together
        artifacts = settings.artifacts_dir or settings.state_dir / ARTIFACTS
        own = replace(
            settings, state_dir=self.directory, max_runtimes=1, turns_file=turns, artifacts_dir=artifacts
        )
        write_atomic(self.directory / _TOLD, _settings.dump_json(own))
        if self.mint_key() is None:
            write_atomic(self.directory / _KEY, secrets.token_bytes(_KEY_BYTES))
        if not reading:
            self.over_mark.unlink(missing_ok=True)

    def mint_key(self) -> bytes | None:
        """What seals the refs that a keeper mints which may not write the tenant's store; it reads that while it still may."""
        with contextlib.suppress(OSError, FileError):
            return self._own(_KEY, _KEY_BYTES)
        return None

    def settings(self) -> Settings:
        """ValueError where they can't be read."""
        try:
            raw = self._own(_TOLD, _TOLD_BYTES)
            return replace(_settings.validate_json(raw), state_dir=self.directory)
        except (ValidationError, InvalidArgument) as error:
            raise ValueError(f"{self.directory / _TOLD} can't be read: {error}") from None

    @property
    def over_mark(self) -> Path:
        return self.directory / _OVER

    @property
    def is_over(self) -> bool:
        """The keeper ended well: nothing of it is left to be ended by others."""
        with contextlib.suppress(OSError):
            return self.over_mark.lstat().st_uid == os.geteuid()
        return False

    def mark_over(self) -> None:
        with contextlib.suppress(OSError):  # a full disk: then it is looked at once more
            write_atomic(self.over_mark, b"")

    def service(self) -> int | None:
        """The process that owns the state directory."""
        return holder(self.root)

    # Who it is

    def note_user(self, own: int, uid: int) -> None:
        """Write down, as root, that this process is not going to be root."""
        found = {"pid": os.getpid(), "own": own, "uid": uid}
        write_atomic(self.directory / _USER, json.dumps(found).encode())

    def root_lock(self) -> int:
        """A descriptor of what root locks (flock) while it has something to do here for a keeper that is not root."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(self.directory / _ROOTS, flags, 0o600)

    def user(self) -> User | None:
        """None where its keeper is, or was, the same user as the service."""
        try:
            found = json.loads(self._own(_USER, _LOCK_BYTES))
            return User(int(found["pid"]), int(found["own"]), int(found["uid"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _own(self, name: str, limit: int) -> bytes:
        """A file that this service has written. OSError where there is none, or it is somebody else's."""
        with HostileDir.open(self.directory) as held:
            if held.stat(name).st_uid != os.geteuid():
                raise PermissionError(f"{self.directory / name} was not written by this user")
            return held.read(name, limit)

    def is_keeper(self, peer: Peer) -> bool:
        """Whether that is who may listen here: this user, or who was forked to be another."""
        user = self.user()
        if user is None:
            return peer.is_ours
        return peer.pid == user.pid and peer.uid in (
            os.geteuid(),
            user.uid,
        )  # who listened while it still was us

    def keeper(self) -> int | None:
        """The process that has, or had, the directory, as far as that is known: a number only, which may be another's by now."""
        user = self.user()
        return user.pid if user is not None else holder(self.directory)

    def is_held(self) -> bool:
        """Whether a living house has the directory."""
        try:
            with HostileDir.open(self.directory) as held:
                fd = held.open_read(_LOCK)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    # What made it

    def remember(self, request: CreateRequest | None) -> None:
        """Which request of a caller's made this runtime, so that a repeat finds it."""
        path = self.directory / _REQUEST
        if request is None:
            path.unlink(missing_ok=True)
        else:
            write_atomic(path, json.dumps({"id": request.id, "asked": request.asked}).encode())

    def request(self) -> CreateRequest | None:
        try:
            document = json.loads(self._own(_REQUEST, _LOCK_BYTES))
            return CreateRequest(str(document["id"]), str(document["asked"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    # Its socket

    def bind(self) -> socket.socket:
        """A socket that only this user can connect to, in place of one that a dead keeper left. OSError.

        The keeper itself has to listen on it: who did is what the machine tells those who connect (unix(7), SO_PEERCRED).
        """
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with self._short() as path:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                before = os.umask(0o177)
                try:
                    made.bind(path)
                finally:
                    os.umask(before)
        except BaseException:
            made.close()
            raise
        return made

    async def connect(self) -> socket.socket | None:
        """None where nobody listens."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.setblocking(False)
        try:
            with self._short() as path:
                await asyncio.get_running_loop().sock_connect(made, path)
        except (ConnectionError, FileNotFoundError):
            made.close()
            return None
        except BaseException:
            made.close()
            raise
        return made

    def forget_socket(self) -> None:
        (self.directory / SOCKET).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _short(self) -> Iterator[str]:
        """A path of the socket that fits into an address (108 bytes), however long the directory's own is."""
        held = os.open(self.directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield f"/proc/self/fd/{held}/{SOCKET}"
        finally:
            os.close(held)


def rehearse_settings() -> None:
    """Read some settings: what is made when that is done for the first time is made here."""
    _settings.validate_json(_settings.dump_json(Settings(Path("/"))))


def places(root: Path) -> list[Place]:
    """Of all keepers that there are or were, by name."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(root / KEEPERS):
            with contextlib.suppress(InvalidArgument):
                if entry.is_dir(follow_symlinks=False):
                    found.append(Place(root, check_id(entry.name, "runtime")))
    return sorted(found, key=lambda place: place.runtime)


def has_living(root: Path) -> bool:
    """Whether there is a keeper below this state directory that did not end in order, and so may live."""
    return any(not place.is_over for place in places(root))


def holder(directory: Path) -> int | None:
    """The process that the lock of a state directory names as its owner."""
    try:
        with HostileDir.open(directory) as held:
            told = json.loads(held.read(_LOCK, _LOCK_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    pid = told.get("pid") if isinstance(told, dict) else None
    return pid if isinstance(pid, int) else None


__all__ = ["KEEPERS", "LOG", "SOCKET", "Peer", "Place", "has_living", "holder", "places", "rehearse_settings"]
