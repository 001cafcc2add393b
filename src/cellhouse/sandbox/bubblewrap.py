"""Walls of namespaces, put up by bwrap: own mounts, processes, network, users and IPC, without any privilege."""

import os
import platform
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from cellhouse.model import Isolation, IsolationLayer
from cellhouse.sandbox.base import ABSENT, IN_FORCE, SandboxSpec, unavailable
from cellhouse.sandbox.bwrap import LEVEL, Bwrap, candidates, find_bwrap, program_in, program_root, remedy_for
from cellhouse.sandbox.launcher import Launch, Launcher
from cellhouse.sandbox.pidfd import parent_of
from cellhouse.sandbox.privileged import STARTER_SAYS, Privileged, View, starter_remedy
from cellhouse.sandbox.seccomp import MACHINES, Filter, this_filter
from cellhouse.sandbox.supervised import SupervisedSandbox
from cellhouse.sandbox.system import (
    SYSTEM,
    etc_mounts,
    has_cgroup_namespaces,
    links_on_the_way,
    proc_mounts,
    resolver_mounts,
    system_mounts,
)

CONTENT: Final = "/content"
RUNTIME_DIR: Final = "/run/cellhouse"
HOME: Final = "/home/user"
SUPERVISOR_DIR: Final = "/run/inside"

# A directory of the host that is to be seen inside must not cover one of these, nor lie in one of the first.
RESERVED: Final = ("/proc", "/sys", "/dev", "/etc", CONTENT, RUNTIME_DIR, SUPERVISOR_DIR)
PRIVATE: Final = ("/tmp", HOME)

# What the supervisor's status must show, before the report says that it is so.
HELD: Final = {
    "NoNewPrivs": "1",
    **dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), "0000000000000000"),
}
FILTERED: Final = {"Seccomp": "2"}
NAMESPACES: Final = ("mnt", "pid", "net", "user", "ipc", "uts")


