"""Warm executions of both sides in one process, the sides taking turns; and how soon a killed kernel is told of."""

import random
import time
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figures
from bench.ours import cellhouse
from bench.raw import raw_kernel
from cellhouse.environments import find_environment
from cellhouse.model import Outcome

WARM_CODE = "1 + 1"
WARM_UP = 20
BLOCK = 20
"""Executions of one side in a row, before it is the other's turn."""
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


@dataclass(frozen=True, slots=True)
class Warm:
    """Time of an execution; and CPU of this process for it, which is the client's or the whole service's."""

    time: Both
    cpu: Both


async def warm(blocks: int, dice: random.Random, directory: Path) -> Warm:
    """`1 + 1` back to back, in `blocks` blocks a side."""
    taken: dict[str, list[float]] = {"ours": [], "raw": []}
    cpu: dict[str, list[float]] = {"ours": [], "raw": []}
    async with (
        cellhouse(directory / "state") as ours,
        raw_kernel(find_environment().python, directory / "raw") as raw,
    ):
        sides = {"ours": ours.execute, "raw": raw.execute}
        for execute in sides.values():
            for _ in range(WARM_UP):
                await execute(WARM_CODE)
        for _ in range(blocks):
            for side in dice.sample(sorted(sides), len(sides)):
                execute = sides[side]
                cpu_start = time.process_time()
                for _ in range(BLOCK):
                    start = time.perf_counter()
                    await execute(WARM_CODE)
                    taken[side].append(time.perf_counter() - start)
                cpu[side].append((time.process_time() - cpu_start) / BLOCK)
    return Warm(
        Both(Figures.of(taken["ours"]), Figures.of(taken["raw"])),
        Both(Figures.of(cpu["ours"]), Figures.of(cpu["raw"])),
    )


@dataclass(frozen=True, slots=True)
class Deaths:
    """Seconds from the death to the word of it, and what the word lacked."""

    both: Both
    faults: list[str]


async def deaths(count: int, directory: Path) -> Deaths:
    """A kernel that kills itself, `count` times a side."""
    taken: dict[str, list[float]] = {"ours": [], "raw": []}
    faults: list[str] = []
    python = find_environment().python
    async with cellhouse(directory / "state") as ours:
        for number in range(count):
            await ours.execute(WARM_CODE)
            result = await ours.execute(DEATH_CODE)
            taken["ours"].append(time.time() - float(ours.read_file(STAMP)))
            cause = result.outcome_info.metadata if result.outcome_info is not None else {}
            if result.outcome is not Outcome.KERNEL_DIED or cause.get("signalName") != "SIGKILL":
                faults.append(f"outcome {result.outcome}, cause {dict(cause)}")
            if result.stdout != "before\n":
                faults.append(f"partial output {result.stdout!r}")
            place = directory / f"raw{number}"
            async with raw_kernel(python, place) as raw:
                await raw.execute(WARM_CODE)
                seen = await raw.execute(DEATH_CODE)
                taken["raw"].append(time.time() - float((place / STAMP).read_text()))
                if not seen.died:
                    faults.append("the peer's client saw no death")
    return Deaths(Both(Figures.of(taken["ours"]), Figures.of(taken["raw"])), faults)
