"""How much goes into one notebook: what is past it is a note."""

from dataclasses import dataclass
from typing import Final

CELL_OUTPUTS: Final = 10_000
"""Outputs of one cell; a reader that has to show more shows none."""
CELLS: Final = 10_000


@dataclass(frozen=True, slots=True)
class BookLimits:
    """Characters of a text, bytes of a bundle."""

    output: int = 10 << 20
    total: int = 100 << 20
    cells: int = CELLS


class Room:
    """What is left of the limits while a notebook is made."""

    __slots__ = ("left", "limits")

    def __init__(self, limits: BookLimits) -> None:
        self.limits = limits
        self.left = limits.total

    def refuses(self, size: int) -> str:
        """Why so much has no place; "" where it has."""
        if size > self.limits.output:
            return f"the limit of one output is {self.limits.output}, and cellhouse export --output-limit gives more"
        if size > self.left:
            return f"the limit of all is {self.limits.total}, and cellhouse export --total-limit gives more"
        return ""

    def take(self, size: int) -> None:
        self.left = max(0, self.left - size)
