"""The verdicts: what is not met is said, however little it is missed by."""

from bench.figures import MIB, Figures
from bench.latency import Both, Deaths, Warm
from bench.report import Report
from bench.volume import Side


def _side(seconds: float, *, cpu: float = 0.1, growth: float = 1.0, faults: tuple[str, ...] = ()) -> Side:
    return Side(Figures.of([seconds]), Figures.of([cpu]), Figures.of([growth * MIB]), [*faults])


def _both(ours: float, raw: float) -> Both:
    return Both(Figures.of([ours]), Figures.of([raw]))


def _verdicts(report: Report) -> list[bool]:
    return [goal.met for goal in report.goals]


def test_a_warm_execution_is_held_against_the_peer_and_its_own_cpu() -> None:
    report = Report()
    report.warm(Warm(_both(0.005, 0.004), _both(0.0015, 0.001)))
    report.warm(Warm(_both(0.00501, 0.004), _both(0.00151, 0.001)))
    assert _verdicts(report) == [True, True, False, False]


def test_writes_have_to_be_as_quick_as_the_peer_within_little_memory_and_whole() -> None:
    report = Report()
    report.writes("writes", {"ours": _side(1.0, growth=16), "raw": _side(1.0)})
    report.writes("writes", {"ours": _side(1.01, growth=16.1, faults=("lost",)), "raw": _side(1.0)})
    assert _verdicts(report) == [True, True, True, False, False, False]
    assert report.text().count("**NOT MET**") == 3
    assert "lost" in report.text()


def test_displays_may_take_the_time_that_their_files_take_besides() -> None:
    report = Report()
    sides = {"raw": _side(1.0), "plain": _side(0.5)}
    report.displays("displays", {"ours": _side(1.5, growth=64), **sides})
    report.displays("displays", {"ours": _side(1.6, growth=65, faults=("gone",)), **sides})
    assert _verdicts(report) == [True, True, True, False, False, False]


def test_a_death_is_told_of_in_time_at_worst_and_with_all_that_belongs_to_it() -> None:
    report = Report()
    report.deaths(Deaths(_both(0.2, 1.0), []))
    report.deaths(Deaths(_both(0.21, 1.0), []))
    report.deaths(Deaths(_both(0.01, 1.0), ["partial output ''"]))
    assert _verdicts(report) == [True, False, False]


def test_cpu_for_prints_is_that_for_a_hundred_megabytes() -> None:
    report = Report()
    report.prints("prints", {"ours": _side(1.0, cpu=0.2), "raw": _side(1.0)}, 10)
    report.prints("prints", {"ours": _side(1.0, cpu=0.21), "raw": _side(1.0)}, 10)
    assert _verdicts(report) == [True, True, True, False]
