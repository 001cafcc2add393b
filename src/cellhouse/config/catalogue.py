"""The names of all settings, what kind of value each takes, and the nearest name to one that is none."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

from cellhouse.config.model import Config

ENV_PREFIX: Final = "CELLHOUSE"
_SURELY: Final = 0.9
"""How alike two names are where one is a slip of the other."""
_SIZES: Final = frozenset(
    {"walls.memory", "walls.content", "walls.file_size", "retention.bytes", "artifacts.bytes"}
)
_DURATIONS: Final = frozenset({"session.wait_timeout", "session.input_wait", "session.interrupt_grace"})
_MAY_BE_ZERO: Final = frozenset(
    {"serve.port", "limits.drain_seconds", "limits.grace_seconds", "native.spares"}
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: `[section]` `key` in a file, `CELLHOUSE_SECTION_KEY`, `--set section.key=…`."""

    section: str
    key: str
    kinds: frozenset[type]

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    @property
    def variable(self) -> str:
        return f"{ENV_PREFIX}_{self.section}_{self.key}".upper()

    @property
    def is_list(self) -> bool:
        return tuple in self.kinds

    @property
    def is_path(self) -> bool:
        return Path in self.kinds

    @property
    def is_number(self) -> bool:
        return bool({int, float} & self.kinds)

    @property
    def is_size(self) -> bool:
        """Whether it is a number of bytes, and may be written as 512M."""
        return self.name in _SIZES or self.key.endswith("_bytes")

    @property
    def is_duration(self) -> bool:
        """Whether it is a number of seconds, and may be written as 12h."""
        return self.name in _DURATIONS or self.key.endswith("_seconds")

    @property
    def may_be_zero(self) -> bool:
        return self.name in _MAY_BE_ZERO

    @property
    def separator(self) -> str:
        """What stands between the members of a list that is written as one text."""
        return ":" if self.is_path else ","


@cache
def catalogue() -> dict[str, Setting]:
    """All of them by name, in the order of the model."""
    return {found.name: found for found in _settings()}


@cache
def sections() -> tuple[str, ...]:
    return tuple(Config.model_fields)


def nearest(name: str) -> str:
    """The setting whose name is most like this one; empty where none is like it."""
    known = catalogue()
    section, _, key = name.partition(".")
    same = [each.name for each in known.values() if each.key == key]
    if same:
        return same[0]
    inside = difflib.get_close_matches(name, [each for each in known if each.startswith(f"{section}.")], 1)
    return (inside or difflib.get_close_matches(name, list(known), 1) or [""])[0]


def nearest_section(name: str) -> str:
    return (difflib.get_close_matches(name, sections(), 1, 0.5) or [""])[0]


def meant_variable(variable: str) -> str:
    """The variable that one of no section was surely meant to be; empty where it is another's business.

    Orchestrators set `<NAME>_PORT…` and `<NAME>_SERVICE_…` for a service of our name.
    """
    if variable.startswith((f"{ENV_PREFIX}_PORT", f"{ENV_PREFIX}_SERVICE_")):
        return ""
    known = [setting.variable for setting in catalogue().values()]
    return (difflib.get_close_matches(variable[:120], known, 1, _SURELY) or [""])[0]


def _settings() -> Iterator[Setting]:
    for section, field in Config.model_fields.items():
        kind: Any = field.annotation
        hints = get_type_hints(kind, include_extras=True)
        for each in fields(kind):
            yield Setting(section, each.name, frozenset(_kinds(hints[each.name])))


def _kinds(hint: Any) -> Iterator[type]:
    """The plain types that a hint is made of."""
    origin = get_origin(hint)
    if origin is Annotated:
        yield from _kinds(get_args(hint)[0])
    elif origin is None:
        if isinstance(hint, type):
            yield hint
    else:
        if isinstance(origin, type):
            yield origin
        for each in get_args(hint):
            yield from _kinds(each)
