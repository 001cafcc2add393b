"""Patterns of file names, as a shell has them: which files of an execution are meant."""

import re
from collections.abc import Iterable
from fnmatch import translate
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

PATTERNS: Final = 100
PATTERN_CHARS: Final = 256


def _checked(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError("takes a list of patterns, not one text")
    if isinstance(value, list | tuple):
        if len(value) > PATTERNS:
            raise ValueError(f"takes at most {PATTERNS} patterns")
        for each in value:
            if not isinstance(each, str) or not 0 < len(each) <= PATTERN_CHARS:
                raise ValueError(f"takes patterns of 1 to {PATTERN_CHARS} characters, such as *.csv")
    return value


Patterns = Annotated[
    tuple[str, ...],
    BeforeValidator(_checked),
    Field(
        json_schema_extra={
            "maxItems": PATTERNS,
            "items": {"type": "string", "minLength": 1, "maxLength": PATTERN_CHARS},
        }
    ),
]
"""`*`, `?` and `[…]` as a shell has them. With a `/` in it a pattern is held against the whole path below /content
(where `*` takes a `/` too), else against the last part of it."""


@lru_cache(maxsize=1_024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns means the file of this name."""
    last = name.rpartition("/")[2]
    return any(_compiled(each).match(name if "/" in each else last) for each in patterns)
