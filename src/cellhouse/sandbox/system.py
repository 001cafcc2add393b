"""What of the host's system is seen inside: programs and libraries, a small /etc, a /proc without what is none of theirs."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TOP_LEVEL: Final = (
    "bin",
    "sbin",
    "lib",
    "lib32",
    "lib64",
    "libx32",
)  # links into /usr, or directories of old
SYSTEM: Final = (Path("/usr"), *(Path("/", name) for name in TOP_LEVEL), Path("/etc/alternatives"))

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


RESOLVER_BYTES: Final = 65_536

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


def system_mounts() -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for name in TOP_LEVEL:
        yield from _as_found(Path("/", name))


def _copied(name: str, content: bytes, descriptors: list[int]) -> Iterator[str]:
    descriptor = os.memfd_create(name)
    descriptors.append(descriptor)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    yield from ("--file", str(descriptor), f"/etc/{name}")


def resolver_mounts(descriptors: list[int]) -> Iterator[str]:
    """Where names are looked up, for a sandbox on the host's network; a copy, for it may be a link to anywhere."""
    try:
        content = Path("/etc/resolv.conf").read_bytes()[:RESOLVER_BYTES]
    except OSError:
        return  # the host has none: names are what /etc/hosts says, as there
    yield from _copied("resolv.conf", content, descriptors)


def etc_mounts(descriptors: list[int]) -> Iterator[str]:
    """What stands in the new descriptors is copied from them as it is put up."""
    for name, text in ETC_OWN.items():
        yield from _copied(name, text.encode(), descriptors)
    yield from _as_found(Path("/etc/localtime"))
    for name in ETC_SHARED:
        path = Path("/etc", name)
        if path.exists():
            yield from ("--ro-bind", str(path), str(path))


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
