"""`execute_code` over MCP beside a bare tool of the same SDK on the same transport, and beside jupyter-mcp-server."""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from bench.figures import Figures
from bench.jupyter import MCP_PEERS, jupyter_server
from bench.latency import BLOCK, WARM_CODE, WARM_UP
from bench.served import service

OURS, BARE, PEER = "ours", "bare SDK tool", "jupyter-mcp-server"
PEER_CALLS = 3
"""Of the peer in each block: it takes a second each."""
START_SECONDS = 60.0
_PROGRAM = Path(__file__).with_name("mcp_bare.py")

Call = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Mcp:
    """Seconds of a warm call of each side, over standard input and output and over HTTP."""

    stdio: dict[str, Figures]
    http: dict[str, Figures]


async def mcp(blocks: int, dice: random.Random, directory: Path) -> Mcp:
    """`blocks` blocks of each side on each transport; the sides take turns."""
    async with AsyncExitStack() as stack:
        stdio = {
            OURS: await _ours_stdio(stack, directory / "stdio"),
            BARE: await _bare_stdio(stack),
            PEER: await _peer(stack, directory / "jupyter"),
        }
        http = {OURS: await _ours_http(stack, directory / "http"), BARE: await _bare_http(stack)}
        return Mcp(await _warm(stdio, blocks, dice), await _warm(http, blocks, dice))


async def _warm(sides: dict[str, Call], blocks: int, dice: random.Random) -> dict[str, Figures]:
    taken: dict[str, list[float]] = {side: [] for side in sides}
    for side, call in sides.items():
        for _ in range(1 if side == PEER else WARM_UP):
            await call()
    for _ in range(blocks):
        for side in dice.sample(sorted(sides), len(sides)):
            for _ in range(PEER_CALLS if side == PEER else BLOCK):
                start = time.perf_counter()
                await sides[side]()
                taken[side].append(time.perf_counter() - start)
    return {side: Figures.of(found) for side, found in taken.items()}


def _call(client: Client, **arguments: Any) -> Call:
    async def call() -> None:
        result = await client.call_tool("execute_code", {"code": WARM_CODE, **arguments})
        if result.is_error or "2" not in str(result.content):
            raise RuntimeError(f"execute_code: {result.content}")

    return call


async def _stdio(stack: AsyncExitStack, *command: str, **variables: str) -> Client:
    first, *rest = command
    server = StdioServerParameters(command=first, args=rest, env={**os.environ, **variables})
    silence = stack.enter_context(open(os.devnull, "w"))  # noqa: SIM115 - the peer tells of every call
    return await stack.enter_async_context(Client(stdio_client(server, errlog=silence)))


async def _ours_stdio(stack: AsyncExitStack, directory: Path) -> Call:
    client = await _stdio(stack, sys.executable, "-m", "cellhouse", "mcp", CELLHOUSE_STATE_DIR=str(directory))
    return _call(client, session="runtimes/default/sessions/main")


async def _bare_stdio(stack: AsyncExitStack) -> Call:
    return _call(await _stdio(stack, sys.executable, "-P", str(_PROGRAM), "stdio"))


async def _peer(stack: AsyncExitStack, directory: Path) -> Call:
    server = await stack.enter_async_context(jupyter_server(directory, MCP_PEERS))
    client = await _stdio(
        stack, str(MCP_PEERS / "bin" / "jupyter-mcp-server"), "start", "--transport", "stdio",
        "--jupyter-url", server.url.rstrip("/"), "--jupyter-token", server.token,
    )  # fmt: skip
    made = await client.call_tool(
        "use_notebook", {"notebook_name": "bench", "notebook_path": "bench.ipynb", "mode": "create"}
    )
    if made.is_error:
        raise RuntimeError(f"use_notebook: {made.content}")
    return _call(client)


async def _ours_http(stack: AsyncExitStack, directory: Path) -> Call:
    ours = await stack.enter_async_context(service(directory))
    session = await ours.session(await ours.runtime())
    headers = {"Authorization": ours.authorization}
    return _call(await _http(stack, ours.url, headers), session=session.name)


async def _bare_http(stack: AsyncExitStack) -> Call:
    return _call(await _http(stack, await stack.enter_async_context(_bare()), {}))


async def _http(stack: AsyncExitStack, url: str, headers: dict[str, str]) -> Client:
    client = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False))
    return await stack.enter_async_context(Client(streamable_http_client(f"{url}/mcp", http_client=client)))


@asynccontextmanager
async def _bare() -> AsyncIterator[str]:
    """The address of the bare tool's server."""
    with subprocess.Popen(
        [sys.executable, "-P", str(_PROGRAM), "http"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            async with asyncio.timeout(START_SECONDS):
                line = await asyncio.to_thread(process.stdout.readline)
            yield line.strip().removeprefix("listening on ")
        finally:
            process.terminate()
