"""`python -m bench [--quick] [--only PART …] [--write FILE] [--note TEXT]`: Cellhouse beside raw ipykernel and jupyter_server, interleaved.

Prints the table, and leaves it with all figures below `bench-results/`. What it writes meanwhile (hundreds of megabytes)
goes where temporary files go: TMPDIR chooses the file system that is measured with.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.latency import WARM_CODE, deaths, warm
from bench.mcp import mcp
from bench.report import Report
from bench.service import served
from bench.starts import idle, starts
from bench.throughput import throughput
from bench.versions import load, machine, versions
from bench.volume import measure
from bench.workloads import LINE_BYTES, USED, displays, html, prints, updates, writes

SEED = 20_261_201
RESULTS = Path("bench-results")
IDLE = 60, 10
"""Sessions and kernels that are counted idle: what fits into three quarters of a GiB and into one, so that either side
has its pages shared among as many as that many bytes hold."""
QUICK_IDLE = 5, 3

HOW = """\
Cellhouse: `House.execute` with its journal, bubblewrap walls and the native kernel, awaited to the result; its runtime
is live, and its zygote has imported pandas and pyplot. Raw: stock `python -m ipykernel_launcher` of the same
environment over zmq ipc, by a client of pyzmq's asyncio sockets and jupyter_client's `Session` with RCVHWM 0 that keeps
counts and no output. "Over ipykernel" is the same Cellhouse with that kernel inside. Sides take turns in random order;
where two figures stand they are the median and the 95th percentile, or, where n is below 20, the median and the worst.
Ratios are of medians. Growth is the highest resident memory of the service (raw: of the client) over what it held just
before, at worst; own CPU is that process's without the kernel's. The raw client can learn of a death only by asking
whether the process lives; it asks every second, as others do.

First text: from the request to the text's event (raw: iopub message), of a cell that computes on for 0.4 s. Session to
its first result: an execution in a new session that it makes itself, either forked from the zygote then (`spares=0`) or
ahead (`spares=1`, the default). A cold raw kernel is the hardest peer there is: from the start of its process to the reply to a
request that was sent before it listened, with nothing that came over iopub waited for. Idle memory is the sum of PSS:
Cellhouse's over all processes of the runtime (walls, supervisor, zygote and a session forked ahead included), raw's
over the kernels; the service and the client are not in it.

Over HTTP: `cellhouse serve` in a process of its own with a token, keepers and walls, one request an execution on a
connection that stays open, by a client as bare as the raw kernel's (asyncio and httptools), and beside it by Cellhouse's
own; jupyter_server as it ships, by REST and a websocket, with the same ipykernel. Many at once: the same code in 50 sessions of 10 runtimes, and by
jupyter_client (ipc) in as many ipykernels, all started fresh.

