"""Where a keeper lives: its directory, its socket, and the proofs of who is at the other end of it."""

import asyncio
import contextlib
import fcntl
import json
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from cellhouse.files import write_atomic
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
_OVER: Final = "over"
_REQUEST: Final = "request.json"
_TOLD_BYTES: Final = 1 << 20
_LOCK_BYTES: Final = 4_096
_CREDENTIALS: Final = struct.Struct("3i")
BACKLOG: Final = 8

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

    def store(self, clock: Clock | None = None) -> RuntimeStore:
        """The runtime's own directory, in the house of its keeper."""
        return RuntimeStore(self.directory / "runtimes", clock or SystemClock())

    def recorded(self) -> bool:
        """Whether a runtime is there, be it closed, that was not deleted."""
        return self.exists() and self.store().read(self.runtime) is not None

    # What a keeper is told

    def tell(self, settings: Settings) -> None:
        """Write down what the keeper is to know, and that it is not over."""
        turns = settings.turns_file or settings.state_dir / TURNS_FILE  # of all keepers together
        artifacts = settings.artifacts_dir or settings.state_dir / ARTIFACTS
        own = replace(
            settings, state_dir=self.directory, max_runtimes=1, turns_file=turns, artifacts_dir=artifacts
        )
        write_atomic(self.directory / _TOLD, _settings.dump_json(own))
        self.over_mark.unlink(missing_ok=True)

    def settings(self) -> Settings:
        """ValueError where they can't be read."""
        try:
            raw = (self.directory / _TOLD).read_bytes()[:_TOLD_BYTES]
            return replace(_settings.validate_json(raw), state_dir=self.directory)
        except (ValidationError, InvalidArgument) as error:
            raise ValueError(f"{self.directory / _TOLD} can't be read: {error}") from None

    @property
    def over_mark(self) -> Path:
        return self.directory / _OVER

    @property
    def is_over(self) -> bool:
        """The keeper ended well: nothing of it is left to be ended by others."""
        return self.over_mark.exists()

    def mark_over(self) -> None:
        with contextlib.suppress(OSError):  # a full disk: then it is looked at once more
            write_atomic(self.over_mark, b"")

    def is_held(self) -> bool:
        """Whether a living house has the directory."""
        try:
            fd = os.open(self.directory / "journal" / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
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
            document = json.loads((self.directory / _REQUEST).read_bytes()[:_LOCK_BYTES])
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
        told = json.loads((directory / "journal" / "lock").read_bytes()[:_LOCK_BYTES])
    except (OSError, ValueError):
        return None
    pid = told.get("pid") if isinstance(told, dict) else None
    return pid if isinstance(pid, int) else None


__all__ = ["KEEPERS", "LOG", "SOCKET", "Peer", "Place", "has_living", "holder", "places"]
