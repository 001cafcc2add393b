"""`python -m bench [--quick] [--write FILE] [--note TEXT]`: Cellhouse beside raw ipykernel in one interleaved run.

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
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.latency import deaths, warm
from bench.report import Report
from bench.versions import load, machine, versions
from bench.volume import measure
from bench.workloads import LINE_BYTES, displays, html, prints, updates, writes

SEED = 20_261_201
RESULTS = Path("bench-results")

HOW = """\
Cellhouse: `House.execute` with its journal and bubblewrap walls, awaited to the result. Raw: stock
`python -m ipykernel_launcher` of the same environment over zmq ipc, by a client of pyzmq's asyncio sockets and
jupyter_client's `Session` with RCVHWM 0 that keeps counts and no output. Sides take turns in random order; where two
figures stand they are the median and the 95th percentile, or, where n is below 20, the median and the worst. Ratios are
of medians. Growth is the highest resident memory of the service (raw: of the client) over what it held just before, at
worst; own CPU is that process's without the kernel's. The raw client can learn of a death only by asking whether the
process lives; it asks every second, as others do."""


def main() -> None:
    options = _options()
    dice = random.Random(SEED)
    report = Report()
    figures: dict[str, Any] = {}
    began = time.monotonic()
    before = load()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        for title, found in _measured(options.quick, dice, Path(name), report):
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


def _measured(
    quick: bool, dice: random.Random, directory: Path, report: Report
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Everything, one thing after the other: its name and its figures."""
    repeats = 1 if quick else 3
    place = directory / "warm"
    place.mkdir()
    one = asyncio.run(warm(3 if quick else 15, dice, place))
    report.warm(one)
    yield "warm", asdict(one)

    workload = writes()
    sides = measure(workload, ("ours", "raw"), repeats, dice, directory)
    report.writes(workload.name, sides)
    yield workload.name, {side: asdict(found) for side, found in sides.items()}

    for workload in (displays(2_000 if quick else 20_000), updates(1_000), html(50)):
        sides = measure(workload, ("ours", "raw", "plain"), repeats, dice, directory)
        report.displays(workload.name, sides)
        yield workload.name, {side: asdict(found) for side, found in sides.items()}

    place = directory / "deaths"
    place.mkdir()
    ended = asyncio.run(deaths(2 if quick else 7, place))
    report.deaths(ended)
    yield "deaths", asdict(ended)

    lines = 200_000 if quick else 2_000_000
    workload = prints(lines)
    sides = measure(workload, ("ours", "raw"), repeats, dice, directory)
    report.prints(workload.name, sides, lines * LINE_BYTES / 1e6)
    yield workload.name, {side: asdict(found) for side, found in sides.items()}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats and smaller volumes")
    parser.add_argument("--write", metavar="FILE", help="also write the table to this file")
    parser.add_argument(
        "--note", metavar="TEXT", help="what else there is to know of this run; goes above the table"
    )
    return parser.parse_args()


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    main()
