"""Fifty sessions at work at once: `House.execute` beside jupyter_client with as many ipykernels."""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager

from bench.jupyter import KERNEL, write_kernelspec
from bench.latency import WARM_CODE
from bench.ours import REST_SECONDS
from cellhouse import ExecuteCodeRequest, House, Settings
from cellhouse.model import Outcome, RuntimeSpec

RUNTIMES, SESSIONS = 10, 5
ROUNDS = 4
READY_SECONDS = 120.0

Execute = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Throughput:
    """Executions a second of all sessions together, and how many each of them had."""

    ours: float
    jupyter: float
    sessions: int
    each: int


async def throughput(each: int, dice: random.Random, directory: Path) -> Throughput:
    """`each` executions of every session, the sides taking turns in `ROUNDS` rounds."""
    per_round = each // ROUNDS
    took = {"ours": 0.0, "jupyter": 0.0}
    async with _house(directory / "state") as ours, _kernels(directory / "jupyter") as jupyter:
        for _ in range(ROUNDS):
            for side in dice.sample(sorted(took), len(took)):
                took[side] += await _together(ours if side == "ours" else jupyter, per_round)
    total = RUNTIMES * SESSIONS * per_round * ROUNDS
    return Throughput(total / took["ours"], total / took["jupyter"], RUNTIMES * SESSIONS, per_round * ROUNDS)


async def _together(executes: Sequence[Execute], each: int) -> float:
    """Seconds until every session has run its code so often, all at once."""

    async def one(execute: Execute) -> None:
        for _ in range(each):
            if not await execute():
                raise RuntimeError("an execution did not go well")

    await asyncio.gather(*(one(execute) for execute in executes))
    await asyncio.sleep(REST_SECONDS)
    start = time.perf_counter()
    await asyncio.gather(*(one(execute) for execute in executes))
    return time.perf_counter() - start


@asynccontextmanager
async def _house(state: Path) -> AsyncIterator[Sequence[Execute]]:
    def executing(house: House, session: str) -> Execute:
        async def execute() -> bool:
            handle = await house.execute(ExecuteCodeRequest(code=WARM_CODE, session=session))
            return (await handle).outcome is Outcome.OK

        return execute

    # Fresh, as the peers are: what is measured is at work, and no zygote imports anything beside it.
    async with House(settings=Settings(state)) as house:
        yield [
            executing(house, f"{runtime.name}/sessions/bench-{number}")
            for runtime in [await house.create_runtime(RuntimeSpec(start="fresh")) for _ in range(RUNTIMES)]
            for number in range(SESSIONS)
        ]


@asynccontextmanager
async def _kernels(directory: Path) -> AsyncIterator[Sequence[Execute]]:
    """As jupyter_client's own documentation drives them, over ipc; each in a directory of its own."""
    directory.mkdir()
    specs = KernelSpecManager(
        kernel_dirs=[str(write_kernelspec(directory))],
        ensure_native_kernel=False,
    )
    async with AsyncExitStack() as stack:
        clients = []
        for number in range(RUNTIMES * SESSIONS):
            place = directory / str(number)
            place.mkdir()
            manager: Any = AsyncKernelManager(
                kernel_name=KERNEL,
                kernel_spec_manager=specs,
                transport="ipc",
                ip=str(place / "k"),
                connection_file=str(place / "connection.json"),
            )
            await manager.start_kernel(cwd=str(place), env={**os.environ, "IPYTHONDIR": str(place)})
            stack.push_async_callback(manager.shutdown_kernel, now=True)
            client: AsyncKernelClient = manager.client()
            client.start_channels()
            stack.callback(client.stop_channels)
            clients.append(client)
        for client in clients:
            await client.wait_for_ready(timeout=READY_SECONDS)
        yield [_executing(client) for client in clients]


def _executing(client: AsyncKernelClient) -> Execute:
    async def execute() -> bool:
        msg_id = client.execute(WARM_CODE)
        while True:
            message: Any = await client.get_iopub_msg()
            if message["parent_header"].get("msg_id") != msg_id:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
        while True:
            reply: Any = await client.get_shell_msg()
            if reply["parent_header"].get("msg_id") == msg_id:
                return bool(reply["content"]["status"] == "ok")

    return execute
