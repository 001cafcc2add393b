"""Walls of namespaces, put up by bwrap: own mounts, processes, network, users and IPC, without any privilege."""

import asyncio
import os
import platform
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from cellhouse.model import Isolation, IsolationLayer
from cellhouse.sandbox.base import ABSENT, IN_FORCE, SandboxSpec, make_private, unavailable
from cellhouse.sandbox.bwrap import LEVEL, Bwrap, find_bwrap, remedy_for
from cellhouse.sandbox.launcher import Launch, Launcher
from cellhouse.sandbox.pidfd import parent_of
from cellhouse.sandbox.seccomp import MACHINES, Filter, this_filter
from cellhouse.sandbox.supervised import SupervisedSandbox

CONTENT: Final = "/content"
RUNTIME_DIR: Final = "/run/cellhouse"
HOME: Final = "/home/user"
SUPERVISOR_DIR: Final = "/run/inside"

TOP_LEVEL: Final = (
    "bin",
    "sbin",
    "lib",
    "lib32",
    "lib64",
    "libx32",
)  # links into /usr, or directories of old
SYSTEM: Final = (Path("/usr"), *(Path("/", name) for name in TOP_LEVEL), Path("/etc/alternatives"))
# A directory of the host that is to be seen inside must not cover one of these, nor lie in one of the first.
RESERVED: Final = ("/proc", "/sys", "/dev", "/etc", CONTENT, RUNTIME_DIR, SUPERVISOR_DIR)
PRIVATE: Final = ("/tmp", HOME)

# Of the host's /etc: names and fonts and certificates, no configuration that could hold a secret.
ETC_SHARED: Final = (
    "ld.so.cache",
    "alternatives",
    "fonts",
    "protocols",
    "services",
    "mime.types",
    "ssl/certs",
    "ssl/openssl.cnf",
    "ca-certificates/extracted",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
)
ETC_OWN: Final = {
    "passwd": "user:x:1000:1000::/home/user:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
    "group": "user:x:1000:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
    "hostname": "sandbox\n",
}


