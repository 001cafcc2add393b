"""One workload on one side, in a process of its own so that no side's memory hides the other's.

`python -m bench.child SIDE DIRECTORY`: the workload comes as JSON on standard input, the figures go out as JSON. What is
left in the directory is the caller's to clear: a file system is slower for seconds after many files were deleted.
"""

import asyncio
import gc
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench import memory
from bench.ours import IPYKERNEL, NATIVE, cellhouse
from bench.raw import Seen, raw_kernel
from bench.workloads import Workload
from cellhouse.environments import find_environment

WARM_UP = "print('warm'); 1 + 1"


@dataclass(slots=True)
class Run:
    """What one run took. CPU and memory are the client's or the service's own, without the kernel's."""

    seconds: float
    cpu_seconds: float = 0.0
    growth_bytes: int = 0
    before_bytes: int = 0
    faults: list[str] = field(default_factory=list)


class _Gauge:
    """Time, CPU and peak memory from here to `read`."""

    def __init__(self) -> None:
        gc.collect()
        self._before = memory.reset_peak()
        self._cpu = time.process_time()
        self._start = time.perf_counter()

    def read(self) -> Run:
        seconds = time.perf_counter() - self._start
        return Run(
            seconds=seconds,
            cpu_seconds=time.process_time() - self._cpu,
            growth_bytes=max(0, memory.peak() - self._before),
            before_bytes=self._before,
        )


async def _ours(workload: Workload, directory: Path, kernel: str = NATIVE) -> Run:
    async with cellhouse(directory / "state", kernel=kernel) as side:
        await side.execute(WARM_UP)
        gauge = _Gauge()
        result = await side.execute(workload.code)
        run = gauge.read()
        run.faults = await side.faults(workload, result)
        return run


async def _over(workload: Workload, directory: Path) -> Run:
    return await _ours(workload, directory, IPYKERNEL)


async def _raw(workload: Workload, directory: Path) -> Run:
    python = find_environment().python
    async with raw_kernel(python, directory / "raw") as side:
        await side.execute(WARM_UP)
        gauge = _Gauge()
        seen = await side.execute(workload.code)
        run = gauge.read()
        run.faults = _raw_faults(workload, seen)
        return run


def _raw_faults(workload: Workload, seen: Seen) -> list[str]:
    """What did not reach the client: it is not told, the bench knows."""
    pairs = (
        ("bytes", seen.text_bytes, workload.text_bytes),
        ("displays", seen.displays, workload.displays),
        ("updates", seen.updates, workload.updates),
    )
    faults = [f"{came:,} of {sent:,} {what}" for what, came, sent in pairs if came != sent]
    if not seen.ok:
        faults.append("no reply that says ok")
    if seen.html != workload.html:
        faults.append("the final state did not arrive")
    return faults


async def _plain(workload: Workload, directory: Path) -> Run:
    """The same files, written with nothing around it."""
    files = list(workload.files())
    gauge = _Gauge()
    for number, data in enumerate(files):
        with (directory / f"out-{number:03d}.json").open("wb") as file:
            file.write(data)
    return gauge.read()


SIDES = {"ours": _ours, "over": _over, "raw": _raw, "plain": _plain}


def main() -> None:
    _, side, directory = sys.argv
    workload = Workload(**json.loads(sys.stdin.read()))
    run = asyncio.run(SIDES[side](workload, Path(directory)))
    sys.stdout.write(json.dumps(asdict(run)) + "\n")


if __name__ == "__main__":
    main()
