"""Warm executions of all sides in one process, the sides taking turns; and how soon a killed kernel is told of."""

import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figures import Both, Figures
from bench.ours import IPYKERNEL, cellhouse
from bench.raw import raw_kernel
from bench.workloads import DEEP, FIRST_TEXTS, RAISE
from cellhouse.environments import find_environment
from cellhouse.model import Outcome

WARM_CODE = "1 + 1"
WARM_UP = 20
BLOCK = 20
"""Executions of one side in a row, before it is another's turn."""
STAMP = "died.txt"
DEATH_CODE = (
    "import os, time\n"
    "print('before', flush=True)\n"
    "time.sleep(0.3)\n"
    f"open('{STAMP}', 'w').write(repr(time.time()))\n"
    "os.kill(os.getpid(), 9)\n"
)

Execute = Callable[[str], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Times:
    """Of each side: time of an execution, and CPU of this process for it, which is the client's or the whole service's."""

    time: dict[str, Figures]
    cpu: dict[str, Figures]

    def both(self, side: str = "ours") -> Both:
        return Both(self.time[side], self.time["raw"])

    def both_cpu(self, side: str = "ours") -> Both:
        return Both(self.cpu[side], self.cpu["raw"])


@dataclass(frozen=True, slots=True)
class Warm:
    """What is executed again and again in live sessions, and the first text of what works on afterwards."""

    one: Times
    raised: Times
    deep: Times
    first_texts: dict[str, Both]


async def warm(blocks: int, first_texts: int, dice: random.Random, directory: Path) -> Warm:
    """Each code back to back in `blocks` blocks a side; first texts so often."""
    python = find_environment().python
    async with (
        cellhouse(directory / "state") as ours,
        cellhouse(directory / "over", kernel=IPYKERNEL) as over,
        raw_kernel(python, directory / "raw") as raw,
    ):
        both: dict[str, Execute] = {"ours": ours.execute, "raw": raw.execute}
        one = await take_turns({**both, "over": over.execute}, WARM_CODE, blocks, dice)
        raised = await take_turns(both, RAISE, max(1, blocks // 3), dice)
        deep = await take_turns(both, DEEP, max(1, blocks // 3), dice)
        texts = {"ours": ours.first_text, "raw": raw.first_text}
        return Warm(
            one,
            raised,
            deep,
            {name: await _first_texts(texts, code, first_texts, dice) for name, code in FIRST_TEXTS.items()},
        )


async def take_turns(sides: Mapping[str, Execute], code: str, blocks: int, dice: random.Random) -> Times:
    """Warm it up, then run it in `blocks` blocks a side."""
    taken: dict[str, list[float]] = {side: [] for side in sides}
    cpu: dict[str, list[float]] = {side: [] for side in sides}
    for execute in sides.values():
        for _ in range(WARM_UP):
            await execute(code)
    for _ in range(blocks):
        for side in dice.sample(sorted(sides), len(sides)):
            execute = sides[side]
            cpu_start = time.process_time()
            for _ in range(BLOCK):
                start = time.perf_counter()
                await execute(code)
                taken[side].append(time.perf_counter() - start)
            cpu[side].append((time.process_time() - cpu_start) / BLOCK)
    return Times(
        {side: Figures.of(found) for side, found in taken.items()},
        {side: Figures.of(found) for side, found in cpu.items()},
    )


async def _first_texts(
    sides: Mapping[str, Callable[[str], Awaitable[float]]], code: str, count: int, dice: random.Random
) -> Both:
    taken: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(count):
        for side in dice.sample(sorted(sides), len(sides)):
            took = await sides[side](code)
            if not took:
                raise RuntimeError(f"no text came of {code!r} ({side})")
            taken[side].append(took)
    return Both(Figures.of(taken["ours"]), Figures.of(taken["raw"]))


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
