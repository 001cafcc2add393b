"""The service over HTTP beside jupyter_server and raw ipykernel: warm executions, and a new session's first result."""

import asyncio
import random
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figures
from bench.jupyter import JupyterServer, jupyter_server
from bench.latency import BLOCK, WARM_CODE, WARM_UP, Execute
from bench.raw import raw_kernel
from bench.served import REST_SECONDS, Service, service
from cellhouse.environments import find_environment
from cellhouse.runtime import Settings

OURS, JUPYTER, RAW = "ours", "jupyter_server", "raw"
CLIENT, DIRECT = "client", "direct"
"""The same service by Cellhouse's own client; and a service whose runtimes have no keepers, by the lean one."""


@dataclass(frozen=True, slots=True)
class Served:
    """Seconds of each side: a warm execution; and from asking for a session (there: a kernel) to its first result."""

    warm: dict[str, Figures]
    starts: dict[str, Figures]
    faults: list[str]


async def served(blocks: int, count: int, dice: random.Random, directory: Path) -> Served:
    """Warm executions in `blocks` blocks a side, then `count` first results a side; the sides take turns."""
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(service(directory / OURS))
        direct = await stack.enter_async_context(service(directory / DIRECT, "--in-process"))
        jupyter = await stack.enter_async_context(jupyter_server(directory / "jupyter"))
        raw = await stack.enter_async_context(raw_kernel(find_environment().python, directory / RAW))
        runtime = await ours.runtime(start="zygote")
        await ours.settle(runtime, Settings(directory).preload)
        session = (await ours.session(runtime)).name
        other = await direct.runtime(start="zygote")
        await direct.settle(other, Settings(directory).preload)
        beside = (await direct.session(other)).name
        kernel = await stack.enter_async_context(jupyter.kernel())
        sides: dict[str, Execute] = {
            OURS: await stack.enter_async_context(ours.lean(session)),
            CLIENT: await stack.enter_async_context(ours.own(session)),
            DIRECT: await stack.enter_async_context(direct.lean(beside)),
            JUPYTER: kernel.execute,
            RAW: raw.execute,
        }
        warm = await _warm(sides, blocks, dice)
        faults: list[str] = []
        taken: dict[str, list[float]] = {OURS: [], JUPYTER: []}
        for _ in range(count):
            for side in dice.sample(sorted(taken), len(taken)):
                await asyncio.sleep(REST_SECONDS)
                took, ok = await (_ours(ours, runtime) if side == OURS else _jupyter(jupyter))
                taken[side].append(took)
                faults += [] if ok else [f"a first result of {side} that does not say ok"]
        return Served(warm, {side: Figures.of(found) for side, found in taken.items()}, faults)


async def _warm(sides: dict[str, Execute], blocks: int, dice: random.Random) -> dict[str, Figures]:
    taken: dict[str, list[float]] = {side: [] for side in sides}
    for execute in sides.values():
        for _ in range(WARM_UP):
            await execute(WARM_CODE)
    for _ in range(blocks):
        for side in dice.sample(sorted(sides), len(sides)):
            for _ in range(BLOCK):
                start = time.perf_counter()
                await sides[side](WARM_CODE)
                taken[side].append(time.perf_counter() - start)
    return {side: Figures.of(found) for side, found in taken.items()}


async def _ours(ours: Service, runtime: str) -> tuple[float, bool]:
    start = time.perf_counter()
    session = await ours.session(runtime)
    result = await session.execute(WARM_CODE)
    took = time.perf_counter() - start
    await session.delete()
    return took, result.get("outcome") == "OK"


async def _jupyter(jupyter: JupyterServer) -> tuple[float, bool]:
    start = time.perf_counter()
    async with jupyter.kernel() as kernel:
        ok = await kernel.execute(WARM_CODE)
        took = time.perf_counter() - start
    return took, ok
