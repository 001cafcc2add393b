"""From nothing to a first result: a new session of a live runtime beside a kernel that is started; and what idle ones hold."""

import asyncio
import os
import random
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import memory
from bench.figures import Both, Figures
from bench.ours import REST_SECONDS, Cellhouse, cellhouse
from bench.raw import raw_kernel
from bench.workloads import AGE, IMPORTS
from cellhouse.environments import find_environment
from cellhouse.model import Outcome
from cellhouse.sandbox.resident import descendants

FORKED, AHEAD = "forked", "ahead"
SPARES = {FORKED: 0, AHEAD: 1}


@dataclass(frozen=True, slots=True)
class Starts:
    """Seconds to the first result: of a session forked when asked for, of one forked ahead, of a cold kernel."""

    forked: Figures
    ahead: Figures
    raw: Figures
    faults: list[str]

    def both(self, side: str) -> Both:
        return Both(self.ahead if side == AHEAD else self.forked, self.raw)


async def starts(code: str, count: int, dice: random.Random, directory: Path) -> Starts:
    """This code as the first of a session, `count` times a side."""
    taken: dict[str, list[float]] = {FORKED: [], AHEAD: [], "raw": []}
    faults: list[str] = []
    async with AsyncExitStack() as stack:
        houses = {
            side: await stack.enter_async_context(cellhouse(directory / side, spares=spares))
            for side, spares in SPARES.items()
        }
        for number in range(count):
            for side in dice.sample(sorted(taken), len(taken)):
                await asyncio.sleep(REST_SECONDS)
                if side == "raw":
                    took, fault = await _cold(code, directory / f"raw{number}")
                else:
                    took, fault = await _session(houses[side], code, ahead=side == AHEAD)
                taken[side].append(took)
                faults += [fault] if fault else []
    figures = {side: Figures.of(found) for side, found in taken.items()}
    return Starts(figures[FORKED], figures[AHEAD], figures["raw"], faults)


async def _session(house: Cellhouse, code: str, *, ahead: bool) -> tuple[float, str]:
    """What a new session takes, and whether it was had as it should be."""
    start = time.perf_counter()
    result = await house.new_session(code)
    took = time.perf_counter() - start
    age = await house.execute_in(result.session, AGE)
    since = time.perf_counter() - start
    await house.delete_session(result.session)
    if result.outcome is not Outcome.OK:
        return took, f"outcome {result.outcome}"
    if (float(age.result) > since + REST_SECONDS / 2) is not ahead:
        return took, "a session that was not forked ahead" if ahead else "a session that was forked ahead"
    return took, ""


async def _cold(code: str, place: Path) -> tuple[float, str]:
    async with raw_kernel(find_environment().python, place, start=False) as raw:
        start = time.perf_counter()
        ok = await raw.first_result(code)
        return time.perf_counter() - start, "" if ok else "a peer's reply that does not say ok"


@dataclass(frozen=True, slots=True)
class Idle:
    """Bytes of all processes of a side, their shared pages once (PSS), and of how many idle sessions."""

    ours_bytes: int
    ours_count: int
    raw_bytes: int
    raw_count: int

    @property
    def ours(self) -> float:
        """Bytes of one session with its share of what all need together."""
        return self.ours_bytes / self.ours_count

    @property
    def raw(self) -> float:
        return self.raw_bytes / self.raw_count


async def idle(sessions: int, kernels: int, dice: random.Random, directory: Path) -> Idle:
    """Sessions of one runtime, then kernels, or the other way round: at one time their pages would count as shared."""
    found: dict[str, int] = {}
    for side in dice.sample(["ours", "raw"], 2):
        if side == "ours":
            found[side] = await _idle_sessions(sessions, directory)
        else:
            found[side] = await _idle_kernels(kernels, directory)
    return Idle(found["ours"], sessions, found["raw"], kernels)


async def _idle_sessions(count: int, directory: Path) -> int:
    """Everything that the runtime runs is counted: walls, supervisor, zygote, what is forked ahead."""
    others = descendants(os.getpid()).keys()
    async with cellhouse(directory / "state") as house:
        for _ in range(count):
            result = await house.new_session(IMPORTS)
            if result.outcome is not Outcome.OK:
                raise RuntimeError(f"the imports failed: {result.execution_error}")
        await asyncio.sleep(REST_SECONDS)
        processes = descendants(os.getpid()).keys() - others
        if len(processes) < count:
            raise RuntimeError(f"{len(processes)} processes of {count} sessions were found")
        return sum(memory.proportional(pid) for pid in processes)


async def _idle_kernels(count: int, directory: Path) -> int:
    async with AsyncExitStack() as stack:
        python = find_environment().python
        pids = []
        for number in range(count):
            raw = await stack.enter_async_context(raw_kernel(python, directory / f"raw{number}"))
            if not (await raw.execute(IMPORTS)).ok:
                raise RuntimeError("the peer's imports failed")
            pids.append(raw.pid)
        await asyncio.sleep(REST_SECONDS)
        return sum(memory.proportional(pid) for pid in pids)
