"""Where environments are looked for, and finding one by its name.

Three kinds of places, in this order: those of CELLHOUSE_ENV_PATH; the home, where `cellhouse env` keeps what it made;
and the one beside the service's own interpreter.
"""

import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from cellhouse.environments.prefix import Environment, is_prefix, read_environment
from cellhouse.model import CallReason, FailedPrecondition, InvalidArgument, NotFound

DEFAULT_ENVIRONMENT: Final = "default"
ENV_PATH: Final = "CELLHOUSE_ENV_PATH"
"""Directories with colons in between; each is an environment or holds some. They come before the built-in ones."""
ENV_HOME: Final = "CELLHOUSE_ENV_HOME"
"""Where `cellhouse env` keeps environments; without it, below the XDG data directory."""
HOME_PLACES: Final = (".made", ".registered")
"""Where a home has the prefixes that its names mean."""
ENVIRONMENTS_PER_DIRECTORY: Final = 1024
SEARCHED_DIRECTORIES: Final = 256

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Survey:
    """All environments in the order in which they are found, and of the others, by name what is wrong with them."""

    environments: tuple[Environment, ...]
    broken: Mapping[str, str]


def environment_home() -> Path:
    """Where this account's environments are kept; perhaps it is not there."""
    given = os.environ.get(ENV_HOME, "")
    data = os.environ.get("XDG_DATA_HOME", "")
    base = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    return Path(given) if given else base / "cellhouse" / "environments"


def distrusted_home(home: Path) -> str:
    """Why it can't be a home; "" where it can, or is not there. HOME may lead a superuser to what others put there."""
    if not home.is_absolute():
        return "is a relative path; write out the whole path"
    try:
        found = home.stat()
    except OSError:
        return ""
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"belongs to another user, or others can write to it; name another directory in {ENV_HOME}"
    return ""


def beside_service() -> Path:
    """Where `make setup` puts them: with the interpreter that runs this."""
    return Path(sys.prefix, "share", "cellhouse", "environments")


def default_search() -> list[Path]:
    """The directories to look in. CELLHOUSE_STATE_DIR has no say in it.

    Raises FailedPrecondition for a relative path in a variable, or a home that is not this account's.
    """
    given = [Path(item) for item in os.environ.get(ENV_PATH, "").split(os.pathsep) if item]
    for path in given:
        if not path.is_absolute():
            raise FailedPrecondition(
                f"{ENV_PATH}: {str(path)[:200]!a} is a relative path; write out the whole path of each directory",
                reason="ENVIRONMENT_PATH_INVALID",
                metadata={"path": str(path)[:200]},
            )
    if len(given) >= SEARCHED_DIRECTORIES - 1:
        raise FailedPrecondition(
            f"{ENV_PATH} names {len(given)} directories; fewer than {SEARCHED_DIRECTORIES - 1} are looked in",
            reason="ENVIRONMENT_PATH_INVALID",
        )
    home = environment_home()
    if wrong := distrusted_home(home):
        raise FailedPrecondition(
            f"environments: {str(home)[:200]!a} {wrong}",
            reason="ENVIRONMENT_HOME_INVALID",
            metadata={"path": str(home)[:200]},
        )
    return [*given, home, beside_service()]


def check_name(name: str) -> None:
    """Raises InvalidArgument for what can't name an environment."""
    if not _NAME.fullmatch(name):
        raise InvalidArgument.of_field(
            "environment",
            f"{name[:80]!a} can't name an environment; it takes 1 to 63 letters, digits, '.', '_' and '-', "
            "a letter or digit first",
            reason=CallReason.INVALID_NAME,
        )


def find_environment(name: str = DEFAULT_ENVIRONMENT, search: Sequence[Path] | None = None) -> Environment:
    """The first environment of this name in `search` (without one: `default_search()`).

    Raises InvalidArgument for what can't be a name, NotFound where there is none, FailedPrecondition where the first
    one can't be used: a later one of the same name is never taken in its stead.
    """
    check_name(name)
    looked_in = default_search() if search is None else list(search)
    others: dict[str, None] = {}
    for candidate, prefix in _candidates(looked_in):
        if candidate == name:
            return read_environment(prefix, name)
        others[candidate] = None
    there = ", ".join(list(others)[:_SHOWN]) or "none"
    places = ", ".join(f"{path}" if path.is_dir() else f"{path} (missing)" for path in looked_in[:_SHOWN])
    remedy = (
        f"in a checkout of Cellhouse run make setup; elsewhere make a virtual environment with ipykernel in it and "
        f"name its directory in {ENV_PATH}"
        if name == DEFAULT_ENVIRONMENT
        else f"use one that is there, make it (cellhouse env create {name}), or name its directory in {ENV_PATH}"
    )
    raise NotFound(
        f"environment {name!r} was not found; looked in {places or 'no directory'}; there: {there}; {remedy}",
        reason=CallReason.NO_SUCH_ENVIRONMENT,
        metadata={"environment": name},
    )


def survey(search: Sequence[Path] | None = None) -> Survey:
    """Everything that is in `search` (without one: `default_search()`), the broken ones told apart."""
    found: dict[str, Environment] = {}
    broken: dict[str, str] = {}
    for name, prefix in _candidates(default_search() if search is None else search):
        if name in found or name in broken:
            continue
        try:
            found[name] = read_environment(prefix, name)
        except FailedPrecondition as error:
            broken[name] = error.message
    return Survey(tuple(found.values()), MappingProxyType(broken))


def list_environments(search: Sequence[Path] | None = None) -> list[Environment]:
    """The environments that can be used, in the order in which they are found; `survey` also tells of the others."""
    return list(survey(search).environments)


def _candidates(search: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    for directory in search[:SEARCHED_DIRECTORIES]:
        if is_prefix(directory):
            if _NAME.fullmatch(directory.name):
                yield directory.name, directory
            continue
        try:
            children = sorted(entry.name for entry in os.scandir(directory) if _NAME.fullmatch(entry.name))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise FailedPrecondition(
                f"environments: {directory} can't be looked in: {error.strerror}; make it readable for the service, or "
                f"take it out of {ENV_PATH}",
                reason="ENVIRONMENT_PATH_INVALID",
                metadata={"path": str(directory)[:200]},
            ) from error
        for child in children[:ENVIRONMENTS_PER_DIRECTORY]:
            if is_prefix(directory / child):
                yield child, _meant(directory, child)


def _meant(directory: Path, child: str) -> Path:
    """In a home, the prefix itself: the name may mean another one a moment later."""
    prefix = directory / child
    if prefix.is_symlink():
        target = prefix.resolve()
        if target.parent.name in HOME_PLACES and target.parent.parent == directory.resolve():
            return target
    return prefix
