"""What the figures say: a table of both sides, and each goal with its verdict."""

from dataclasses import dataclass, field

from bench.figures import MIB, mebibytes, seconds
from bench.latency import Both, Deaths, Warm
from bench.volume import Side

WARM_RATIO = 1.25
WARM_CPU_SECONDS = 0.0015
PRINTS_CPU_SECONDS = 2.0
WRITES_GROWTH_MIB = 16
DISPLAYS_GROWTH_MIB = 64
DEATH_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Goal:
    """One promise and whether this run kept it."""

    promise: str
    measured: str
    met: bool


@dataclass(slots=True)
class Report:
    """Rows as they come in."""

    rows: list[tuple[str, str, str, str]] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)

    def warm(self, found: Warm) -> None:
        self._both("warm `1 + 1`, back to back", found.time)
        self._both("… own CPU of one, in blocks", found.cpu)
        ratio, cpu = found.time.ratio, found.cpu.ours.median
        self._goal(f"`House.execute` of `1 + 1` ≤ {WARM_RATIO} × raw", f"{ratio:.2f} ×", ratio <= WARM_RATIO)
        self._goal(
            f"the service's own CPU for it ≤ {seconds(WARM_CPU_SECONDS)}",
            f"{seconds(cpu)} ({found.cpu.ratio:.2f} × the raw client's)",
            cpu <= WARM_CPU_SECONDS,
        )

    def writes(self, name: str, sides: dict[str, Side]) -> None:
        self._volume(name, sides)
        ours = sides["ours"]
        self._time_goal(f"goal 7: {name} in ≤ raw's time", sides, plain=False)
        self._growth_goal(f"goal 7: service growth ≤ {WRITES_GROWTH_MIB} MiB", ours, WRITES_GROWTH_MIB)
        self._fault_goal("goal 7: every byte accounted for and readable", ours)

    def displays(self, name: str, sides: dict[str, Side]) -> None:
        self._volume(name, sides)
        ours = sides["ours"]
        self._time_goal(f"goal 8: {name} in ≤ raw's time + plain file writing", sides, plain=True)
        self._growth_goal(
            f"goal 8: {name}: service growth ≤ {DISPLAYS_GROWTH_MIB} MiB", ours, DISPLAYS_GROWTH_MIB
        )
        self._fault_goal(f"goal 8: {name}: none lost undeclared, the final state shown", ours)

    def deaths(self, found: Deaths) -> None:
        self._both("from the kernel's death to the result", found.both)
        worst = found.both.ours.worst
        told = "; ".join([f"{seconds(worst)} at worst", *found.faults])
        promise = f"goal 11: a killed kernel told of in ≤ {DEATH_SECONDS} s, with partial output and cause"
        self._goal(promise, told, worst <= DEATH_SECONDS and not found.faults)

    def prints(self, name: str, sides: dict[str, Side], megabytes: float) -> None:
        self._volume(name, sides)
        ours = sides["ours"]
        cpu = ours.cpu_seconds.median * 100 / megabytes
        self._fault_goal(f"{name}: every byte accounted for and readable", ours)
        self._goal(
            f"the service's own CPU for 100 MB of prints ≤ {seconds(PRINTS_CPU_SECONDS)}",
            seconds(cpu),
            cpu <= PRINTS_CPU_SECONDS,
        )

    def text(self) -> str:
        lines = ["| what | Cellhouse | raw ipykernel | ratio |", "|---|---|---|---|"]
        lines += [f"| {' | '.join(row)} |" for row in self.rows]
        lines += ["", "| goal | measured | |", "|---|---|---|"]
        lines += [f"| {goal.promise} | {goal.measured} | {_verdict(goal.met)} |" for goal in self.goals]
        return "\n".join(lines) + "\n"

    def _both(self, name: str, both: Both) -> None:
        ours = f"{seconds(both.ours.median)} / {seconds(both.ours.p95)}"
        raw = f"{seconds(both.raw.median)} / {seconds(both.raw.p95)}"
        self.rows.append((f"{name} (n = {both.ours.count})", ours, raw, f"{both.ratio:.2f}"))

    def _volume(self, name: str, sides: dict[str, Side]) -> None:
        ours, raw = sides["ours"], sides["raw"]
        plain = f"; the plain files: {seconds(sides['plain'].seconds.median)}" if "plain" in sides else ""
        ratio = f"{ours.seconds.median / raw.seconds.median:.2f}"
        self.rows.append((f"{name} (n = {ours.seconds.count}){plain}", _side(ours), _side(raw), ratio))

    def _time_goal(self, promise: str, sides: dict[str, Side], *, plain: bool) -> None:
        bound = sides["raw"].seconds.median + (sides["plain"].seconds.median if plain else 0)
        took = sides["ours"].seconds.median
        self._goal(promise, f"{seconds(took)} of {seconds(bound)} ({took / bound:.2f} ×)", took <= bound)

    def _growth_goal(self, promise: str, side: Side, mib: int) -> None:
        worst = side.growth_bytes.worst
        self._goal(promise, f"{mebibytes(worst)} at worst", worst <= mib * MIB)

    def _fault_goal(self, promise: str, side: Side) -> None:
        self._goal(promise, "; ".join(side.faults) or "all there", not side.faults)

    def _goal(self, promise: str, measured: str, met: bool) -> None:
        self.goals.append(Goal(promise, measured, met))


def _side(side: Side) -> str:
    lost = f"; {', '.join(side.faults)}" if side.faults else ""
    return (
        f"{seconds(side.seconds.median)} / {seconds(side.seconds.worst)}, own CPU {seconds(side.cpu_seconds.median)}, "
        f"growth {mebibytes(side.growth_bytes.worst)}{lost}"
    )


def _verdict(met: bool) -> str:
    return "met" if met else "**NOT MET**"
