"""What may be said because of which answers: a table that fails closed."""

import pytest

from cellhouse.doctor.policy import Said, verdict
from cellhouse.doctor.programs import LIMIT_PROBES, PROBES, Probe, source
from cellhouse.doctor.report import LayerStatus, ProbeOutcome, ProbeReport
from cellhouse.doctor.running import Answer, NoAnswer, Told
from cellhouse.doctor.verdicts import of_layer, of_limit, of_limits_layer, weigh
from cellhouse.model import Enforcement, IsolationLayer, LimitHit, LimitReport
from cellhouse.sandbox import ABSENT, IN_FORCE, LAYERS

PROBE = Probe("mount", "host-file", "open a file of the host", "pass", ("ENOENT", "missed:"))
REACHED = Answer("reached")
HELD, OPEN, NOT_SHOWN = ProbeOutcome.HELD, ProbeOutcome.REACHED, ProbeOutcome.NOT_SHOWN

NOTHING = Said("ECONNREFUSED", "ECONNREFUSED", "ECONNREFUSED")


@pytest.mark.parametrize(
    ("inside", "unwalled", "outcome"),
    [
        (Answer("ENOENT"), REACHED, HELD),
        (Answer("missed: whatever"), REACHED, HELD),
        (REACHED, REACHED, OPEN),
        (REACHED, NoAnswer("it hung"), OPEN),
        (REACHED, Answer("ENOENT"), OPEN),
        # What fails everywhere shows nothing.
        (Answer("ENOENT"), Answer("ENOENT"), NOT_SHOWN),
        (Answer("ENOENT"), NoAnswer("it hung"), NOT_SHOWN),
        # An answer that these walls do not give may come from anywhere.
        (Answer("EACCES"), REACHED, NOT_SHOWN),
        (Answer("SIGSYS"), REACHED, NOT_SHOWN),
        (Answer("missed"), REACHED, NOT_SHOWN),
        (NoAnswer("it hung"), REACHED, NOT_SHOWN),
        (NoAnswer("it hung"), NoAnswer("it hung"), NOT_SHOWN),
    ],
)
def test_a_probe_is_held_only_where_it_was_refused_inside_and_got_through_without_walls(
    inside: Told, unwalled: Told, outcome: ProbeOutcome
) -> None:
    report = weigh(PROBE, inside, unwalled)
    assert report.outcome is outcome
    assert (report.detail is not None) is (outcome is NOT_SHOWN)


def test_a_kill_shows_the_limit_that_it_was_for_and_no_other() -> None:
    probe = LIMIT_PROBES["memory"]
    assert weigh(probe, Answer("SIGKILL", LimitHit("memory", 1)), REACHED).outcome is HELD
    assert weigh(probe, Answer("SIGKILL", LimitHit("content", 1)), REACHED).outcome is NOT_SHOWN
    assert weigh(probe, Answer("SIGKILL"), REACHED).outcome is NOT_SHOWN


def _probes(*outcomes: ProbeOutcome) -> list[ProbeReport]:
    return [ProbeReport(name="p", tried="try it", outcome=outcome) for outcome in outcomes]


CLAIM = IsolationLayer(name="mount", status=IN_FORCE, detail="ours")
NO_CLAIM = IsolationLayer(name="mount", status=ABSENT, detail="none here")


@pytest.mark.parametrize(
    ("claim", "outcomes", "status"),
    [
        (CLAIM, (HELD,), LayerStatus.IN_FORCE),
        (CLAIM, (HELD, NOT_SHOWN), LayerStatus.IN_FORCE),
        (CLAIM, (HELD, OPEN), LayerStatus.OPEN),
        (CLAIM, (OPEN,), LayerStatus.OPEN),
        (CLAIM, (NOT_SHOWN,), LayerStatus.NOT_SHOWN),
        (CLAIM, (), LayerStatus.NOT_SHOWN),
        (NO_CLAIM, (HELD,), LayerStatus.ABSENT),
        (NO_CLAIM, (OPEN,), LayerStatus.ABSENT),
        (None, (HELD,), LayerStatus.ABSENT),
    ],
)
def test_a_layer_is_in_force_where_it_is_claimed_and_shown_and_nothing_got_through(
    claim: IsolationLayer | None, outcomes: tuple[ProbeOutcome, ...], status: LayerStatus
) -> None:
    report = of_layer("mount", claim, _probes(*outcomes), "a remedy")
    assert report.status is status
    assert (report.remedy is not None) is (status is LayerStatus.ABSENT)


