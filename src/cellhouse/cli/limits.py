"""`--memory` and its kin: what people write for a limit, as the limits of a runtime."""

import re
from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError

from cellhouse.model import CellhouseError, InvalidArgument, RuntimeLimits

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
_UNITS: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE: Final = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,9})?)([KMGT]?)(?:iB)?", re.IGNORECASE)
_BYTES: Final = re.compile(r"[0-9]{6,20}")
SIZE_RULE: Final = "takes a number of bytes, such as 512M or 1.5G; K, M, G and T are powers of 1024"


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
    match = _SIZE.fullmatch(text)
    if match is None:
        raise BadLimit(f"{OPTIONS[name]} {_shown(text)}: {SIZE_RULE}")
    size = float(match[1]) * _UNITS[match[2].upper()]
    # Whole numbers past the 53 bits of a float stay what they are.
    return int(size) if "." in match[1] else int(match[1]) * _UNITS[match[2].upper()]


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


def in_units(size: int) -> str:
    """A number of bytes as it may be written for an option."""
    unit = next((unit for unit, factor in reversed(_UNITS.items()) if size % factor == 0), "")
    return f"{size // _UNITS[unit]}{unit}"


def _shown(text: str) -> str:
    return repr(text[:40]) if text != text[:40] or not text.isprintable() or not text else text
