"""A lock: each package of an environment with its exact version and the digests of what it may be installed from."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from cellhouse.environments.making.interpreter import Interpreter

FORMAT: Final = 1
PACKAGES: Final = 10_000
_HASH = re.compile(r"sha(256|384|512):[0-9a-f]{64,128}")
_CONTINUED = re.compile(r"\\\n\s*")


class BadLock(ValueError):
    """Not a lock; says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Locked:
    """One package. `url` where it comes from a place of its own; `hashes` as pip writes them, none for a repository
    at a commit, whose name is a digest itself."""

    name: str
    version: str = ""
    url: str = ""
    hashes: tuple[str, ...] = ()

    def line(self) -> str:
        """As a requirements file has it."""
        what = f"{self.name} @ {self.url}" if self.url else f"{self.name}=={self.version}"
        return " \\\n    ".join((what, *(f"--hash={each}" for each in self.hashes)))


@dataclass(frozen=True, slots=True)
class Lock:
    """All packages, by name."""

    packages: tuple[Locked, ...]

    def digest(self, interpreter: Interpreter) -> str:
        """What the environment of this lock and Python is kept under: 64 hexadecimal digits."""
        document = {"python": interpreter.identity(), "lock": self.to_wire()}
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    def hashed(self) -> str:
        """Those with digests, as a requirements file."""
        return "".join(f"{each.line()}\n" for each in self.packages if each.hashes)

    def unhashed(self) -> str:
        """Those that only a commit names, likewise."""
        return "".join(f"{each.line()}\n" for each in self.packages if not each.hashes)

    def to_wire(self) -> dict[str, Any]:
        packages = [
            {
                "name": each.name,
                **({"version": each.version} if each.version else {}),
                **({"url": each.url} if each.url else {}),
                "hashes": list(each.hashes),
            }
            for each in self.packages
        ]
        return {"format": FORMAT, "packages": packages}

    @classmethod
    def from_wire(cls, document: Any) -> "Lock":
        """Raises BadLock."""
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise BadLock(f"no lock of format {FORMAT}")
        listed = document.get("packages")
        if not isinstance(listed, list) or len(listed) > PACKAGES:
            raise BadLock(f"packages must be a list of at most {PACKAGES}")
        return cls(tuple(map(_locked, listed)))

    @classmethod
    def of_requirements(cls, text: str) -> "Lock":
        """From what a resolver printed as a requirements file with hashes. Raises BadLock."""
        found = [_parsed(line) for line in _lines(text)]
        if len(found) > PACKAGES:
            raise BadLock(f"{len(found)} packages; at most {PACKAGES}")
        return cls.of(found)

    @classmethod
    def of(cls, packages: list[Locked]) -> "Lock":
        """Sorted by name, hashes too: the order that a resolver happened to take is no part of it."""
        return cls(tuple(sorted(packages, key=lambda each: each.name)))


def canonical(name: str) -> str:
    """PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _locked(item: Any) -> Locked:
    if not isinstance(item, dict):
        raise BadLock("a package must be an object")
    name, version, url = item.get("name"), item.get("version", ""), item.get("url", "")
    hashes = item.get("hashes")
    texts = all(isinstance(each, str) and "\n" not in each for each in (name, version, url))
    if not texts or not name or not (version or url):
        raise BadLock("a package must have a name and a version or a url")
    if not isinstance(hashes, list) or not all(
        isinstance(each, str) and _HASH.fullmatch(each) for each in hashes
    ):
        raise BadLock(f"{name}: hashes must be such as sha256:…")
    return Locked(name, version, url, tuple(hashes))


def _lines(text: str) -> Iterator[str]:
    for line in _CONTINUED.sub(" ", text).splitlines():
        line = line.strip()
        # Options stand for themselves; where packages come from is the affair of whoever builds.
        if line and not line.startswith(("#", "-")):
            yield line


def _parsed(line: str) -> Locked:
    words = line.split()
    hashes = sorted(word.removeprefix("--hash=") for word in words if word.startswith("--hash="))
    what = " ".join(word for word in words if not word.startswith("--hash=")).split(" ;", 1)[0]
    for each in hashes:
        if not _HASH.fullmatch(each):
            raise BadLock(f"{what[:100]}: {each[:100]} is no digest")
    name, at, url = what.partition(" @ ")
    if at:
        return Locked(canonical(name), url=url.strip(), hashes=tuple(hashes))
    name, equals, version = what.partition("==")
    if not equals or not name.strip() or not version.strip():
        raise BadLock(f"{line[:100]!a} pins nothing")
    return Locked(canonical(name.strip().split("[", 1)[0]), version.strip(), hashes=tuple(hashes))
