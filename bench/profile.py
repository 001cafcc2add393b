"""`python -m bench.profile [--seconds N] [--write FILE]`: where the time of a warm `1 + 1` over HTTP goes, from door to door and back.

Three processes take part: the service, the keeper of the runtime, the kernel. Each is looked at from outside by py-spy
while one client executes again and again; nothing is built into them for it. A sample counts for the stage that the
innermost frame known here belongs to. The CPU of an execution is measured without py-spy, just before.
"""

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figures, seconds
from bench.latency import WARM_CODE
from bench.report import table
from bench.served import Execute, service
from bench.versions import load, machine, versions
from cellhouse.sandbox.resident import descendants

WARM_UP = 200
BLOCKS, BLOCK = 10, 100
RATE = 250
KEEPER = "cellhouse-keep"
REST = "the event loop and what it calls"

STAGES: Mapping[str, Sequence[tuple[str, tuple[str, ...]]]] = {
    "service": (
        ("HTTP read and written", ("uvicorn/", "cellhouse/doors/protocol.py")),
        (
            "who calls, and how much",
            ("cellhouse/doors/gate.py", "cellhouse/doors/bearer.py", "cellhouse/tokens/"),
        ),
        ("the route", ("fastapi/", "starlette/")),
        ("seen to its end: counted and logged", ("cellhouse/doors/executions.py", "cellhouse/doors/metrics.py")),
        ("… of it, the log", ("structlog/", "logging/", "cellhouse/runtime/json_log.py", "cellhouse/runtime/logs.py")),
        ("the request read, the result told", ("cellhouse/doors/", "cellhouse/model/", "pydantic/")),
        ("the link to the keeper", ("cellhouse/keepers/",)),
    ),
    "keeper": (
        ("the link to the service", ("cellhouse/keepers/",)),
        ("taken in and queued", ("cellhouse/house.py", "cellhouse/runtime/in_process.py", "cellhouse/runtime/once.py")),
        ("files of /content", ("cellhouse/runtime/files.py", "cellhouse/files/hostile.py", "cellhouse/files/tracking.py")),
        ("the record and its index", ("cellhouse/journal/", "cellhouse/files/records.py")),
        ("frames and pipes of the kernel", ("cellhouse/kernel/", "cellhouse/messages/")),
        ("what was put out, as events", ("cellhouse/capture/", "cellhouse/model/", "pydantic/")),
        ("CPU and the dead, counted", ("cellhouse/sandbox/",)),
        ("the run and its verdict", ("cellhouse/runtime/",)),
    ),
    "kernel": (
        (
            "frames, marks and what is printed",
            tuple(f"inside/native/{name}.py" for name in ("link", "frames", "printed", "pipes", "streams")),
        ),
        ("the cell, by IPython", ("IPython/", "traitlets/")),
        ("around the cell", ("inside/native/",)),
    ),
}  # fmt: skip
"""Of each process, what the innermost known frame's file says of a sample. The first that fits counts."""

AROUND = (
    "cellhouse/cli/",
    "cellhouse/runtime/loops.py",
    "cellhouse/keepers/template.py",
    "keep (",
    "serve (",
    "main (",
)
"""Frames below everything: they say nothing of what goes on."""
WAITING = ("wait (", "select (", "poll (", "_worker (", "Helper._run (")
"""Innermost frames of threads that wait; py-spy can't see that of threads in a namespace of processes of their own."""


@dataclass(frozen=True, slots=True)
class Process:
    """One of the three: CPU seconds of an execution, at the median and at the least of all blocks; samples by stage."""

    name: str
    median: float
    least: float
    samples: Counter[str]


def stage_of(process: str, stack: Sequence[str]) -> str:
    """`stack`: frames as py-spy writes them, `function (path:line)`, outermost first."""
    for frame in reversed(stack):
        if any(part in frame for part in AROUND):
            break
        for stage, parts in STAGES[process]:
            if any(part in frame for part in parts):
                return stage
    return REST


def samples_of(process: str, text: str) -> Counter[str]:
    """What py-spy's raw format says: on each line a stack, frames parted by semicolons, and how often it was seen."""
    found: Counter[str] = Counter()
    for line in text.splitlines():
        said, _, count = line.rpartition(" ")
        stack = said.split(";")
        if not any(part in stack[-1] for part in WAITING):
            found[stage_of(process, stack)] += int(count)
    return found


