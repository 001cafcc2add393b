"""Where environments are looked for, and finding one by its name."""

import os
import re
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
ENVIRONMENTS_PER_DIRECTORY: Final = 1024
SEARCHED_DIRECTORIES: Final = 256

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Survey:
    """All environments in the order in which they are found, and of the others, by name what is wrong with them."""

    environments: tuple[Environment, ...]
    broken: Mapping[str, str]


def default_search() -> list[Path]:
    """The directories to look in: those of CELLHOUSE_ENV_PATH, then the one beside the service's own interpreter.

    HOME and CELLHOUSE_STATE_DIR have no say in it. Raises FailedPrecondition for a relative path in the variable.
    """
    given = [Path(item) for item in os.environ.get(ENV_PATH, "").split(os.pathsep) if item]
    for path in given:
        if not path.is_absolute():
            raise FailedPrecondition(
                f"{ENV_PATH}: {str(path)[:200]!a} is a relative path; write out the whole path of each directory",
                reason="ENVIRONMENT_PATH_INVALID",
                metadata={"path": str(path)[:200]},
            )
    if len(given) >= SEARCHED_DIRECTORIES:
        raise FailedPrecondition(
            f"{ENV_PATH} names {len(given)} directories; fewer than {SEARCHED_DIRECTORIES} are looked in",
            reason="ENVIRONMENT_PATH_INVALID",
        )
    return [*given, Path(sys.prefix, "share", "cellhouse", "environments")]


def find_environment(name: str = DEFAULT_ENVIRONMENT, search: Sequence[Path] | None = None) -> Environment:
    """The first environment of this name in `search` (without one: `default_search()`).

    Raises InvalidArgument for what can't be a name, NotFound where there is none, FailedPrecondition where the first
    one can't be used: a later one of the same name is never taken in its stead.
    """
    if not _NAME.fullmatch(name):
        raise InvalidArgument.of_field(
            "environment",
            f"{name[:80]!a} can't name an environment; it takes 1 to 63 letters, digits, '.', '_' and '-', "
            "a letter or digit first",
            reason=CallReason.INVALID_NAME,
        )
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
        else f"use one that is there, or name the directory of {name!r} in {ENV_PATH}"
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
                yield child, directory / child
