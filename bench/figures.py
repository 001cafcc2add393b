"""Medians and percentiles of what was measured, and how they are written."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Figures:
    """Many values of one thing in short."""

    count: int
    median: float
    p95: float
    worst: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        ordered = sorted(values)
        return cls(len(ordered), statistics.median(ordered), percentile(ordered, 0.95), ordered[-1])


@dataclass(frozen=True, slots=True)
class Both:
    """The same thing on both sides, in seconds."""

    ours: Figures
    raw: Figures

    @property
    def ratio(self) -> float:
        return self.ours.median / self.raw.median


def percentile(ordered: Sequence[float], part: float) -> float:
    """Of sorted values, the least one that `part` of them do not exceed."""
    if not ordered:
        raise ValueError("there is no percentile of nothing")
    rank = -int(-len(ordered) * part // 1)  # rounded up
    return ordered[max(rank, 1) - 1]


def seconds(value: float) -> str:
    if value < 0.1:
        return f"{value * 1e3:.2f} ms"
    if value < 1:
        return f"{value * 1e3:.0f} ms"
    return f"{value:.2f} s"


def mebibytes(value: float) -> str:
    return f"{value / MIB:.1f} MiB"


def times(ratio: float) -> str:
    """A ratio, with digits enough where it is small."""
    return f"{ratio:.2f}" if ratio >= 0.2 else f"{ratio:.3f}"
