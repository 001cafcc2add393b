"""`python -m bench.soak [--quick]`: 200 runtimes one after the other, 10,000 executions; the service ends as it began.

Descriptors, threads, processes and temporary files of the service must be what they were after the first few runtimes,
its memory as well but for what it remembers. Ends with status 1 where they are not.
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from bench.figures import MIB, mebibytes, seconds
from bench.held import Held
from bench.served import Service, service

SEED = 20_261_201
CYCLES, EACH = 200, 50
SETTLED = 10
"""After so many runtimes caches are full: what is held then is the measure."""
GROWTH_MIB = 24
EXECUTION_BYTES = 2_048
"""What the service remembers of each execution in memory, at most."""
LEAVE_SECONDS = 10.0
LOOK_SECONDS = 0.2
CODES = {
    "value": ("1 + 1", "OK"),
    "text": ("print('x' * 10_000)", "OK"),
    "error": ("1 / 0", "ERROR"),
    "display": ("from IPython.display import HTML, display\ndisplay(HTML('<b>x</b>' * 1_000))", "OK"),
    "file": ("open(f'made-{__import__(\"time\").time_ns()}.txt', 'w').write('x')", "OK"),
    "child": ("!echo child", "OK"),
    "thread": ("import threading; threading.Thread(target=print, args=('thread',)).start()", "OK"),
    "exit": ("import os; os._exit(3)", "EXITED"),
}


async def cycle(ours: Service, each: int, dice: random.Random) -> list[str]:
    """One runtime with a session that runs so much, and its end; what did not go as it should."""
    runtime = await ours.runtime()
    session = await ours.session(runtime)
    faults = []
    for _ in range(each):
        name = dice.choices([*CODES], [30 if name != "exit" else 1 for name in CODES])[0]
        code, expected = CODES[name]
        outcome = (await session.execute(code)).get("outcome")
        if outcome != expected:
            faults.append(f"{name}: {outcome} and not {expected}")
    await ours.delete(runtime)
    return faults


async def soak(cycles: int, each: int, place: Path) -> list[str]:
    """What went wrong or is left at the end; nothing, where all is well."""
    dice = random.Random(SEED)
    faults: list[str] = []
    temporary = place / "tmp"
    temporary.mkdir()
    os.environ["TMPDIR"] = str(temporary)
    async with service(place / "service") as ours:
        base: Held | None = None
        for number in range(1, cycles + 1):
            faults += await cycle(ours, each, dice)
            if number == min(SETTLED, cycles // 2):
                base = await _settled(ours.pid, Held.of(ours.pid))
            if number % SETTLED == 0:
                _say(f"{number} runtimes, {number * each:,} executions: {Held.of(ours.pid)}")
        assert base is not None
        held = await _settled(ours.pid, base)
        allowed = GROWTH_MIB * MIB + cycles * each * EXECUTION_BYTES
        faults += [
            f"{name}: {after} and not {before}"
            for name, before, after in (
                ("descriptors", base.descriptors, held.descriptors),
                ("threads", base.threads, held.threads),
                ("processes", base.children, held.children),
            )
            if after > before
        ]
        if held.bytes - base.bytes > allowed:
            faults.append(f"memory: {mebibytes(held.bytes - base.bytes)} more, {mebibytes(allowed)} allowed")
        faults += [f"left in the directory for temporary files: {left.name}" for left in temporary.iterdir()]
    return faults


async def _settled(pid: int, base: Held) -> Held:
    """What is held once it is no more than the base, or after a while."""
    deadline = time.monotonic() + LEAVE_SECONDS
    while True:
        held = Held.of(pid)
        if replace(held, bytes=0) == replace(base, bytes=0) or time.monotonic() > deadline:
            return held
        await asyncio.sleep(LOOK_SECONDS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20 runtimes with 20 executions each")
    options = parser.parse_args()
    cycles, each = (20, 20) if options.quick else (CYCLES, EACH)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        faults = asyncio.run(soak(cycles, each, Path(name)))
    print(f"{cycles} runtimes, {cycles * each:,} executions in {seconds(time.perf_counter() - start)}")
    for fault in faults:
        print(f"NOT WELL: {fault}")
    if not faults:
        print("all as it began")
    return 1 if faults else 0


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
