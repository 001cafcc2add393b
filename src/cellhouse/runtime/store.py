"""The directories of runtimes on disk: what each one is, which are over, what a dead owner left behind."""

import contextlib
import errno
import json
import os
import secrets
import signal
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from cellhouse.files import HostileDir, PathEscapes, write_atomic
from cellhouse.model import (
    CallReason,
    Clock,
    InvalidArgument,
    NotFound,
    RuntimeName,
    RuntimeSpec,
    rfc3339,
)
from cellhouse.runtime.refusals import id_kept
from cellhouse.runtime.requests import CreateRequest
from cellhouse.sandbox import discard_disk, remove_leftovers

MARK = "CELLHOUSE_RUNTIME"
"""A variable in the environment of everything that runs in a runtime: by it a dead owner's leftovers are found."""
_META = "runtime.json"
_META_BYTES = 65_536
_GOING = ".going-"
"""Begins the name of a directory that is being removed: none of a runtime's."""
_KILL_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class RuntimeRecord:
    """What is remembered of a runtime beside its directory."""

    id: str
    token: str
    state: Literal["active", "closed"]
    created: str
    spec: RuntimeSpec
    request: CreateRequest | None = None


class RuntimeStore:
    """`<directory>/<runtime id>/` holds `content`, `run` while it lives, and `runtime.json`."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory, self._clock = directory, clock
        # Eviction has a thread of its own: an id must not change hands between its look and its grasp.
        self._moving = threading.Lock()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def path(self, runtime: str) -> Path:
        return self._directory / runtime

    def create(self, runtime: str, spec: RuntimeSpec, request: CreateRequest | None = None) -> RuntimeRecord:
        """A directory for a new runtime. AlreadyExists where the id is taken, also by one that is closed."""
        created = rfc3339(self._clock.now())
        record = RuntimeRecord(runtime, secrets.token_hex(16), "active", created, spec, request)
        with self._moving:
            try:
                self.path(runtime).mkdir(mode=0o700)
            except FileExistsError:
                raise id_kept(runtime) from None
            self._write(record)
        return record

    def read(self, runtime: str) -> RuntimeRecord | None:
        """What is known of a runtime; None where there is none (any more)."""
        try:
            with HostileDir.open(self._directory) as held:
                document = json.loads(held.read(f"{runtime}/{_META}", _META_BYTES))
            return RuntimeRecord(
                id=runtime,
                token=str(document["token"]),
                state="active" if document["state"] == "active" else "closed",
                created=str(document["created"]),
                spec=RuntimeSpec.from_wire(document["spec"]),
                request=_request(document.get("request")),
            )
        except (OSError, ValueError, KeyError, TypeError, RecursionError, InvalidArgument):
            return None

    def mark_closed(self, runtime: str) -> None:
        """The runtime is over; its content stays readable until it is deleted or evicted."""
        record = self.read(runtime)
        if record is not None and record.state != "closed":
            # It may be removed meanwhile; and what can't be marked, on a full disk say, the next owner closes.
            with contextlib.suppress(OSError):
                self._write(replace(record, state="closed"))

    def remove(self, runtime: str) -> None:
        """Remove its directory, content and all."""
        if (going := self.take_away(runtime)) is not None:
            remove_tree(going)

    def take_away(self, runtime: str) -> Path | None:
        """Free the id at once; what is given back is to be removed with `remove_tree`, else `reap` does it."""
        with self._moving:
            return self._take_away(runtime)

    def _take_away(self, runtime: str) -> Path | None:
        going = self._directory / f"{_GOING}{secrets.token_hex(8)}"
        try:
            self.path(runtime).rename(going)
        except FileNotFoundError:
            return None
        return going

    def content(self, runtime: str) -> HostileDir:
        """The content of a runtime, living or closed. NotFound, RUNTIME_DELETED, where it is gone."""
        try:
            # One step after the other: who wrote there may be another user than who reads, and put links in the way.
            with HostileDir.open(self._directory) as held, self._held(held, runtime) as directory:
                return HostileDir.open(f"/proc/self/fd/{directory.fileno()}/content")
        except FileNotFoundError:
            raise NotFound(
                f"{RuntimeName(runtime)} was deleted, and its files with it",
                reason=CallReason.RUNTIME_DELETED,
            ) from None

    @staticmethod
    def _held(directory: HostileDir, runtime: str) -> HostileDir:
        """What is no directory there is none of a runtime's."""
        try:
            return directory.subdir(runtime)
        except (NotADirectoryError, PathEscapes) as error:
            raise FileNotFoundError(errno.ENOENT, "no directory of a runtime", runtime) from error

    def names(self) -> list[str]:
        return sorted(
            entry.name
            for entry in os.scandir(self._directory)
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(_GOING)
        )

    def reap(self) -> list[str]:
        """End what a dead owner's runtimes left, and close them; which they were. Only under the owner's lock."""
        for going in self._directory.glob(f"{_GOING}*"):
            with contextlib.suppress(OSError):  # what resists is tried again by the next owner
                remove_tree(going)
        reaped = []
        for runtime in self.names():
            record = self.read(runtime)
            if record is None:
                with contextlib.suppress(OSError):
                    self.remove(runtime)  # torn while it was made: it never ran anything
                reaped.append(runtime)
            elif record.state == "active":
                kill_marked(record.token)
                with contextlib.suppress(OSError):
                    remove_leftovers(self.path(runtime))
                self.mark_closed(runtime)
                reaped.append(runtime)
        return reaped

    def evict(self, age_seconds: float) -> list[str]:
        """Remove closed runtimes whose directory has not changed for that long; which they were."""
        limit = self._clock.now().timestamp() - age_seconds
        evicted = []
        for runtime in self.names():
            with self._moving:
                going = self._take_away(runtime) if self._closed_before(runtime, limit) else None
            if going is not None:
                with contextlib.suppress(OSError):  # one that resists keeps no other
                    remove_tree(going)
                evicted.append(runtime)
        return evicted

    def _closed_before(self, runtime: str, limit: float) -> bool:
        record = self.read(runtime)
        if record is None or record.state != "closed":
            return False
        return (self.path(runtime) / _META).stat().st_mtime < limit

    def _write(self, record: RuntimeRecord) -> None:
        document = {
            "token": record.token,
            "state": record.state,
            "created": record.created,
            "spec": record.spec.to_wire(),
        }
        if record.request is not None:
            document["request"] = {"id": record.request.id, "asked": record.request.asked}
        write_atomic(self.path(record.id) / _META, json.dumps(document).encode())


def _request(document: Any) -> CreateRequest | None:
    return None if document is None else CreateRequest(str(document["id"]), str(document["asked"]))


def remove_tree(path: Path) -> None:
    """Remove a directory that hostile code may have filled; links in it are never followed. Nothing where it is gone.

    Also where its /content is on a disk of its own still, since there was no room to take it off that.
    """
    discard_disk(path)
    with contextlib.suppress(FileNotFoundError):
        with HostileDir.open(path) as directory:
            while directory.clear():
                pass
        path.rmdir()


def kill_marked(token: str) -> int:
    """Kill every process whose environment carries this runtime's mark, those they start meanwhile too; how many."""
    killed = 0
    for _ in range(_KILL_ROUNDS):
        if not (found := _kill_once(f"{MARK}={token}".encode())):
            break
        killed += found
    return killed


def _kill_once(mark: bytes) -> int:
    killed = 0
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # gone, or another user's
            environ = Path(entry.path, "environ").read_bytes()
            if mark in environ.split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
                killed += 1
    return killed
