"""What the figures say: a table of both sides, and each goal with its verdict."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.figures import MIB, Both, mebibytes, seconds, times
from bench.latency import Deaths, Warm
from bench.mcp import BARE, PEER, Mcp
from bench.service import CLIENT, DIRECT, JUPYTER, OURS, RAW, Served
from bench.starts import AHEAD, FORKED, Idle, Starts
from bench.throughput import Throughput
from bench.volume import Side

WARM_PART = 3
WARM_CPU_SECONDS = 0.0015
OVER_RATIO = 1.25
START_PART = 12
USED_PART = 25
FIRST_TEXT_PART = 8
PRINTS_PART = 5
PRINTS_CPU_SECONDS = 2.0
WRITES_GROWTH_MIB = 16
DISPLAYS_GROWTH_MIB = 64
IDLE_TIMES = 8
DEATH_SECONDS = 0.2
RAISE_PART = 4
SERVED_RATIO = 0.75
SERVED_PART = 12
HOP_SECONDS = 0.0005
THROUGHPUT_TIMES = 3
MCP_RATIO = 1.5
MCP_PART = 100

_HOW_STARTED = {FORKED: "forked when asked for", AHEAD: "forked ahead"}


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
    over_rows: list[tuple[str, str, str, str]] = field(default_factory=list)
    served_rows: list[tuple[str, str, str, str]] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)

    def warm(self, found: Warm) -> None:
        one, cpu = found.one.both(), found.one.both_cpu()
        self._both("warm `1 + 1`, back to back", one)
        self._both("… own CPU of one, in blocks", cpu)
        self._part_goal("goal 1: `House.execute` of `1 + 1`", one, WARM_PART)
        took = cpu.ours.median
        self._goal(
            f"the service's own CPU for it ≤ {seconds(WARM_CPU_SECONDS)}",
            f"{seconds(took)} ({times(cpu.ratio)} × the raw client's)",
            took <= WARM_CPU_SECONDS,
        )
        over = found.one.both("over")
        self.over_rows.append(_row("warm `1 + 1`, back to back", over))
        self.over_rows.append(_row("… own CPU of one, in blocks", found.one.both_cpu("over")))
        self._goal(
            f"over ipykernel: `House.execute` of `1 + 1` ≤ {OVER_RATIO} × raw",
            f"{times(over.ratio)} ×",
            over.ratio <= OVER_RATIO,
        )
        for name, both in found.first_texts.items():
            self._both(f"first text of an unflushed `{name}`", both)
            self._part_goal(f"goal 5: first text of an unflushed `{name}`", both, FIRST_TEXT_PART)
        self._both("warm `raise`, back to back", found.raised.both())
        self._both("… own CPU of one, in blocks", found.raised.both_cpu())
        self._both("… 6 frames deep", found.deep.both())
        self._part_goal("goal 12: `raise`, all frames", found.raised.both(), RAISE_PART)

    def served(self, found: Served) -> None:
        warm, starts = found.warm, found.starts
        for peer in (RAW, JUPYTER):
            self.served_rows.append(
                _row(
                    f"warm `1 + 1` over HTTP, by a lean client; the peer: {peer}",
                    Both(warm[OURS], warm[peer]),
                )
            )
        self.served_rows.append(
            _row("… by Cellhouse's own client (httpx); the peer: raw", Both(warm[CLIENT], warm[RAW]))
        )
        self.served_rows.append(
            _row(
                "… by a lean client; the peer: the same service without keepers",
                Both(warm[OURS], warm[DIRECT]),
            )
        )
        both = Both(starts[OURS], starts[JUPYTER])
        self.served_rows.append(_row(f"session to its first result over HTTP; the peer: {JUPYTER}", both))
        ratio = warm[OURS].median / warm[RAW].median
        promise = f"goal 2: warm `1 + 1` over HTTP ≤ {SERVED_RATIO} × raw"
        self._goal(promise, f"{seconds(warm[OURS].median)} ({times(ratio)} ×)", ratio <= SERVED_RATIO)
        self._part_goal(
            "goal 2: warm `1 + 1` over HTTP", Both(warm[OURS], warm[JUPYTER]), SERVED_PART, peer=JUPYTER
        )
        hop = warm[OURS].median - warm[DIRECT].median
        self._goal(
            f"what the way to a keeper adds ≤ {seconds(HOP_SECONDS)}", seconds(hop), hop <= HOP_SECONDS
        )
        promise = "goal 4: session to its first result over HTTP"
        self._part_goal(promise, both, START_PART, found.faults, peer=JUPYTER)

    def mcp(self, found: Mcp) -> None:
        for transport, sides in (("stdio", found.stdio), ("HTTP", found.http)):
            ours = sides[OURS]
            self.served_rows.append(
                _row(f"`1 + 1` over MCP, {transport}; the peer: {BARE}", Both(ours, sides[BARE]))
            )
            ratio = ours.median / sides[BARE].median
            promise = (
                f"goal 3: warm `execute_code` over MCP, {transport} ≤ {MCP_RATIO} × a bare SDK tool call"
            )
            self._goal(promise, f"{seconds(ours.median)} ({times(ratio)} ×)", ratio <= MCP_RATIO)
        both = Both(found.stdio[OURS], found.stdio[PEER])
        self.served_rows.append(_row(f"`1 + 1` over MCP, stdio; the peer: {PEER}", both))
        self._part_goal("goal 3: warm `execute_code` over MCP", both, MCP_PART, peer=PEER)

    def throughput(self, found: Throughput) -> None:
        ratio = found.ours / found.jupyter
        self._goal(
            f"goal 10: {found.sessions} sessions × {found.each} executions ≥ {THROUGHPUT_TIMES} × jupyter_client's throughput",
            f"{found.ours:.0f} of {found.jupyter:.0f} a second ({times(ratio)} ×)",
            ratio >= THROUGHPUT_TIMES,
        )

    def starts(self, found: Starts) -> None:
        self._starts("session to its first result, `1 + 1`", found)
        for side in _HOW_STARTED:
            promise = f"goal 4 (the peer: cold ipykernel): session to its first result, {_HOW_STARTED[side]},"
            self._part_goal(promise, found.both(side), START_PART, found.faults)

    def used(self, found: Starts) -> None:
        self._starts("… with pandas and pyplot used", found)
        promise = f"goal 4: with pandas and pyplot ready and used, {_HOW_STARTED[AHEAD]},"
        self._part_goal(promise, found.both(AHEAD), USED_PART, found.faults)
        promise = f"beyond: … {_HOW_STARTED[FORKED]},"
        self._part_goal(promise, found.both(FORKED), USED_PART, found.faults)

    def idle(self, found: Idle) -> None:
        ratio = found.ours / found.raw
        name = f"memory (PSS) of an idle session that has imported pandas and pyplot (n = {found.ours_count})"
        raw = f"{mebibytes(found.raw)} (n = {found.raw_count})"
        self.rows.append((name, mebibytes(found.ours), raw, times(ratio)))
        ours_count, raw_count = (1024 * MIB / each for each in (found.ours, found.raw))
        self._goal(
            f"goal 9: such sessions per GiB ≥ {IDLE_TIMES} × cold ipykernels",
            f"{ours_count:.0f} of them to {raw_count:.1f} ({ours_count / raw_count:.1f} ×)",
            ours_count >= IDLE_TIMES * raw_count,
        )

    def writes(self, name: str, sides: dict[str, Side]) -> None:
        self._volume(name, sides)
        ours = sides["ours"]
        self._time_goal(f"goal 7: {name} in ≤ raw's time", sides, plain=False)
        self._growth_goal(f"goal 7: service growth ≤ {WRITES_GROWTH_MIB} MiB", ours, WRITES_GROWTH_MIB)
        self._fault_goal("goal 7: every byte accounted for and readable", ours.faults)
        if "over" in sides:
            self.over_rows.append(_volume_row(name, {**sides, "ours": sides["over"]}))

    def displays(self, name: str, sides: dict[str, Side]) -> None:
        self._volume(name, sides)
        ours = sides["ours"]
        self._time_goal(f"goal 8: {name} in ≤ raw's time + plain file writing", sides, plain=True)
        self._growth_goal(
            f"goal 8: {name}: service growth ≤ {DISPLAYS_GROWTH_MIB} MiB", ours, DISPLAYS_GROWTH_MIB
        )
        self._fault_goal(f"goal 8: {name}: none lost undeclared, the final state shown", ours.faults)

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
        self._part_goal(f"goal 6: {name}", Both(ours.seconds, sides["raw"].seconds), PRINTS_PART)
        self._fault_goal(f"goal 6: {name}: every byte accounted for and readable", ours.faults)
        self._goal(
            f"the service's own CPU for 100 MB of prints ≤ {seconds(PRINTS_CPU_SECONDS)}",
            seconds(cpu),
            cpu <= PRINTS_CPU_SECONDS,
        )

    def text(self) -> str:
        lines = table(("what", "Cellhouse", "raw ipykernel", "ratio"), self.rows)
        if self.over_rows:
            lines += [
                "",
                *table(("what", "Cellhouse over ipykernel", "raw ipykernel", "ratio"), self.over_rows),
            ]
        if self.served_rows:
            lines += ["", *table(("what", "Cellhouse over HTTP", "the peer", "ratio"), self.served_rows)]
        goals = [(goal.promise, goal.measured, _verdict(goal.met)) for goal in self.goals]
        lines += ["", *table(("goal", "measured", ""), goals)]
        return "\n".join(lines) + "\n"

    def _both(self, name: str, both: Both) -> None:
        self.rows.append(_row(name, both))

    def _starts(self, name: str, found: Starts) -> None:
        for side in _HOW_STARTED:
            self._both(f"{name}, {_HOW_STARTED[side]}; raw: cold", found.both(side))

    def _volume(self, name: str, sides: dict[str, Side]) -> None:
        self.rows.append(_volume_row(name, sides))

    def _part_goal(
        self, promise: str, both: Both, part: int, faults: Sequence[str] = (), *, peer: str = "raw"
    ) -> None:
        took, bound = both.ours.median, both.raw.median / part
        told = f"{seconds(took)} of {seconds(bound)} (1/{1 / both.ratio:.1f})"
        self._goal(
            f"{promise} ≤ 1/{part} of {peer}", "; ".join([told, *faults]), took <= bound and not faults
        )

    def _time_goal(self, promise: str, sides: dict[str, Side], *, plain: bool) -> None:
        bound = sides["raw"].seconds.median + (sides["plain"].seconds.median if plain else 0)
        took = sides["ours"].seconds.median
        self._goal(promise, f"{seconds(took)} of {seconds(bound)} ({times(took / bound)} ×)", took <= bound)

    def _growth_goal(self, promise: str, side: Side, mib: int) -> None:
        worst = side.growth_bytes.worst
        self._goal(promise, f"{mebibytes(worst)} at worst", worst <= mib * MIB)

    def _fault_goal(self, promise: str, faults: Sequence[str]) -> None:
        self._goal(promise, "; ".join(faults) or "all there", not faults)

    def _goal(self, promise: str, measured: str, met: bool) -> None:
        self.goals.append(Goal(promise, measured, met))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(head)} |".replace("|  |", "| |"),
        "|---" * len(head) + "|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def _row(name: str, both: Both) -> tuple[str, str, str, str]:
    ours = f"{seconds(both.ours.median)} / {seconds(both.ours.p95)}"
    raw = f"{seconds(both.raw.median)} / {seconds(both.raw.p95)}"
    return f"{name} (n = {both.ours.count})", ours, raw, times(both.ratio)


def _volume_row(name: str, sides: dict[str, Side]) -> tuple[str, str, str, str]:
    ours, raw = sides["ours"], sides["raw"]
    plain = f"; the plain files: {seconds(sides['plain'].seconds.median)}" if "plain" in sides else ""
    ratio = times(ours.seconds.median / raw.seconds.median)
    return f"{name} (n = {ours.seconds.count}){plain}", _side(ours), _side(raw), ratio


def _side(side: Side) -> str:
    lost = f"; {', '.join(side.faults)}" if side.faults else ""
    return (
        f"{seconds(side.seconds.median)} / {seconds(side.seconds.worst)}, own CPU {seconds(side.cpu_seconds.median)}, "
        f"growth {mebibytes(side.growth_bytes.worst)}{lost}"
    )


def _verdict(met: bool) -> str:
    return "met" if met else "**NOT MET**"