@pytest.mark.parametrize(
    ("enforcement", "outcome", "status"),
    [
        (Enforcement.EXACT, HELD, LayerStatus.IN_FORCE),
        (Enforcement.WATCHED, HELD, LayerStatus.IN_FORCE),
        (Enforcement.EXACT, OPEN, LayerStatus.OPEN),
        (Enforcement.EXACT, NOT_SHOWN, LayerStatus.NOT_SHOWN),
        (Enforcement.NONE, HELD, LayerStatus.ABSENT),
        (None, HELD, LayerStatus.ABSENT),
    ],
)
def test_a_limit_is_in_force_where_it_is_claimed_and_was_run_into(
    enforcement: Enforcement | None, outcome: ProbeOutcome, status: LayerStatus
) -> None:
    claim = None if enforcement is None else LimitReport(name="memory", enforcement=enforcement)
    (probe,) = _probes(outcome)
    assert of_limit(1, "memory", claim, probe, None).status is status


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        ((LayerStatus.IN_FORCE, LayerStatus.IN_FORCE), LayerStatus.IN_FORCE),
        ((LayerStatus.IN_FORCE, LayerStatus.NOT_SHOWN), LayerStatus.NOT_SHOWN),
        ((LayerStatus.NOT_SHOWN, LayerStatus.OPEN), LayerStatus.OPEN),
        ((LayerStatus.IN_FORCE, LayerStatus.ABSENT), LayerStatus.ABSENT),
        ((), LayerStatus.NOT_SHOWN),
    ],
)
def test_the_layer_of_limits_is_as_good_as_its_worst(
    statuses: tuple[LayerStatus, ...], status: LayerStatus
) -> None:
    by_status = {
        LayerStatus.IN_FORCE: (Enforcement.EXACT, HELD),
        LayerStatus.NOT_SHOWN: (Enforcement.EXACT, NOT_SHOWN),
        LayerStatus.OPEN: (Enforcement.EXACT, OPEN),
        LayerStatus.ABSENT: (Enforcement.NONE, OPEN),
    }
    limits = [
        of_limit(1, "cpus", LimitReport(name="cpus", enforcement=held), _probes(outcome)[0], None)
        for held, outcome in (by_status[each] for each in statuses)
    ]
    claim = IsolationLayer(name="limits", status=IN_FORCE)
    assert of_limits_layer(limits, claim).status is status
    assert of_limits_layer(limits, None).status is LayerStatus.ABSENT


def test_each_layer_but_those_with_ways_of_their_own_has_a_program_and_each_program_can_be_compiled() -> None:
    assert {probe.layer for probe in PROBES} == set(LAYERS) - {"uid", "landlock", "limits"}
    probes = [*PROBES, *LIMIT_PROBES.values()]
    assert len({probe.name for probe in probes}) == len(probes)
    for probe in probes:
        compile(source(probe), probe.name, "exec")
        assert probe.refused
        assert not probe.holds("reached")


@pytest.mark.parametrize(
    ("said", "without", "refused", "served", "status"),
    [
        (Said("reached", "HTTP/1.1 403", "ENETUNREACH"), NOTHING, "NOT_NAMED: no", (1, 0, 0), "in force"),
        (Said("reached", "reached", "ENETUNREACH"), NOTHING, "", (1, 0, 1), "open"),
        (Said("reached", "HTTP/1.1 403", "reached"), NOTHING, "NOT_NAMED: no", (2, 0, 0), "open"),
        (Said("reached", "HTTP/1.1 403", "ENETUNREACH"), NOTHING, "NOT_NAMED: no", (1, 1, 0), "open"),
        (Said("ECONNREFUSED", "ECONNREFUSED", "ENETUNREACH"), NOTHING, "", (0, 0, 0), "not shown"),
        (Said("reached", "HTTP/1.1 403", "ENETUNREACH"), NOTHING, "NOT_NAMED: no", (0, 0, 0), "not shown"),
        (Said("reached", "ECONNRESET", "ENETUNREACH"), NOTHING, "", (1, 0, 0), "not shown"),
    ],
)
def test_a_policy_is_in_force_where_code_and_servers_agree(
    said: Said, without: Said, refused: str, served: tuple[int, int, int], status: str
) -> None:
    assert verdict(said, without, refused, served).status == status
