"""Walls of namespaces, put up by bwrap: own mounts, processes, network, users and IPC, without any privilege."""

import asyncio
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from cellhouse.model import Isolation, IsolationLayer
from cellhouse.sandbox.base import ABSENT, IN_FORCE, SandboxSpec, make_private, unavailable
from cellhouse.sandbox.bwrap import LEVEL, Bwrap, find_bwrap, remedy_for
from cellhouse.sandbox.launcher import Launch, Launcher
from cellhouse.sandbox.pidfd import parent_of
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


class BubblewrapSandbox(SupervisedSandbox):
    """Isolation "bubblewrap"."""

    level = LEVEL

    def __init__(self, spec: SandboxSpec) -> None:
        super().__init__(spec)
        self._bwrap: Bwrap | None = None

    async def prepare(self, control: int) -> Launch:
        self._bwrap = await asyncio.to_thread(find_bwrap)
        make_private(self.runtime_dir)
        descriptors: list[int] = []
        try:
            argv = [
                str(self._bwrap.path),
                *self._bwrap.confinement,
                *self._mounts(descriptors),
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
        # Every tmpfs is half of the memory unless a size stands before it.
        yield from ("--dev", "/dev", "--size", str(sizes.shm), "--tmpfs", "/dev/shm", "--remount-ro", "/dev")
        for path, size in (("/tmp", sizes.tmp), ("/home", sizes.home), ("/run", sizes.run)):
            yield from ("--size", str(size), "--tmpfs", path)
        yield from ("--dir", HOME)
        yield from self._etc(descriptors)
        yield from self._shared()
        yield from ("--ro-bind", str(self.spec.supervisor.parent), SUPERVISOR_DIR)
        yield from ("--bind", str(self.content), CONTENT, "--bind", str(self.runtime_dir), RUNTIME_DIR)
        yield from ("--remount-ro", "/")

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
            ("ipc", IN_FORCE, "own IPC, UTS and, where the kernel has them, cgroup namespaces"),
            (
                "uid",
                ABSENT,
                "shared host uid 0; dropped in a later release"
                if uid == 0
                else f"shared host uid {uid}, that of the service; a uid per runtime {later}",
            ),
            ("seccomp", ABSENT, later),
            ("landlock", ABSENT, "round each session of the native kernel, no other"),
            ("limits", ABSENT, later),
        )
        return Isolation(
            level=self.level,
            layers=tuple(
                IsolationLayer(name=name, status=status, detail=detail) for name, status, detail in held
            ),
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


def proc_mounts() -> Iterator[str]:
    """What of a fresh /proc is not the sandbox's to write or to read, though its uid may be the host's root.

    Whatever can be written is made read-only, whatever only root may read is covered. Asked of the host's /proc, so
    that a file that a later kernel brings is dealt with by its mode.
    """
    for entry in sorted(Path("/proc").iterdir()):
        if entry.name.isdigit() or entry.is_symlink():
            continue
        try:
            mode = entry.lstat().st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode):
            yield from ("--ro-bind", str(entry), str(entry))
        elif not mode & 0o004:
            yield from ("--ro-bind", "/dev/null", str(entry))
        elif mode & 0o222:
            yield from ("--ro-bind", str(entry), str(entry))
