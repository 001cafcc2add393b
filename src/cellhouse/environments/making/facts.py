"""What an environment holds, read from its files."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cellhouse.environments.making.home import read_record
from cellhouse.environments.making.lock import BadLock, Lock, canonical
from cellhouse.environments.prefix import Environment

PACKAGES: Final = 20_000
FILES: Final = 2_000_000
_DIST_INFO: Final = re.compile(r"(?P<name>[A-Za-z0-9._]+)-(?P<version>[^-]+)\.dist-info")
_VERSION: Final = re.compile(rb"(?im)^version(?:_info)?\s*=\s*(\d+\.\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class EnvironmentFacts:
    """`packages` are (name, version), sorted; `size_bytes` what the prefix takes on the disk, None where it was not
    measured; `lock` and `asked` only of one that was made here."""

    name: str
    prefix: Path
    python: str
    packages: tuple[tuple[str, str], ...]
    kernels: tuple[str, ...]
    broken_kernels: tuple[str, ...]
    size_bytes: int | None
    asked: tuple[str, ...]
    lock: Lock | None
    installer: str

    def to_wire(self) -> dict[str, Any]:
        """JSON; what is not known is absent."""
        document: dict[str, Any] = {
            "name": self.name,
            "prefix": str(self.prefix),
            "python": self.python,
            "kernels": list(self.kernels),
            "packages": [{"name": name, "version": version} for name, version in self.packages],
        }
        if self.broken_kernels:
            document["brokenKernels"] = list(self.broken_kernels)
        if self.size_bytes is not None:
            document["sizeBytes"] = str(self.size_bytes)
        if self.lock is not None:
            document |= {"asked": list(self.asked), "installer": self.installer, "lock": self.lock.to_wire()}
        return document


def facts(environment: Environment, *, size: bool = False) -> EnvironmentFacts:
    """Raises OSError."""
    prefix = environment.prefix
    record = read_record(prefix)
    try:
        lock = Lock.from_wire(record["lock"]) if "lock" in record else None
    except BadLock:
        lock = None
    native = ("native",) if environment.ipython else ()
    return EnvironmentFacts(
        name=environment.name,
        prefix=prefix,
        python=_python(prefix),
        packages=tuple(sorted(set(_packages(prefix)))[:PACKAGES]),
        kernels=(*native, *sorted(environment.kernels)),
        broken_kernels=tuple(sorted(environment.broken_kernels)),
        size_bytes=_size(prefix) if size else None,
        asked=tuple(str(each) for each in record.get("asked", ())),
        lock=lock,
        installer=str(record.get("installer", "")),
    )


def _python(prefix: Path) -> str:
    """The version that pyvenv.cfg tells, else that of the directory of its library; "" where neither does."""
    try:
        with (prefix / "pyvenv.cfg").open("rb") as file:
            if found := _VERSION.search(file.read(64 * 1024)):
                return found[1].decode()
    except FileNotFoundError:
        pass
    for library in sorted((prefix / "lib").glob("python3*")):
        return library.name.removeprefix("python")
    return ""


def _packages(prefix: Path) -> Iterator[tuple[str, str]]:
    for site in sorted((prefix / "lib").glob("python3*/site-packages")):
        for entry in os.scandir(site):
            if found := _DIST_INFO.fullmatch(entry.name):
                yield canonical(found["name"]), found["version"]


def _size(prefix: Path) -> int:
    """Blocks on the disk, a file with several names once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for root, directories, names in os.walk(prefix):
        for name in (*directories, *names):
            found = Path(root, name).lstat()
            if found.st_nlink == 1 or (found.st_dev, found.st_ino) not in seen:
                total += found.st_blocks * 512
            if found.st_nlink > 1 and len(seen) < FILES:
                seen.add((found.st_dev, found.st_ino))
    return total
