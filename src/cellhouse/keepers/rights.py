"""Who a keeper is on the host: where the service is root, a user of its own, which root's broker does the rest for.

All of it happens in the process that was forked for the keeper, before it has a thread or has read anything of a kernel.
"""

import fcntl
import json
import os
import stat
import sys
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from cellhouse.environments import Environment, default_search, find_environment
from cellhouse.files import HostileDir
from cellhouse.keepers.place import ARTIFACTS, OWN_FILES, Place
from cellhouse.model import CallReason, CellhouseError, FailedPrecondition, ResourceExhausted, Unavailable
from cellhouse.runtime import Settings
from cellhouse.runtime.walls import sandbox_spec
from cellhouse.sandbox import remove_leftovers
from cellhouse.sandbox.bubblewrap import shown
from cellhouse.sandbox.bwrap import LEVEL
from cellhouse.sandbox.limits.content_disk import IMAGE
from cellhouse.sandbox.privileged import DEFAULT_UIDS, Identity
from cellhouse.sandbox.privileged.broker import RECORD, fork_broker
from cellhouse.sandbox.privileged.giving import give_tree
from cellhouse.sandbox.privileged.remote import Remote
from cellhouse.sandbox.privileged.sight import give_up, narrow, unreachable
from cellhouse.sandbox.privileged.uids import UidLease, UidsFull, UidsUnavailable

_SHARED: Final = 0o1770
"""Its user may make things there, and can't touch what root has made."""
_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_SHOWN: Final = 3
ALL_BYTES: Final = 1 << 62
CLEARING_SECONDS: Final = 45.0
"""The service waits a little longer for a keeper. A /content of 4 GiB is off its disk by then."""


@dataclass(frozen=True, slots=True)
class Errand:
    """What a keeper is forked for: a runtime of these walls; or, with `reading`, what a dead one has left.

    `evict` is the number of bytes that records may have there; everything past it goes at once.
    """

    directory: Path
    isolation: str = ""
    environment: str = ""
    reading: bool = False
    evict: int | None = None

    def to_wire(self) -> bytes:
        found = {
            "directory": os.fspath(self.directory),
            "isolation": self.isolation,
            "environment": self.environment,
            "reading": self.reading,
            "evict": self.evict,
        }
        return json.dumps(found).encode()

    @classmethod
    def from_wire(cls, data: bytes) -> "Errand":
        """ValueError, KeyError, TypeError where it is none."""
        found: dict[str, Any] = json.loads(data)
        return cls(
            Path(found["directory"]),
            found["isolation"],
            str(found["environment"]),
            bool(found["reading"]),
            found["evict"],
        )


@dataclass(slots=True)
class Rights:
    """What is left to a keeper: a broker where it has given up root, nothing to ask where it is who the service is.

    `held` is the uid of who only reads.
    """

    remote: Remote | None = None
    held: UidLease | None = None

    @property
    def is_own(self) -> bool:
        """Whether this process is a user of its own."""
        return self.remote is not None or self.held is not None


def is_dropped(level: str) -> bool:
    """Whether keepers of runtimes with these walls give up root, as far as it depends on that: without walls, code is root."""
    return os.geteuid() == 0 and level == LEVEL


def take_up(place: Place, errand: Errand) -> tuple[Settings, Rights]:
    """Become who this keeper is to be; and what it was told. Raises what can't be had: nobody goes on as root for want of another user.

    But where the range of uids is not there at all and was not asked for: then the runtime's report says so.
    """
    if not errand.reading and not is_dropped(errand.isolation):
        return place.settings(), Rights()
    locked = _locked(place)
    try:
        if errand.reading:
            # What is over is evicted together, and not for being read.
            most = ALL_BYTES if errand.evict is None else errand.evict
            settings = place.settings()
            settings = replace(settings, retention=replace(settings.retention, bytes=most))
            return settings, _take_up_reading(place, settings)
        return _take_up_broker(place, errand, locked)
    finally:
        os.close(locked)


def _locked(place: Place) -> int:
    """Until the broker of an earlier keeper here has cleared up. TimeoutError where it takes too long."""
    locked = place.root_lock()
    deadline = time.monotonic() + CLEARING_SECONDS
    while True:
        try:
            fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(locked)
                raise TimeoutError("what cleared up behind the last keeper here has not ended") from None
            time.sleep(0.005)
        else:
            return locked


def _take_up_broker(place: Place, errand: Errand, locked: int) -> tuple[Settings, Rights]:
    remote = fork_broker(service=place.service, over=place.mark_over, keep=locked)
    try:
        settings = place.settings()
        if not _part(place, settings, errand, remote):
            remote.close()
            return settings, Rights()
    except BaseException:
        remote.close()
        raise
    return settings, Rights(remote)


def _part(place: Place, settings: Settings, errand: Errand, remote: Remote) -> bool:
    """Become a user of its own. False where there are no uids for that, and none were asked for."""
    search = list(settings.environments) if settings.environments else None
    environment = find_environment(errand.environment, search)
    state = place.store_directory / place.runtime
    wanted = sandbox_spec(state, environment, settings.walls, settings.uids)
    remote.begin(state, level=LEVEL, uids=settings.uids, shown=shown(wanted))
    identity = remote.claim()
    if identity is None:
        return False
    own = remote.claim_own()
    place.note_user(own, identity.uid)
    _give(place, identity)
    needed = _needed(settings, environment)
    namespace = _narrow(place, settings, needed)
    remote.see(namespace)
    os.close(namespace)
    give_up(identity, own)
    _check(place, [*needed, environment.python], own)
    return True


