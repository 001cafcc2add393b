"""`--memory` and its kin: what people write for a limit, as the limits of a runtime."""

import re
from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError

from cellhouse.model import CellhouseError, InvalidArgument, RuntimeLimits
from cellhouse.model.units import in_units, parse_size

OPTIONS: Final = {
    "memory": "--memory",
    "cpus": "--cpus",
    "processes": "--processes",
    "content": "--content",
    "openFiles": "--open-files",
    "fileSize": "--file-size",
}
"""The option of each limit, by the limit's name on the wire."""
SIZES: Final = frozenset(("memory", "content", "fileSize"))
_BYTES: Final = re.compile(r"[0-9]{6,20}")


class BadLimit(ValueError):
    """What was written for an option is no limit; the message names the option."""


def read_limits(given: Mapping[str, str | None]) -> RuntimeLimits | None:
    """The limits, by their names on the wire, as they were written; None where none was. Raises BadLimit."""
    said = {name: text.strip() for name, text in given.items() if text is not None}
    if not said:
        return None
    values = {
        name: _size(name, text) if name in SIZES else _number(name, text) for name, text in said.items()
    }
    try:
        return RuntimeLimits.from_wire(values)
    except ValidationError as error:
        raise _bad(said, error) from None


def option_of(error: CellhouseError) -> str:
    """The option that an error of the call is about; "" where it is about no limit."""
    field = error.metadata.get("field", "").removeprefix("limits.")
    return OPTIONS.get(error.metadata.get("limit", field), "")


def _size(name: str, text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise BadLimit(f"{OPTIONS[name]} {_shown(text)}: {error}") from None


def _number(name: str, text: str) -> int | float:
    try:
        return float(text) if name == "cpus" else int(text)
    except ValueError:
        kind = "a number of CPUs, such as 0.5" if name == "cpus" else "a whole number"
        raise BadLimit(f"{OPTIONS[name]} {_shown(text)}: takes {kind}") from None


def _bad(said: Mapping[str, str], error: ValidationError) -> BadLimit:
    told = InvalidArgument.of_validation("limits", error)
    name = told.metadata.get("field", "")
    rule = _BYTES.sub(lambda found: in_units(int(found[0])), told.message.removeprefix(f"limits: {name}: "))
    return BadLimit(f"{OPTIONS[name]} {_shown(said[name])}: {rule}" if name in said else told.message)


def _shown(text: str) -> str:
    return repr(text[:40]) if text != text[:40] or not text.isprintable() or not text else text
