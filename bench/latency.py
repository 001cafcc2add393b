"""Warm executions of both sides in one process, in random order; and how soon a killed kernel is told of."""

import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figures
from bench.ours import cellhouse
from bench.raw import raw_kernel
from cellhouse.environments import find_environment
from cellhouse.model import Outcome

WARM_CODE = "1 + 1"
STAMP = "died.txt"
DEATH_CODE = (
    "import os, time\n"
    "print('before', flush=True)\n"
    "time.sleep(0.3)\n"
    f"open('{STAMP}', 'w').write(repr(time.time()))\n"
    "os.kill(os.getpid(), 9)\n"
)


@dataclass(frozen=True, slots=True)
class Both:
    """The same thing on both sides, in seconds."""

    ours: Figures
    raw: Figures

    @property
    def ratio(self) -> float:
        return self.ours.median / self.raw.median


async def warm(count: int, seed: int) -> Both:
    """`1 + 1` back to back, `count` times a side, the sides in random order."""
    taken: dict[str, list[float]] = {"ours": [], "raw": []}
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        directory = Path(name)
        async with (
            cellhouse(directory / "state") as ours,
            raw_kernel(find_environment().python, directory / "raw") as raw,
        ):
            sides = {"ours": ours.execute, "raw": raw.execute}
            for execute in sides.values():
                for _ in range(20):
                    await execute(WARM_CODE)
            order = [*sides] * count
            random.Random(seed).shuffle(order)
            for side in order:
                start = time.perf_counter()
                await sides[side](WARM_CODE)
                taken[side].append(time.perf_counter() - start)
    return Both(Figures.of(taken["ours"]), Figures.of(taken["raw"]))


@dataclass(frozen=True, slots=True)
class Deaths:
    """Seconds from the death to the word of it, and what the word lacked."""

    both: Both
    faults: list[str]


async def deaths(count: int) -> Deaths:
    """A kernel that kills itself, `count` times a side."""
    taken: dict[str, list[float]] = {"ours": [], "raw": []}
    faults: list[str] = []
    python = find_environment().python
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        directory = Path(name)
        async with cellhouse(directory / "state") as ours:
            for number in range(count):
                await ours.execute(WARM_CODE)
                result = await ours.execute(DEATH_CODE)
                taken["ours"].append(time.time() - float(ours.read_file(STAMP)))
                if result.outcome is not Outcome.KERNEL_DIED or result.stdout != "before\n":
                    faults.append(f"{result.outcome}, stdout {result.stdout!r}")
                async with raw_kernel(python, directory / f"raw{number}") as raw:
                    await raw.execute(WARM_CODE)
                    seen = await raw.execute(DEATH_CODE)
                    taken["raw"].append(time.time() - float((directory / f"raw{number}" / STAMP).read_text()))
                    if not seen.died:
                        faults.append("the peer's client saw no death")
    return Deaths(Both(Figures.of(taken["ours"]), Figures.of(taken["raw"])), faults)
