"""Much output on each side, each run in a process of its own, the sides taking turns."""

import json
import random
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.child import Run
from bench.figures import Figures
from bench.workloads import Workload

TIMEOUT_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Side:
    """The runs of one side in short: seconds, CPU of the client or service, growth in bytes, what was missing."""

    seconds: Figures
    cpu_seconds: Figures
    growth_bytes: Figures
    faults: list[str]


def measure(
    workload: Workload, sides: tuple[str, ...], repeats: int, dice: random.Random, directory: Path
) -> dict[str, Side]:
    """Each side `repeats` times: in each round all of them, in random order."""
    runs: dict[str, list[Run]] = {side: [] for side in sides}
    for number in range(repeats):
        for side in dice.sample(sides, len(sides)):
            place = directory / f"{workload.name} {side} {number}".replace(" ", "-")
            place.mkdir()
            runs[side].append(_run(side, workload, place))
    return {side: _short(found) for side, found in runs.items()}


def _run(side: str, workload: Workload, place: Path) -> Run:
    done = subprocess.run(
        [sys.executable, "-m", "bench.child", side, place],
        input=json.dumps(asdict(workload)).encode(),
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[1],
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    return Run(**json.loads(done.stdout))


def _short(runs: list[Run]) -> Side:
    return Side(
        seconds=Figures.of([run.seconds for run in runs]),
        cpu_seconds=Figures.of([run.cpu_seconds for run in runs]),
        growth_bytes=Figures.of([run.growth_bytes for run in runs]),
        faults=sorted({fault for run in runs for fault in run.faults}),
    )
