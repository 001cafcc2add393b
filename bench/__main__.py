"""`python -m bench [--quick] [--write FILE]`: Cellhouse beside raw ipykernel in one interleaved run."""

import argparse
import asyncio
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

from bench.figures import MIB, mebibytes, seconds
from bench.latency import Both, Deaths, deaths, warm
from bench.versions import environment_version
from bench.volume import Side, measure
from bench.workloads import displays, html, prints, updates, writes

SEED = 20_261_201


def main() -> None:
    options = _options()
    quick: bool = options.quick
    lines = [_machine(), "", "| what | Cellhouse | raw ipykernel | ratio |", "|---|---|---|---|"]
    goals: list[tuple[str, str, bool]] = []
    one = asyncio.run(warm(40 if quick else 300, SEED))
    lines.append(_both("warm `1 + 1`, median / p95", one))
    goals.append(("`House.execute` ≤ 1.25 × raw", f"{one.ratio:.2f} ×", one.ratio <= 1.25))
    repeats = 1 if quick else 3
    written = measure(writes(), ("ours", "raw"), repeats, SEED)
    lines.append(_volume("10 × 10 MB writes", written))
    ours, raw = written["ours"], written["raw"]
    goals.append(_time_goal("7: 10 × 10 MB writes ≤ raw's time", ours, raw.seconds.median))
    goals.append(_growth_goal("7: service growth ≤ 16 MiB", ours, 16))
    goals.append(("7: every byte accounted for", _faults(ours), not ours.faults))
    for name, workload in (
        ("20,000 displays", displays(2_000 if quick else 20_000)),
        ("1,000 updates of one display", updates(1_000)),
        ("50 MB of HTML", html(50)),
    ):
        sides = measure(workload, ("ours", "raw", "plain"), repeats, SEED)
        lines.append(_volume(workload.name, sides))
        bound = sides["raw"].seconds.median + sides["plain"].seconds.median
        goals.append(_time_goal(f"8: {name} ≤ raw + plain writing ({seconds(bound)})", sides["ours"], bound))
        goals.append(_growth_goal(f"8: {name}: service growth ≤ 64 MiB", sides["ours"], 64))
        goals.append(
            (f"8: {name}: nothing lost undeclared", _faults(sides["ours"]), not sides["ours"].faults)
        )
    ended = asyncio.run(deaths(2 if quick else 7))
    lines.append(_both("a killed kernel is told of", ended.both))
    goals.append(_death_goal(ended))
    bulk = measure(prints(200_000 if quick else 2_000_000), ("ours", "raw"), repeats, SEED)
    lines.append(_volume("2 million prints" if not quick else "200,000 prints", bulk))
    lines += ["", "## Goals", "", "| goal | measured | met |", "|---|---|---|"]
    lines += [f"| {goal} | {measured} | {'met' if met else 'NOT MET'} |" for goal, measured, met in goals]
    text = "\n".join(lines) + "\n"
    sys.stdout.write(text)
    if options.write is not None:
        Path(options.write).write_text(f"# What was measured\n\n{text}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats and smaller volumes")
    parser.add_argument("--write", metavar="FILE", help="also write the table to this file")
    return parser.parse_args()


def _machine() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("cellhouse", "pyzmq", "jupyter_client"))
    kernel = ", ".join(f"{name} {environment_version(name)}" for name in ("ipykernel", "ipython"))
    return (
        f"Python {platform.python_version()}, Linux {platform.release()}, {os.cpu_count()} processors; {packages}; "
        f"in the kernel environment {kernel}. Raw: stock ipykernel over zmq ipc, a client that keeps only counts, "
        "RCVHWM 0. Sides take turns in random order; ratios are of medians. Growth is the highest resident memory "
        "of the service (of the client) over what it was before."
    )


def _both(name: str, both: Both) -> str:
    ours = f"{seconds(both.ours.median)} / {seconds(both.ours.p95)}"
    raw = f"{seconds(both.raw.median)} / {seconds(both.raw.p95)}"
    return f"| {name} (n = {both.ours.count}) | {ours} | {raw} | {both.ratio:.2f} |"


def _volume(name: str, sides: dict[str, Side]) -> str:
    ours, raw = sides["ours"], sides["raw"]
    ratio = ours.seconds.median / raw.seconds.median
    plain = f"; plain files {seconds(sides['plain'].seconds.median)}" if "plain" in sides else ""
    return f"| {name} (n = {ours.seconds.count}){plain} | {_side(ours)} | {_side(raw)} | {ratio:.2f} |"


def _side(side: Side) -> str:
    lost = f"; {', '.join(side.faults)}" if side.faults else ""
    return (
        f"{seconds(side.seconds.median)}, own CPU {seconds(side.cpu_seconds.median)}, "
        f"growth {mebibytes(side.growth_bytes.median)}{lost}"
    )


def _time_goal(name: str, side: Side, bound: float) -> tuple[str, str, bool]:
    return (
        name,
        f"{seconds(side.seconds.median)} ({side.seconds.median / bound:.2f} ×)",
        side.seconds.median <= bound,
    )


def _growth_goal(name: str, side: Side, mib: int) -> tuple[str, str, bool]:
    return name, f"{mebibytes(side.growth_bytes.worst)} at worst", side.growth_bytes.worst <= mib * MIB


def _death_goal(ended: Deaths) -> tuple[str, str, bool]:
    worst = ended.both.ours.worst
    told = f"{seconds(worst)} at worst" + (f"; {', '.join(ended.faults)}" if ended.faults else "")
    name = "11: a killed kernel told of in ≤ 0.2 s, with its partial output and its cause"
    return name, told, worst <= 0.2 and not ended.faults


def _faults(side: Side) -> str:
    return "; ".join(side.faults) or "all there"


if __name__ == "__main__":
    main()