Over MCP: the tool `execute_code` by the SDK's own client, of `cellhouse mcp` (standard input and output) and of the service
(streamable HTTP), beside a tool of the same SDK that answers "2" and does nothing, on the same transport; and
jupyter-mcp-server over standard input and output, with a jupyter_server and its ipykernel."""


def main() -> None:
    options = _options()
    dice = random.Random(SEED)
    report = Report()
    figures: dict[str, Any] = {}
    began = time.monotonic()
    before = load()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        bench = Bench(options.quick, dice, Path(name), report)
        for part in options.only or PARTS:
            for title, found in PARTS[part](bench):
                figures[title] = found
                _say(f"{time.monotonic() - began:6.1f} s  {title}")
    now = datetime.now(UTC)
    note = f"\n\n{options.note}" if options.note else ""
    busy = f"load {before} at the start, {load()} at the end{'; quick' if options.quick else ''}"
    text = f"{now:%Y-%m-%d}; {versions()}. {machine()}; {busy}.{note}\n\n{HOW}\n\n{report.text()}"
    sys.stdout.write(text)
    RESULTS.mkdir(exist_ok=True)
    stem = RESULTS / f"{now:%Y%m%d-%H%M%S}"
    stem.with_suffix(".json").write_text(json.dumps(figures, indent=1) + "\n")
    stem.with_suffix(".md").write_text(text)
    if options.write is not None:
        Path(options.write).write_text(f"# What was measured\n\n{text}")


Found = Iterator[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class Bench:
    """What every part needs: how much is to be done, the order of turns, where to write, and whom to tell."""

    quick: bool
    dice: random.Random
    directory: Path
    report: Report

    @property
    def repeats(self) -> int:
        return 1 if self.quick else 3

    def place(self, name: str) -> Path:
        place = self.directory / name
        place.mkdir()
        return place

    def warm(self) -> Found:
        found = asyncio.run(
            warm(3 if self.quick else 15, 3 if self.quick else 15, self.dice, self.place("warm"))
        )
        self.report.warm(found)
        yield "warm", asdict(found)

    def starts(self) -> Found:
        count = 3 if self.quick else 15
        found = asyncio.run(starts(WARM_CODE, count, self.dice, self.place("starts")))
        self.report.starts(found)
        yield "starts", asdict(found)
        found = asyncio.run(starts(USED, count, self.dice, self.place("used")))
        self.report.used(found)
        yield "starts, pandas and pyplot used", asdict(found)

    def idle(self) -> Found:
        found = asyncio.run(idle(*(QUICK_IDLE if self.quick else IDLE), self.dice, self.place("idle")))
        self.report.idle(found)
        yield "idle", asdict(found)

    def writes(self) -> Found:
        workload = writes()
        sides = measure(workload, ("ours", "over", "raw"), self.repeats, self.dice, self.directory)
        self.report.writes(workload.name, sides)
        yield workload.name, {side: asdict(found) for side, found in sides.items()}

    def displays(self) -> Found:
        for workload in (displays(2_000 if self.quick else 20_000), updates(1_000), html(50)):
            sides = measure(workload, ("ours", "raw", "plain"), self.repeats, self.dice, self.directory)
            self.report.displays(workload.name, sides)
            yield workload.name, {side: asdict(found) for side, found in sides.items()}

    def deaths(self) -> Found:
        found = asyncio.run(deaths(2 if self.quick else 7, self.place("deaths")))
        self.report.deaths(found)
        yield "deaths", asdict(found)

    def prints(self) -> Found:
        lines = 200_000 if self.quick else 2_000_000
        workload = prints(lines)
        sides = measure(workload, ("ours", "raw"), self.repeats, self.dice, self.directory)
        self.report.prints(workload.name, sides, lines * LINE_BYTES / 1e6)
        yield workload.name, {side: asdict(found) for side, found in sides.items()}

    def served(self) -> Found:
        found = asyncio.run(
            served(3 if self.quick else 15, 3 if self.quick else 15, self.dice, self.place("served"))
        )
        self.report.served(found)
        yield "served", asdict(found)

    def mcp(self) -> Found:
        found = asyncio.run(mcp(3 if self.quick else 15, self.dice, self.place("mcp")))
        self.report.mcp(found)
        yield "mcp", asdict(found)

    def throughput(self) -> Found:
        found = asyncio.run(throughput(20 if self.quick else 100, self.dice, self.place("throughput")))
        self.report.throughput(found)
        yield "throughput", asdict(found)


PARTS: dict[str, Callable[[Bench], Found]] = {
    "warm": Bench.warm,
    "served": Bench.served,
    "mcp": Bench.mcp,
    "starts": Bench.starts,
    "throughput": Bench.throughput,
    "idle": Bench.idle,
    "writes": Bench.writes,
    "displays": Bench.displays,
    "deaths": Bench.deaths,
    "prints": Bench.prints,
}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats and smaller volumes")
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, metavar="PART", help=f"only these of: {', '.join(PARTS)}"
    )
    parser.add_argument("--write", metavar="FILE", help="also write the table to this file")
    parser.add_argument(
        "--note", metavar="TEXT", help="what else there is to know of this run; goes above the table"
    )
    return parser.parse_args()


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    main()