async def profile(duration: float, directory: Path) -> tuple[list[Process], Figures]:
    """The processes from the door inwards, and what an execution took by the client's clock."""
    async with service(directory / "service") as served:
        session = (await served.session(await served.runtime(start="fresh"))).name
        async with served.lean(session) as execute:
            for _ in range(WARM_UP):
                await execute(WARM_CODE)
            pids = _processes(served.pid)
            taken: list[float] = []
            cpu: dict[str, list[float]] = {name: [] for name in pids}
            for _ in range(BLOCKS):
                before = {name: _cpu_seconds(pid) for name, pid in pids.items()}
                for _ in range(BLOCK):
                    start = time.perf_counter()
                    await execute(WARM_CODE)
                    taken.append(time.perf_counter() - start)
                for name, pid in pids.items():
                    cpu[name].append((_cpu_seconds(pid) - before[name]) / BLOCK)
            async with _at_work(execute):
                texts = await asyncio.gather(
                    *(_look(pid, duration, directory / f"{name}.raw") for name, pid in pids.items())
                )
    found = [
        Process(name, Figures.of(cpu[name]).median, min(cpu[name]), samples_of(name, text))
        for name, text in zip(pids, texts, strict=True)
    ]
    return found, Figures.of(taken)


def _processes(pid: int) -> dict[str, int]:
    """The three, by what they are called here. Of all below the keeper the kernel has worked most by now."""
    keepers = [each for each in descendants(pid) if _name(each) == KEEPER]
    if len(keepers) != 1:
        raise RuntimeError(f"{len(keepers)} keepers of one runtime were found")
    kernel = max(descendants(keepers[0]), key=_cpu_seconds)
    return {"service": pid, "keeper": keepers[0], "kernel": kernel}


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _cpu_seconds(pid: int) -> float:
    """Of all its threads, to the nanosecond."""
    nanoseconds = 0
    for schedule in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            nanoseconds += int(schedule.read_text().split()[0])
    return nanoseconds / 1e9


@contextlib.asynccontextmanager
async def _at_work(execute: Execute) -> AsyncIterator[None]:
    async def again() -> None:
        while True:
            await execute(WARM_CODE)

    working = asyncio.create_task(again())
    try:
        yield
    finally:
        working.cancel()
        await asyncio.wait([working])


async def _look(pid: int, duration: float, out: Path) -> str:
    looking = await asyncio.create_subprocess_exec(
        Path(sys.prefix) / "bin" / "py-spy", "record", "--nonblocking", "--format", "raw", "--full-filenames",
        "--rate", str(RATE), "--duration", str(round(duration)), "--output", str(out), "--pid", str(pid),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, said = await looking.communicate()
    if not out.exists():
        raise RuntimeError(f"py-spy could not look at process {pid}: {said.decode(errors='replace')[-500:]}")
    return out.read_text()


def rows(found: Sequence[Process]) -> list[tuple[str, str, str]]:
    """Process and stage, its share of the process's time, and that of the CPU of an execution."""
    made = []
    for process in found:
        total = sum(process.samples.values())
        made.append(
            (f"**{process.name}**", "", f"**{seconds(process.median)}** (least {seconds(process.least)})")
        )
        for stage in (*(stage for stage, _ in STAGES[process.name]), REST):
            share = process.samples[stage] / total if total else 0.0
            made.append((stage, f"{share:.0%}", seconds(share * process.median)))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="so long py-spy looks; 20 by default")
    parser.add_argument("--write", metavar="FILE", help="also write the table to this file")
    options = parser.parse_args()
    before = load()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        found, taken = asyncio.run(profile(options.seconds, Path(name)))
    head = f"{versions()}. {machine()}; load {before} at the start, {load()} at the end."
    told = f"`1 + 1` over HTTP, by a lean client: {seconds(taken.median)} / {seconds(taken.p95)} (n = {taken.count})"
    text = "\n".join([head, "", told, "", *table(("stage", "share", "CPU of one"), rows(found)), ""])
    sys.stdout.write(text)
    if options.write is not None:
        Path(options.write).write_text(text)


if __name__ == "__main__":
    main()
