"""Sizes and spans of time as people write them: `512M`, `1.5G`, `30d`, `12h`."""

import re
from typing import Final

SIZE_RULE: Final = "a number of bytes, such as 512M or 1.5G; K, M, G and T are powers of 1024"
DURATION_RULE: Final = "a number with its unit, such as 30s, 15m, 12h, 30d or 2w"

_SIZES: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE: Final = re.compile(r"([0-9]{1,20})(\.[0-9]{1,9})?([KMGT]?)(?:i?B)?", re.IGNORECASE | re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhdw])", re.ASCII)


def parse_size(text: str) -> int:
    """Bytes: `512M`, `512MB` and `512MiB` are the same, upper or lower case. ValueError, which names the rule, where the text is no size."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"takes {SIZE_RULE}")
    unit = _SIZES[match[3].upper()]
    # Whole numbers past the 53 bits of a float stay what they are.
    return int(match[1]) * unit + int(float(match[2] or 0) * unit)


def in_units(size: int) -> str:
    """A number of bytes as it may be written: in the largest unit that leaves no fraction."""
    unit = next((unit for unit, factor in reversed(_SIZES.items()) if size % factor == 0), "")
    return f"{size // _SIZES[unit]}{unit}"


def parse_duration(text: str) -> float:
    """Seconds. ValueError, which names the rule, where the text is no span of time with its unit."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"takes {DURATION_RULE}")
    return float(match[1]) * _SECONDS[match[2]]
