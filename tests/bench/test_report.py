"""The verdicts: what is not met is said, however little it is missed by."""

import pytest

from bench.figures import MIB, Both, Figures
from bench.latency import Deaths, Times, Warm
from bench.report import Report
from bench.starts import Idle, Starts
from bench.volume import Side


def _side(seconds: float, *, cpu: float = 0.1, growth: float = 1.0, faults: tuple[str, ...] = ()) -> Side:
    return Side(Figures.of([seconds]), Figures.of([cpu]), Figures.of([growth * MIB]), [*faults])


def _both(ours: float, raw: float) -> Both:
    return Both(Figures.of([ours]), Figures.of([raw]))


def _times(*, cpu: float = 0.001, **time: float) -> Times:
    figures = {side: Figures.of([took]) for side, took in time.items()}
    return Times(figures, {side: Figures.of([cpu]) for side in time})


def _starts(forked: float, ahead: float, raw: float, *faults: str) -> Starts:
    return Starts(Figures.of([forked]), Figures.of([ahead]), Figures.of([raw]), [*faults])


def _verdicts(report: Report) -> list[bool]:
    return [goal.met for goal in report.goals]


def test_warm_executions_are_held_against_parts_of_the_peer_and_their_own_cpu() -> None:
    report = Report()
    good = _times(ours=0.001, raw=0.004)
    report.warm(
        Warm(
            _times(ours=0.001, over=0.00375, raw=0.003, cpu=0.0015), good, good, {"print": _both(0.025, 0.2)}
        )
    )
    bad = _times(ours=0.00101, raw=0.004)
    report.warm(
        Warm(
            _times(ours=0.00101, over=0.0038, raw=0.003, cpu=0.00151), bad, bad, {"print": _both(0.0251, 0.2)}
        )
    )
    assert _verdicts(report) == [True] * 5 + [False] * 5


def test_how_deep_an_exception_is_raised_is_told_and_not_judged() -> None:
    report = Report()
    good = _times(ours=0.001, raw=0.004)
    report.warm(Warm(_times(ours=0.001, over=0.001, raw=0.003), good, _times(ours=0.1, raw=0.1), {}))
    assert all(_verdicts(report))
    assert "6 frames deep" in report.text()


def test_a_session_is_held_against_a_cold_kernel_however_it_was_forked() -> None:
    report = Report()
    report.starts(_starts(1.0, 0.05, 12.0))
    report.starts(_starts(1.1, 0.05, 12.0))
    report.used(_starts(1.0, 0.05, 25.0))
    report.used(_starts(1.01, 1.01, 25.0))
    assert _verdicts(report) == [True, True, False, True, True, True, False, False]


def test_a_start_that_was_not_what_it_should_be_is_no_goal_met() -> None:
    report = Report()
    report.starts(_starts(0.01, 0.01, 1.0, "a session that was not forked ahead"))
    assert _verdicts(report) == [False, False]
    assert report.text().count("a session that was not forked ahead") == 2


@pytest.mark.parametrize(("mib", "met"), [(10, True), (10.1, False)])
def test_idle_sessions_are_counted_with_their_share_of_what_all_need(mib: float, met: bool) -> None:
    report = Report()
    report.idle(Idle(int(20 * mib * MIB), 20, 240 * MIB, 3))
    assert _verdicts(report) == [met]
    assert f"{1024 / mib:.0f} of them to 12.8" in report.text()


def test_writes_have_to_be_as_quick_as_the_peer_within_little_memory_and_whole() -> None:
    report = Report()
    report.writes("writes", {"ours": _side(1.0, growth=16), "raw": _side(1.0)})
    report.writes("writes", {"ours": _side(1.01, growth=16.1, faults=("lost",)), "raw": _side(1.0)})
    assert _verdicts(report) == [True, True, True, False, False, False]
    assert report.text().count("**NOT MET**") == 3
    assert "lost" in report.text()


def test_over_ipykernel_has_a_table_of_its_own_without_verdicts() -> None:
    report = Report()
    report.writes("writes", {"ours": _side(1.0), "raw": _side(2.0)})
    assert "over ipykernel" not in report.text()
    report.writes("writes", {"ours": _side(1.0), "over": _side(3.0, faults=("lost",)), "raw": _side(2.0)})
    assert "| Cellhouse over ipykernel |" in report.text()
    assert all(_verdicts(report))


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


def test_prints_are_held_against_a_part_of_the_peer_and_cpu_for_a_hundred_megabytes() -> None:
    report = Report()
    report.prints("prints", {"ours": _side(1.0, cpu=0.2), "raw": _side(5.0)}, 10)
    report.prints("prints", {"ours": _side(1.01, cpu=0.21, faults=("lost",)), "raw": _side(5.0)}, 10)
    assert _verdicts(report) == [True, True, True, False, False, False]


def test_every_row_has_the_columns_of_its_table() -> None:
    report = Report()
    report.deaths(Deaths(_both(0.1, 1.0), []))
    lines = report.text().splitlines()
    assert [line.count("|") for line in lines] == [5, 5, 5, 0, 4, 4, 4]
