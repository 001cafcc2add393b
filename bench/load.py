"""`python -m bench.load [--quick] [--write FILE]`: the service under load, beside jupyter_server with as many kernels.

Fifty sessions at work at once, a thousand idle streams, fifty runtimes created at the same moment; then everything is
deleted, and nothing may be left in the service's process.
"""

import argparse
import asyncio
import random
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.figures import MIB, mebibytes, seconds
from bench.held import Held
from bench.jupyter import jupyter_server
from bench.latency import WARM_CODE
from bench.memory import proportional
from bench.report import Goal, Report
from bench.served import REST_SECONDS, Service, service
from bench.versions import load, machine, versions
from cellhouse.runtime import Settings

SEED = 20_261_201
RUNTIMES, SESSIONS = 10, 5
ROUNDS = 4
STREAMS = 1_000
CREATES = 50
TIMES = 3
STREAMS_MIB = 64
SLOWER = 1.25
LEAVE_SECONDS = 20.0
LOOK_SECONDS = 0.2
DESCRIPTORS = 16_384
_FOR_EVER = "import time\ntime.sleep(100_000)"


@dataclass(slots=True)
class Load:
    """What the run found. Rates are executions a second of all sessions together."""

    ours: float = 0.0
    peer: float = 0.0
    with_streams: float = 0.0
    streams_bytes: int = 0
    creates: float = 0.0
    errors: int = 0
    left: str = ""