def _take_up_reading(place: Place, settings: Settings) -> Rights:
    """What a dead keeper left is put in order by root as far as root made it, and read by who is not root."""
    try:
        lease = UidLease.take(settings.uids or DEFAULT_UIDS)
    except UidsFull as error:
        raise ResourceExhausted(
            f"what a keeper left is read by a uid of its own, and {error}",
            reason=CallReason.QUOTA_EXCEEDED,
            limit="uids",
        ) from error
    except UidsUnavailable as error:
        raise Unavailable(
            f"runtimes/{place.runtime}: its keeper was no root, so its records are not read by root either, and {error}",
            reason=CallReason.TRY_AGAIN,
        ) from error
    _clear_up(place)
    place.note_user(lease.identity.uid, lease.identity.uid)
    _give(place, lease.identity, besides={ARTIFACTS})  # the service is adopting them, and they are not read
    os.close(_narrow(place, settings, _needed(settings, None)))
    give_up(lease.identity)
    return Rights(held=lease)


def _give(place: Place, identity: Identity, besides: Collection[str] = ()) -> None:
    """The directory, and what an earlier keeper left in it, is this user's; but for what the service has written there."""
    kept = OWN_FILES | {place.store_directory.name, *besides}
    place.store_directory.mkdir(mode=0o700, exist_ok=True)
    with HostileDir.open(place.directory) as held:
        _give_each(held, identity, besides=kept)
        with held.subdir(place.store_directory.name) as store:
            resisting = [name for name in _names(store) if _has_disk(store, name)]
            for name in resisting:  # root's, until the disk is off
                with store.subdir(os.fsencode(name)) as below:
                    _give_each(below, identity, besides=set(_names(below)) - {RECORD})
            _give_each(store, identity, besides=resisting)
            _share(store, identity)
        _share(held, identity)


def _give_each(directory: HostileDir, identity: Identity, *, besides: Collection[str]) -> None:
    for name in _names(directory):
        if name in besides:
            continue
        raw = os.fsencode(name)
        if stat.S_ISDIR(directory.stat(raw).st_mode):
            with directory.subdir(raw) as below:
                give_tree(f"/proc/self/fd/{below.fileno()}/.", identity)
        else:
            os.chown(raw, identity.uid, identity.gid, dir_fd=directory.fileno(), follow_symlinks=False)


def _names(directory: HostileDir) -> list[str]:
    return os.listdir(f"/proc/self/fd/{directory.fileno()}")


def _has_disk(store: HostileDir, runtime: str) -> bool:
    try:
        return store.stat(os.fsencode(f"{runtime}/{IMAGE}")).st_uid == 0
    except OSError:
        return False


def _share(directory: HostileDir, identity: Identity) -> None:
    path = f"/proc/self/fd/{directory.fileno()}"
    os.chown(path, 0, identity.gid)
    os.chmod(path, _SHARED)


def _clear_up(place: Place) -> None:
    """Of runtimes whose broker has died too: groups and disks, by root's own notes. Notes of anybody else are none."""
    if not place.store_directory.is_dir() or place.store_directory.is_symlink():
        return
    for entry in os.scandir(place.store_directory):
        found = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode) and found.st_uid == 0 and not found.st_mode & _OTHERS:
            try:
                remove_leftovers(Path(entry.path))
            except OSError as error:
                sys.stderr.write(
                    f"{entry.path}: {error}\n"
                )  # its disk stays where it is, and its files with it


def _narrow(place: Place, settings: Settings, needed: Iterable[Path]) -> int:
    turns = [settings.turns_file] if settings.turns_file is not None else []
    for path in turns:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        path.chmod(0o666)  # its directory is closed to everybody but those to whom it is shown
    return narrow(needed, [place.directory, *turns])


def _needed(settings: Settings, environment: Environment | None) -> list[Path]:
    """What is read by a keeper besides its own: the modules that it has not imported yet, and environments."""
    found = [Path(sys.prefix), Path(sys.base_prefix), *map(Path, sys.path)]
    found += settings.environments or default_search()
    if environment is not None:
        found += [environment.prefix, *environment.base_prefixes]
    return [path for path in dict.fromkeys(found) if path.is_absolute() and path.exists()]


def _check(place: Place, needed: Iterable[Path], own: int) -> None:
    """FailedPrecondition where something of it is readable for the service only."""
    if closed := list(unreachable([*needed, Path(os.__file__), Path(__file__)])):
        named = ", ".join(map(str, closed[:_SHOWN]))
        raise FailedPrecondition(
            f"the keeper of runtimes/{place.runtime} is no root (uid {own}) and can't read {named}; make it readable for "
            "everybody (chmod -R a+rX), only the way to it may be closed",
            reason=CallReason.ISOLATION_UNAVAILABLE,
            metadata={"layer": "uid"},
        )


def failure(error: BaseException) -> dict[str, Any]:
    """An error of `take_up` as it is told to the service."""
    if isinstance(error, CellhouseError):
        return {"error": error.to_wire()}
    return {"failed": f"{type(error).__name__}: {error}"}
