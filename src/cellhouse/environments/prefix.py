"""One environment: a prefix, its interpreter, and which directories both need to be seen."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from cellhouse.environments.ipython import (
    LEAST_IPYTHON,
    NATIVE_KERNEL,
    find_ipython,
    is_enough,
    native_kernel,
)
from cellhouse.environments.kernelspec import DEFAULT_KERNEL, KernelSpec, read_kernels
from cellhouse.model import CallReason, FailedPrecondition, NotFound

PYVENV_CFG_BYTES: Final = 64 * 1024
UNFINISHED: Final = ".cellhouse-unfinished"
"""Whoever makes a prefix has this file in it for as long as it is at work on it."""
RECORD: Final = "cellhouse-environment.json"
"""What a prefix that `cellhouse env` made says of itself."""
RECORD_BYTES: Final = 16 << 20
NATIVE_BY_DEFAULT: Final[bool] = True
"""Whether the native kernel is what an environment's Python means, where it can be had."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A kernel environment. Nothing of it has been run: all of this was read from files.

    `prefix` is the path by which it was found, `python` the interpreter in it. `base_prefixes` are all directories
    that have to be seen, under their own names and read-only, for the interpreter to start: the prefix, the prefix of
    the Python that it was made from, and either one's real place where the name leads through a link. `ipython` is the
    version of IPython in it, "" without one: with 8.18 or later there is the native kernel, beside those of `kernels`.
    """

    name: str
    prefix: Path
    python: Path
    base_prefixes: tuple[Path, ...]
    kernels: Mapping[str, KernelSpec] = field(default_factory=lambda: MappingProxyType({}))
    broken_kernels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    ipython: str = ""

    def kernel(self, name: str | None = None) -> KernelSpec:
        """The kernel of this name: "native" for ours, else that of a kernelspec; without one, the environment's Python.

        Raises NotFound where there is none, FailedPrecondition where there is one that can't be used, or where the
        native one can't be had.
        """
        if name == NATIVE_KERNEL or (name is None and NATIVE_BY_DEFAULT and is_enough(self.ipython)):
            return self._native()
        wanted = DEFAULT_KERNEL if name is None else name
        if (spec := self.kernels.get(wanted)) is not None:
            return spec
        metadata = {"environment": self.name, "kernel": wanted[:128]}
        if (wrong := self.broken_kernels.get(wanted)) is not None:
            raise FailedPrecondition(
                f"kernel {wanted!a} of environment {self.name!r} can't be used: {wrong}",
                reason="KERNELSPEC_INVALID",
                metadata=metadata,
            )
        there = ", ".join(sorted(self.kernels)[:20]) or "none"
        if name is None:
            remedy = f"install ipython (for the kernel {NATIVE_KERNEL!r}) or ipykernel into {self.prefix}"
        elif wanted == DEFAULT_KERNEL:
            remedy = f"install ipykernel into {self.prefix}"
        else:
            remedy = "name one of these, or install it"
        raise NotFound(
            f"kernel {wanted[:128]!a} is not in environment {self.name!r}: {self.prefix}/share/jupyter/kernels "
            f"has {there}; {remedy}",
            reason=CallReason.NO_SUCH_KERNEL,
            metadata=metadata,
        )

    def _native(self) -> KernelSpec:
        if is_enough(self.ipython):
            return native_kernel(self.prefix, self.python)
        least = ".".join(map(str, LEAST_IPYTHON))
        has = f"IPython {self.ipython}" if self.ipython else "no IPython"
        raise FailedPrecondition(
            f"kernel {NATIVE_KERNEL!r} of environment {self.name!r} can't be had: {self.prefix} has {has}; install "
            f"ipython {least} or later into it",
            reason="NATIVE_KERNEL_UNAVAILABLE",
            metadata={"environment": self.name, "kernel": NATIVE_KERNEL, "ipython": self.ipython},
        )


def is_prefix(path: Path) -> bool:
    """Whether a directory looks like an environment, a half-made one included."""
    marks = (path / "pyvenv.cfg", path / UNFINISHED, path / "bin" / "python", path / "bin" / "python3")
    return any(os.path.lexists(mark) for mark in marks)


def read_environment(prefix: Path, name: str | None = None) -> Environment:
    """The environment in this directory. Raises FailedPrecondition where it can't be used, and says why."""
    prefix = prefix.absolute()
    name = prefix.name if name is None else name

    def unusable(why: str, remedy: str) -> FailedPrecondition:
        return FailedPrecondition(
            f"environment {name!r} in {prefix} can't be used: {why}; {remedy}",
            reason="ENVIRONMENT_BROKEN",
            metadata={"environment": name},
        )

    again = "make it anew (in a checkout of Cellhouse: make setup)"
    try:
        if (prefix / UNFINISHED).exists():
            raise unusable(
                "whoever makes it is still at work, or was broken off",
                "let it finish, or make it anew (make setup, cellhouse env create)",
            )
        python = _interpreter(prefix)
        if python is None:
            raise unusable("it has no working bin/python", again)
        bases = tuple(dict.fromkeys(_seen(prefix, python)))
        if not any(_has_standard_library(base) for base in bases):
            raise unusable(f"the standard library of {python.resolve()} was not found beside it", again)
        if any(base == Path(base.anchor) for base in bases):
            raise unusable("it would need the whole file system to be seen", "make it from another Python")
        kernels, broken = read_kernels(prefix, python)
        ipython = find_ipython(prefix)
    except OSError as error:
        raise unusable(f"{error.filename}: {error.strerror}", "make it readable for the service") from error
    return Environment(
        name, prefix, python, bases, MappingProxyType(kernels), MappingProxyType(broken), ipython
    )


def _interpreter(prefix: Path) -> Path | None:
    for name in ("python", "python3"):
        path = prefix / "bin" / name
        if path.is_file() and os.access(path, os.X_OK):
            return path
    return None


def _seen(prefix: Path, python: Path) -> Iterator[Path]:
    """What has to be seen. A directory that merely holds a link to the interpreter (~/bin, say) is not among it."""
    yield prefix
    yield prefix.resolve()
    home = _home(prefix)
    # A link is left as it is (the interpreter looks its library up through it), but not where that is the whole system:
    # /bin is /usr/bin on most.
    for path in [home, home.resolve()] if home else []:
        base = path.parent
        if base != Path(base.anchor) and _has_standard_library(base):
            yield base
            yield base.resolve()
    real = python.resolve().parent.parent
    if _has_standard_library(real):
        yield real
    yield from _registered(prefix)


def _registered(prefix: Path) -> Iterator[Path]:
    """What the kernel of another language needs to be seen, as whoever registered it said."""
    try:
        with (prefix / RECORD).open("rb") as file:
            record = json.loads(file.read(RECORD_BYTES))
    except (FileNotFoundError, ValueError):
        return
    shown = record.get("shown", ()) if isinstance(record, dict) else ()
    for item in shown if isinstance(shown, list) else ():
        if isinstance(item, str) and item.startswith("/"):
            yield Path(item)


def _home(prefix: Path) -> Path | None:
    """The directory of the interpreter that a virtual environment was made from (PEP 405, key `home`)."""
    try:
        with (prefix / "pyvenv.cfg").open("rb") as file:
            text = file.read(PYVENV_CFG_BYTES).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip().lower() == "home" and Path(value.strip()).is_absolute():
            return Path(value.strip())
    return None


def _has_standard_library(prefix: Path) -> bool:
    # os.py is the landmark that CPython itself looks for.
    return any(
        (library / "os.py").is_file()
        for lib in ("lib", "lib64")
        for library in (prefix / lib).glob("python3*")
    )
