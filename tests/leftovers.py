"""What a test leaves behind: processes, threads, descriptors, files. A look before, a look after, the difference."""

import gc
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

GRACE_SECONDS = 5.0
"""What is on its way out may take this long; asked about only where something is still there."""
SHOWN = 20

# Not a test's own: the runner's threads, a process that multiprocessing starts once and keeps, a device that random
# keeps open.
THREADS_OF_THE_RUNNER = ("execnet", "pytest", "ThreadPoolExecutor-pytest")
PROCESSES_OF_THE_RUNNER = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
DESCRIPTORS_OF_THE_RUNNER = ("/dev/urandom",)


@dataclass(frozen=True)
class Look:
    """What there was at one moment."""

    processes: frozenset[int]
    threads: frozenset[threading.Thread]
    descriptors: dict[int, str]
    files: frozenset[Path]


def look(directories: Collection[Path]) -> Look:
    """What there is now; files are those in these directories."""
    return Look(
        frozenset(_processes()),
        frozenset(threading.enumerate()),
        _descriptors(),
        frozenset(_files(directories)),
    )


def left_behind(
    before: Look, *, directories: Collection[Path], mark: str, grace: float = GRACE_SECONDS
) -> list[str]:
    """What has come since and is still there, one line a thing.

    A process counts where it descends from this one, or where its arguments, environment or working directory hold
    `mark` (a path that only this run uses): that finds also the one whose parent has died.
    """

    def collect() -> list[str]:
        return [
            *new_processes(before.processes, mark),
            *new_threads(before.threads),
            *new_descriptors(before.descriptors),
            *(f"file {path}" for path in sorted(set(_files(directories)) - before.files)),
        ]

    return _after_grace(collect, grace)


def _after_grace(collect: Callable[[], list[str]], grace: float) -> list[str]:
    found = collect()
    if found:
        gc.collect()
        deadline = time.monotonic() + grace
        while (found := collect()) and time.monotonic() < deadline:
            time.sleep(0.01)
    return found if len(found) <= SHOWN else [*found[:SHOWN], f"and {len(found) - SHOWN} more"]


def new_processes(before: Collection[int], mark: str) -> Iterator[str]:
    # Only ids that are new are looked at: on a busy machine reading about all would cost more than most tests.
    for pid in sorted(set(_processes()) - set(before)):
        command = _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
        if any(known in command for known in PROCESSES_OF_THE_RUNNER):
            continue
        if _descends(pid) or mark.encode() in _read(pid, "cmdline") + _read(pid, "environ") + _cwd(pid):
            yield f"process {pid} ({command[:200] or 'ended, but nobody waited for it'})"


def new_threads(before: Collection[threading.Thread]) -> Iterator[str]:
    for thread in threading.enumerate():
        if thread not in before and thread.is_alive() and not thread.name.startswith(THREADS_OF_THE_RUNNER):
            yield f"thread {thread.name}"


def new_descriptors(before: dict[int, str]) -> Iterator[str]:
    for number, target in _descriptors().items():
        if before.get(number) != target and target not in DESCRIPTORS_OF_THE_RUNNER:
            yield f"descriptor {number} ({target})"


def _processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _descends(pid: int) -> bool:
    while pid > 1:
        # The name of the program stands in brackets and may hold any character; the parent comes after the last one.
        fields = _read(pid, "stat").rpartition(b")")[2].split()
        pid = int(fields[1]) if fields else 0
        if pid == os.getpid():
            return True
    return False


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(1 << 20)
    except OSError:  # it has ended, or is somebody else's
        return b""


def _cwd(pid: int) -> bytes:
    try:
        return os.fsencode(os.readlink(f"/proc/{pid}/cwd"))
    except OSError:
        return b""


def _descriptors() -> dict[int, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the one that the listing itself was read through
            continue
        # The count of a group that lives is opened when it is first read, also in the midst of another test than the
        # one whose runtime it is; a group that is left over is found as such.
        if not (target.startswith("/sys/fs/cgroup/") and os.path.exists(target)):
            found[int(name)] = target
    return found


def _files(directories: Collection[Path]) -> Iterator[Path]:
    for directory in directories:
        yield from directory.iterdir()