# Readable for all, and of no use to code but to learn about the host: where its kernel lies, who uses it, how it was
# started, and the counters that tell of a neighbour's keystrokes.
PROC_MASKED: Final = frozenset(
    (
        "acpi",
        "asound",
        "cmdline",
        "config.gz",
        "driver",
        "interrupts",
        "iomem",
        "ioports",
        "kallsyms",
        "key-users",
        "keys",
        "latency_stats",
        "locks",
        "modules",
        "mtrr",
        "sched_debug",
        "scsi",
        "timer_stats",
    )
)

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

    def __init__(self, spec: SandboxSpec) -> None:
        super().__init__(spec)
        self._bwrap: Bwrap | None = None
        self._filter: Filter | None = this_filter()

    async def prepare(self, control: int) -> Launch:
        self._bwrap = await asyncio.to_thread(find_bwrap)
        make_private(self.runtime_dir)
        descriptors: list[int] = []
        try:
            argv = [
                str(self._bwrap.path),
                *self._bwrap.confinement,
                *self._mounts(descriptors),
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
        return Launch(argv, cwd=Path("/"), descriptors=descriptors)

    def _mounts(self, descriptors: list[int]) -> Iterator[str]:
        sizes = self.spec.tmpfs
        yield from ("--ro-bind", "/usr", "/usr")
        for name in TOP_LEVEL:
            yield from _as_found(Path("/", name))
        yield from ("--proc", "/proc")
        yield from proc_mounts()
        # Every tmpfs is half of the memory unless a size stands before it. bwrap sizes neither that of /dev nor the root,
        # so nothing can be written to them from the start.
        yield from ("--dev", "/dev", "--size", str(sizes.shm), "--tmpfs", "/dev/shm", "--remount-ro", "/dev")
        for path, size in (("/tmp", sizes.tmp), ("/home", sizes.home), ("/run", sizes.run)):
            yield from ("--size", str(size), "--tmpfs", path)
        yield from ("--dir", HOME)
        yield from self._etc(descriptors)
        yield from self._shared()
        yield from ("--ro-bind", str(self.spec.supervisor.parent), SUPERVISOR_DIR)
        yield from ("--bind", str(self.content), CONTENT, "--bind", str(self.runtime_dir), RUNTIME_DIR)
        yield from ("--remount-ro", "/")

    def _system_calls(self, descriptors: list[int]) -> Iterator[str]:
        if self._filter is not None:
            descriptors.append(self._filter.open())
            yield from ("--seccomp", str(descriptors[-1]))

    def _etc(self, descriptors: list[int]) -> Iterator[str]:
        for name, text in ETC_OWN.items():
            descriptor = os.memfd_create(name)
            descriptors.append(descriptor)
            os.write(descriptor, text.encode())
            os.lseek(descriptor, 0, os.SEEK_SET)
            yield from ("--file", str(descriptor), f"/etc/{name}")
        yield from _as_found(Path("/etc/localtime"))
        for name in ETC_SHARED:
            path = Path("/etc", name)
            if path.exists():
                yield from ("--ro-bind", str(path), str(path))

    def _shared(self) -> Iterator[str]:
        """The host's directories that are seen inside, and the links on the way to the interpreter."""
        shared = self._checked_read_only()
        for path in shared:
            yield from ("--ro-bind", str(path), str(path))
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
        uid = os.geteuid()
        assert self._bwrap is not None
        self._check_held()
        nested = (
            "no further ones inside"
            if self._bwrap.disables_userns
            else "further ones inside are possible with this bwrap"
        )
        later = "comes in a later release"
        held = (
            ("mount", IN_FORCE, f"read-only system, private /content and tmpfs, by {self._bwrap}"),
            ("pid", IN_FORCE, "own process namespace, which ends as a whole"),
            ("network", IN_FORCE, "own network namespace with nothing but its loopback"),
            ("user", IN_FORCE, f"own user namespace without capabilities; {nested}"),
            (
                "ipc",
                IN_FORCE,
                f"own IPC and UTS {'and cgroup ' if has_cgroup_namespaces() else ''}namespaces",
            ),
            (
                "uid",
                ABSENT,
                "shared host uid 0; dropped in a later release"
                if uid == 0
                else f"shared host uid {uid}, that of the service; a uid per runtime {later}",
            ),
            ("seccomp", *self._described_filter()),
            ("landlock", ABSENT, "round each session of the native kernel, no other"),
            ("limits", ABSENT, later),
        )
        return Isolation(
            level=self.level,
            layers=tuple(
                IsolationLayer(name=name, status=status, detail=detail) for name, status, detail in held
            ),
        )

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
        if not self._init_pid:
            return  # it has ended, and the sandbox with it
        try:
            status = Path(f"/proc/{self._init_pid}/status").read_text()
        except OSError:
            return  # likewise
        found = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        if found.get("State", "Z")[0] in "ZX":
            return  # likewise, though nobody has waited for it yet
        shown = {name: found[name] for name in wanted if name in found}
        for name in NAMESPACES:
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
        return remedy_for(said) if "bwrap:" in said else ""

    def end_unready(self, launcher: Launcher) -> None:
        launcher.kill_child()


def _covers(shared: Iterable[Path], path: Path) -> bool:
    """Whether a path of the host is the same thing inside."""
    return any(path == root or root in path.parents for root in (*SYSTEM, *shared))


def _is(kind: Callable[[int], bool], path: Path) -> bool:
    """Whether there is such a thing at this path, and this user can get there."""
    try:
        return kind(path.stat().st_mode)
    except OSError:
        return False


def _as_found(path: Path) -> Iterator[str]:
    """A link as a link, anything else read-only, nothing where there is nothing."""
    if path.is_symlink():
        yield from ("--symlink", str(path.readlink()), str(path))
    elif path.exists():
        yield from ("--ro-bind", str(path), str(path))


def links_on_the_way(path: Path) -> Iterator[tuple[Path, str]]:
    """Every symbolic link met in resolving an absolute path, with its target as it is written."""
    for _ in range(40):  # as many as the kernel follows
        for prefix in (*reversed(path.parents), path):
            if prefix.is_symlink():
                target = str(prefix.readlink())
                yield prefix, target
                path = Path(os.path.normpath(prefix.parent.resolve() / target), path.relative_to(prefix))
                break
        else:
            return


def has_cgroup_namespaces() -> bool:
    """Whether bwrap, which leaves them out where the kernel has none, has made one."""
    return Path("/proc/self/ns/cgroup").exists()


def proc_mounts() -> Iterator[str]:
    """What of a fresh /proc is not the sandbox's to write or to read, though its uid may be the host's root.

    Whatever can be written is made read-only, whatever only root may read or is named above is covered. Asked of the
    host's /proc, so that a file that a later kernel brings is dealt with by its mode.
    """
    for entry in sorted(Path("/proc").iterdir()):
        if entry.name.isdigit() or entry.is_symlink():
            continue
        try:
            mode = entry.lstat().st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode):
            if entry.name in PROC_MASKED:
                yield from ("--size", "4096", "--tmpfs", str(entry), "--remount-ro", str(entry))
            else:
                yield from ("--ro-bind", str(entry), str(entry))
        elif not mode & 0o004 or entry.name in PROC_MASKED:
            yield from ("--ro-bind", "/dev/null", str(entry))
        elif mode & 0o222:
            yield from ("--ro-bind", str(entry), str(entry))