class BubblewrapSandbox(SupervisedSandbox):
    """Isolation "bubblewrap"."""

    level = LEVEL
    own_users = True

    def __init__(self, spec: SandboxSpec, privileged: Privileged | None = None) -> None:
        super().__init__(spec, privileged)
        self._bwrap: Bwrap | None = None
        self._filter: Filter | None = this_filter()

    async def prepare(self, control: int) -> Launch:
        identity = await self.claim()
        self._bwrap = await self.in_thread(partial(find_bwrap, self._privileged))
        for directory in (self.content, self.runtime_dir):
            await self.in_thread(partial(self._privileged.make, directory))
        view = View(needed=identity is not None)
        descriptors: list[int] = []
        try:
            argv = [
                str(program_in(view, self._bwrap.path)),
                *self._bwrap.confinement,
                *(("--share-net",) if self.spec.host_network else ()),
                *self._mounts(descriptors, view),
                *self._system_calls(descriptors),
                "--chdir",
                CONTENT,
                "--",
            ]
        except BaseException:
            for descriptor in descriptors:
                os.close(descriptor)
            raise
        argv += [
            str(self.spec.python),
            "-I",
            "-S",
            "-B",
            self.inside_path(self.spec.supervisor),
            str(control),
        ]
        return Launch(argv, cwd=Path("/"), descriptors=descriptors, identity=identity, view=view.seen)

    def _mounts(self, descriptors: list[int], view: View) -> Iterator[str]:
        sizes = self.spec.tmpfs
        yield from system_mounts()
        yield from ("--proc", "/proc")
        yield from proc_mounts()
        # Every tmpfs is half of the memory unless a size stands before it. bwrap sizes neither that of /dev nor the root,
        # so nothing can be written to them from the start.
        yield from ("--dev", "/dev", "--size", str(sizes.shm), "--tmpfs", "/dev/shm", "--remount-ro", "/dev")
        for path, size in (("/tmp", sizes.tmp), ("/home", sizes.home), ("/run", sizes.run)):
            yield from ("--size", str(size), "--tmpfs", path)
        yield from ("--dir", HOME)
        yield from etc_mounts(descriptors)
        if self.spec.host_network:
            yield from resolver_mounts(descriptors)
        yield from self._shared(view)
        yield from ("--ro-bind", str(view.place(self.spec.supervisor.parent)), SUPERVISOR_DIR)
        for directory, inside in ((self.content, CONTENT), (self.runtime_dir, RUNTIME_DIR)):
            yield from ("--bind", str(view.place(directory, writable=True)), inside)
        yield from ("--remount-ro", "/")

    def _system_calls(self, descriptors: list[int]) -> Iterator[str]:
        if self._filter is not None:
            descriptors.append(self._filter.open())
            yield from ("--seccomp", str(descriptors[-1]))

    def _shared(self, view: View) -> Iterator[str]:
        """The host's directories that are seen inside, and the links on the way to the interpreter."""
        shared = self._checked_read_only()
        for path in shared:
            yield from ("--ro-bind", str(view.place(path)), str(path))
        # Whatever is at the host's name of the interpreter must be found under that name inside.
        for link, target in links_on_the_way(self.spec.python):
            if _covers(shared, link) or any(path == link or link in path.parents for path in shared):
                continue
            yield from ("--symlink", target, str(link))
        real = self.spec.python.resolve()
        if not _is(stat.S_ISREG, real):
            raise unavailable(
                f"isolation {self.level!r}: there is no interpreter {self.spec.python} that this user can reach; name another",
                level=self.level,
            )
        if not _covers(shared, real):
            raise unavailable(
                f"isolation {self.level!r}: the interpreter {self.spec.python} is {real}, which can't be seen from inside; "
                "name its prefix and its base prefix among the read-only directories",
                level=self.level,
            )

    def _checked_read_only(self) -> list[Path]:
        shared = []
        for path in dict.fromkeys(self.spec.read_only):
            if not path.is_absolute() or not _is(stat.S_ISDIR, path):
                raise unavailable(
                    f"isolation {self.level!r}: the read-only directory {path} is no absolute path of a directory that this user can enter",
                    level=self.level,
                )
            state = self.spec.state.resolve()
            if path.resolve() in (state, *state.parents):
                raise unavailable(
                    f"isolation {self.level!r}: the read-only directory {path} holds the state directory "
                    f"{self.spec.state}, which would be seen from inside; move the one out of the other",
                    level=self.level,
                )
            for reserved in map(Path, RESERVED + PRIVATE):
                inside = reserved in path.parents and str(reserved) in RESERVED
                if inside or path == reserved or path in reserved.parents:
                    raise unavailable(
                        f"isolation {self.level!r}: the read-only directory {path} can't be seen inside under its own name, "
                        f"where the sandbox has its own {reserved}; move it elsewhere",
                        level=self.level,
                    )
            if not _covers([], path):
                shared.append(path)
        return shared

    def describe(self) -> Isolation:
        assert self._bwrap is not None
        self._check_held()
        nested = (
            "no further ones inside"
            if self._bwrap.disables_userns
            else "further ones inside are possible with this bwrap"
        )
        held = (
            ("mount", IN_FORCE, f"read-only system, private /content and tmpfs, by {self._bwrap}"),
            ("pid", IN_FORCE, "own process namespace, which ends as a whole"),
            ("network", *self._described_network()),
            ("user", IN_FORCE, f"own user namespace without capabilities; {nested}"),
            (
                "ipc",
                IN_FORCE,
                f"own IPC and UTS {'and cgroup ' if has_cgroup_namespaces() else ''}namespaces",
            ),
            ("uid", *self._described_uid()),
            ("seccomp", *self._described_filter()),
            ("landlock", ABSENT, "round each session of the native kernel, no other"),
            ("limits", ABSENT, "none were asked for"),
        )
        return Isolation(
            level=self.level,
            layers=tuple(
                IsolationLayer(name=name, status=status, detail=detail) for name, status, detail in held
            ),
        )

    def _described_network(self) -> tuple[str, str]:
        if self.spec.host_network:
            return ABSENT, (
                "the host's own network was asked for: all that it reaches, its loopback, and its abstract sockets "
                "but from sessions in a Landlock domain"
            )
        return IN_FORCE, "own network namespace with nothing but its loopback"

    def _described_uid(self) -> tuple[str, str]:
        if self._identity is not None:
            who = f"uid {self._identity.uid} and gid {self._identity.gid} of the host"
            reader = self._privileged.reader
            read = f"uid {reader}" if reader else "root, as in every house that is not a service's"
            return (
                IN_FORCE,
                f"{who} are this runtime's alone; no other group; what its kernels say is read by {read}",
            )
        return ABSENT, f"shared host uid {os.geteuid()}, that of the service: {self._privileged.no_identity}"

    def _described_filter(self) -> tuple[str, str]:
        if self._filter is None:
            return (
                ABSENT,
                f"no filter of system calls can be made for {platform.machine()}, only for {', '.join(MACHINES)}",
            )
        detail = f"system calls filtered for {self._filter.machine}, foreign architectures killed"
        return IN_FORCE, f"{detail}; filter sha256:{self._filter.digest}"

    def _check_held(self) -> None:
        """FailedPrecondition where the kernel of the host says of the supervisor that it is held less than is claimed."""
        wanted = {**HELD, **({} if self._filter is None else FILTERED)}
        if self._identity is not None:
            uid, gid = self._identity.uid, self._identity.gid
            wanted |= {"Uid": "\t".join([str(uid)] * 4), "Gid": "\t".join([str(gid)] * 4), "Groups": ""}
        if not self._init_pid:
            return  # it has ended, and the sandbox with it
        try:
            status = Path(f"/proc/{self._init_pid}/status").read_text()
        except OSError:
            return  # likewise
        found = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        if found.get("State", "Z")[0] in "ZX":
            return  # likewise, though nobody has waited for it yet
        shown = {name: found[name].strip() for name in wanted if name in found}
        for name in NAMESPACES:
            if name == "net" and self.spec.host_network:
                continue
            try:
                own = os.readlink(f"/proc/{self._init_pid}/ns/{name}")
            except OSError:
                continue  # the supervisor is nobody's to look into but root's
            if own == os.readlink(f"/proc/self/ns/{name}"):
                shown[f"{name} namespace"], wanted[f"{name} namespace"] = "of the host", "its own"
        for name, value in shown.items():
            if value != wanted[name]:
                raise unavailable(
                    f"isolation {self.level!r}: {self._bwrap} started the supervisor with {name} {value} instead of "
                    f"{wanted[name]}; take another bwrap",
                    level=self.level,
                )

    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.spec.python.parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": HOME,
            "LANG": "C.UTF-8",
            "TMPDIR": "/tmp",
        }

    def is_supervisor(self, pid: int, launcher: int) -> bool:
        return parent_of(pid) == launcher

    def inside_path(self, host: Path) -> str:
        moved = (
            (self.content, CONTENT),
            (self.runtime_dir, RUNTIME_DIR),
            (self.spec.supervisor.parent, SUPERVISOR_DIR),
        )
        for outside, inside in moved:
            if host == outside or outside in host.parents:
                return str(Path(inside, host.relative_to(outside)))
        if _covers(self.spec.read_only, host):
            return str(host)
        raise ValueError(f"{host} can't be seen from inside the sandbox")

    def remedy(self, said: str) -> str:
        if "bwrap: execvp" in said and "Permission denied" in said and self._identity is not None:
            return (
                f"The runtime's own uid can't run {self.spec.python}; make its environment readable for everybody "
                "(chmod -R a+rX)"
            )
        if "bwrap:" in said:
            return remedy_for(said)
        return starter_remedy(said) if STARTER_SAYS in said else ""

    def end_unready(self, launcher: Launcher) -> None:
        launcher.kill_child()


def shown(spec: SandboxSpec) -> list[Path]:
    """What of the host the view of such a sandbox has to show, but for what it may write."""
    programs = [program_root(path) for path in candidates()]
    return [*spec.read_only, spec.supervisor.parent, *programs]


def _covers(shared: Iterable[Path], path: Path) -> bool:
    """Whether a path of the host is the same thing inside."""
    return any(path == root or root in path.parents for root in (*SYSTEM, *shared))


def _is(kind: Callable[[int], bool], path: Path) -> bool:
    """Whether there is such a thing at this path, and this user can get there."""
    try:
        return kind(path.stat().st_mode)
    except OSError:
        return False
