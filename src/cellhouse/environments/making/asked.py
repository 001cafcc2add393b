"""What an environment is asked to hold, in a form that is the same for the same request."""

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cellhouse.environments.making.interpreter import Interpreter
from cellhouse.model import InvalidArgument

KERNEL: Final = ("ipython>=8.18", "pip")
"""What every environment holds besides: the native kernel stands on IPython, and `%pip` on pip."""
FORMAT: Final = 1
PACKAGES: Final = 1000
FILE_BYTES: Final = 4 << 20
FILES: Final = 64
_NAMES_A_FILE: Final = re.compile(r"(?:-[rc]\s*|--(?:requirement|constraint)(?:\s*=\s*|\s+))(\S.*)")


@dataclass(frozen=True, slots=True)
class Asked:
    """Packages as pip takes them, one each; requirement files by path, with the bytes of each that they lead to."""

    interpreter: Interpreter
    packages: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    contents: tuple[bytes, ...] = field(default=(), repr=False)

    def requirements(self) -> tuple[str, ...]:
        """Lines of a requirements file: what was asked for, and what every environment holds."""
        return (*(f"-r {path}" for path in self.files), *self.packages, *KERNEL)

    def digest(self) -> str:
        """The same for the same request: 64 hexadecimal digits."""
        document = {
            "format": FORMAT,
            "python": self.interpreter.identity(),
            "packages": sorted(set(self.packages) | set(KERNEL)),
            "files": sorted(hashlib.sha256(content).hexdigest() for content in self.contents),
        }
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def read_requirements(interpreter: Interpreter, packages: Iterable[str], files: Iterable[Path]) -> Asked:
    """What the command line says, checked; nothing is fetched. Raises InvalidArgument for what can't be."""
    named = tuple(_package(text) for text in packages)
    if len(named) > PACKAGES:
        raise InvalidArgument.of_field(
            "with", f"{len(named)} packages; at most {PACKAGES}, a file takes more"
        )
    found: dict[Path, bytes] = {}
    given = tuple(path.absolute() for path in files)
    for path in given:
        _follow(path, found)
    return Asked(interpreter, named, given, tuple(found.values()))


def _package(text: str) -> str:
    text = text.strip()
    if not text or any(ord(character) < 32 for character in text):
        raise InvalidArgument.of_field(
            "with", f"{text[:200]!a} is no package; it takes one line, such as pandas>=2"
        )
    if text.startswith("-"):
        raise InvalidArgument.of_field(
            "with",
            f"{text[:200]!a} is an option of pip; it takes packages, and options in a file given with -r",
        )
    if text.startswith((".", "/", "~")):
        raise InvalidArgument.of_field(
            "with",
            f"{text[:200]!a} is a place on this disk, which can change under its name; build a wheel of it and give "
            "that as NAME @ file:///…",
        )
    return text


def _follow(path: Path, found: dict[Path, bytes]) -> None:
    """Adds the file and those that it names by -r and -c: a change in any of them is another request."""
    try:
        path = path.resolve()
        if path in found:
            return
        if len(found) >= FILES:
            raise InvalidArgument.of_field(
                "requirement", f"{path} is one file too many; at most {FILES} together"
            )
        with open(path, "rb", opener=_regular) as file:
            content = file.read(FILE_BYTES + 1)
    except (OSError, RuntimeError) as error:  # the latter for a link to itself
        raise InvalidArgument.of_field(
            "requirement",
            f"{path} can't be read: {getattr(error, 'strerror', None) or error}; it takes a file of requirements",
        ) from None
    if len(content) > FILE_BYTES:
        raise InvalidArgument.of_field("requirement", f"{path} has more than {FILE_BYTES} bytes")
    if b"\0" in content:
        raise InvalidArgument.of_field("requirement", f"{path} is no text; it takes a file of requirements")
    found[path] = content
    for line in content.decode("utf-8", "replace").splitlines():
        if named := _NAMES_A_FILE.match(line.split(" #", 1)[0].strip()):
            _follow(path.parent / named[1].strip(), found)


def _regular(path: str, flags: int) -> int:
    """Nothing that would keep a reader waiting."""
    fd = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "no regular file")
    return fd