async def measure(each: int, dice: random.Random, directory: Path) -> Load:
    """`each` executions of every session; the sides take turns in `ROUNDS` rounds."""
    found = Load()
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(service(directory / "ours"))
        await (await ours.session(await ours.runtime())).execute(WARM_CODE)
        await _delete_all(ours)
        await _rest()
        before = Held.of(ours.pid)
        runtimes = [await ours.runtime(start="zygote") for _ in range(RUNTIMES)]
        for runtime in runtimes:
            await ours.settle(runtime, Settings(directory).preload)
        sessions = [(await ours.session(runtime)).execute for runtime in runtimes for _ in range(SESSIONS)]
        async with AsyncExitStack() as kernels:
            server = await kernels.enter_async_context(jupyter_server(directory / "jupyter"))
            peers = [
                (await kernels.enter_async_context(server.kernel())).execute for _ in range(len(sessions))
            ]
            took = {"ours": 0.0, "peer": 0.0}
            for _ in range(ROUNDS):
                for side in dice.sample(sorted(took), len(took)):
                    took[side] += await _together(sessions if side == "ours" else peers, each // ROUNDS)
        total = len(sessions) * (each // ROUNDS)
        found.ours, found.peer = ROUNDS * total / took["ours"], ROUNDS * total / took["peer"]
        found.with_streams, found.streams_bytes = await _beside_streams(ours, sessions, each // ROUNDS)
        start = time.perf_counter()
        await _delete_all(ours)
        found.creates, found.errors = await _creates(ours)
        await _delete_all(ours)
        after = await _left(ours.pid, before)
        found.left = _difference(before, after)
        _say(f"all deleted after {seconds(time.perf_counter() - start)}; before {before}, after {after}")
    return found


async def _together(executes: Sequence[Callable[[str], Awaitable[Any]]], each: int) -> float:
    """Seconds until every session has run its code so often, all at once."""

    async def one(execute: Callable[[str], Awaitable[Any]]) -> None:
        for _ in range(each):
            result = await execute(WARM_CODE)
            if result is not True and result.get("outcome") != "OK":
                raise RuntimeError(f"an execution that did not go well: {result}")

    for execute in executes:
        await execute(WARM_CODE)
    await _rest()
    start = time.perf_counter()
    await asyncio.gather(*(one(execute) for execute in executes))
    return time.perf_counter() - start


async def _beside_streams(
    ours: Service, sessions: Sequence[Callable[[str], Awaitable[Any]]], each: int
) -> tuple[float, int]:
    """The rate while a thousand follow an execution that says nothing, and what those cost in memory."""
    runtime = await ours.runtime()
    session = await ours.session(runtime)
    running = asyncio.create_task(ours.client.post(f"{session.name}:executeCode", json={"code": _FOR_EVER}))
    page: list[dict[str, Any]] = []
    while not page:
        page = (await ours.client.get(f"{session.name}/executions")).json().get("executions", [])
        await asyncio.sleep(0.05)
    before = proportional(ours.pid)
    streams = await _open_streams(ours, str(page[0]["execution"]))
    await _rest()
    cost = proportional(ours.pid) - before
    took = await _together(sessions, each)
    for _, writer in streams:
        writer.close()
    await ours.post(f"{session.name}:interrupt", {})
    await running
    return len(sessions) * each / took, cost


async def _open_streams(
    ours: Service, execution: str
) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    url = urlsplit(str(ours.client.base_url))
    assert url.hostname is not None
    authorization = ours.client.headers.get("Authorization")
    head = f"GET {url.path}{execution}/events HTTP/1.1\r\nHost: {url.netloc}\r\nAccept: text/event-stream\r\n"
    head += f"Authorization: {authorization}\r\n\r\n" if authorization else "\r\n"
    streams = []
    for _ in range(STREAMS):
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        writer.write(head.encode())
        streams.append((reader, writer))
    for reader, _ in streams:
        status = await reader.readline()
        if b" 200 " not in status:
            raise RuntimeError(f"a stream that was refused: {status!r}")
        while b"event: started" not in await reader.readline():
            pass
    return streams


async def _creates(ours: Service) -> tuple[float, int]:
    """Fifty runtimes at the same moment, each with a first result; seconds, and how many of them failed."""

    async def one() -> bool:
        result = await (await ours.session(await ours.runtime())).execute(WARM_CODE)
        return result.get("outcome") == "OK"

    start = time.perf_counter()
    done = await asyncio.gather(*(one() for _ in range(CREATES)), return_exceptions=True)
    for error in done:
        if isinstance(error, BaseException):
            _say(f"a runtime that could not be had: {error}")
    return time.perf_counter() - start, sum(each is not True for each in done)


async def _delete_all(ours: Service) -> None:
    token = ""
    names: list[str] = []
    while True:
        page = (await ours.client.get("runtimes", params={"pageSize": 1000, "pageToken": token})).json()
        names += [str(each["name"]) for each in page.get("runtimes", [])]
        if not (token := page.get("nextPageToken", "")):
            break
    await asyncio.gather(*(ours.delete(name) for name in names))


async def _left(pid: int, before: Held) -> Held:
    """What is held once everything has gone that goes, or after a while."""
    deadline = time.monotonic() + LEAVE_SECONDS
    while True:
        held = Held.of(pid)
        if not _difference(before, held) or time.monotonic() > deadline:
            return held
        await asyncio.sleep(LOOK_SECONDS)


def _difference(before: Held, after: Held) -> str:
    """More than there was: idle connections of our own client count as descriptors, and may stay."""
    found = []
    if after.descriptors > before.descriptors + CREATES + RUNTIMES * SESSIONS:
        found.append(f"{after.descriptors - before.descriptors} descriptors more")
    if after.children > before.children:
        found.append(f"{after.children - before.children} processes more")
    return ", ".join(found)


async def _rest() -> None:
    await asyncio.sleep(REST_SECONDS)


def goals(found: Load, each: int) -> Iterator[Goal]:
    count = RUNTIMES * SESSIONS
    ratio = found.ours / found.peer
    yield Goal(
        f"goal 10: {count} sessions × {each} executions over HTTP ≥ {TIMES} × jupyter_server's throughput",
        f"{found.ours:.0f} to {found.peer:.0f} a second ({ratio:.1f} ×)",
        ratio >= TIMES,
    )
    yield Goal(
        f"{STREAMS:,} idle streams: memory of the service ≤ {STREAMS_MIB} MiB more",
        mebibytes(found.streams_bytes),
        found.streams_bytes <= STREAMS_MIB * MIB,
    )
    slower = found.ours / found.with_streams
    yield Goal(
        f"… and executions beside them ≤ {SLOWER} × as long",
        f"{found.with_streams:.0f} a second ({slower:.2f} ×)",
        slower <= SLOWER,
    )
    yield Goal(
        f"goal 10: {CREATES} runtimes created at once, no error",
        f"{found.errors} errors, {seconds(found.creates)} to the last first result",
        not found.errors,
    )
    yield Goal("nothing left when all is deleted", found.left or "nothing", not found.left)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the executions")
    parser.add_argument("--write", metavar="FILE", help="also write the table to this file")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, DESCRIPTORS), hard))
    each = 20 if options.quick else 100
    before = load()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        found = asyncio.run(measure(each, random.Random(SEED), Path(name)))
    report = Report(goals=list(goals(found, each)))
    busy = f"load {before} at the start, {load()} at the end"
    text = f"{versions()}. {machine()}; {busy}.\n\n{report.text()}"
    sys.stdout.write(text)
    if options.write is not None:
        Path(options.write).write_text(f"# The service under load\n\n{text}")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    main()
