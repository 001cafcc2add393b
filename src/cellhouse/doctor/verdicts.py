"""From answers to words: what one probe shows, and what may be said of a layer or a limit because of it."""

from collections.abc import Sequence

from cellhouse.doctor.programs import Probe
from cellhouse.doctor.report import (
    LayerReport,
    LayerStatus,
    LimitProbeReport,
    ProbeOutcome,
    ProbeReport,
)
from cellhouse.doctor.running import Answer, NoAnswer, Told
from cellhouse.model import Enforcement, IsolationLayer, LimitReport
from cellhouse.sandbox import IN_FORCE


def weigh(probe: Probe, inside: Told, unwalled: Told) -> ProbeReport:
    """What a probe shows. It is held only where the same program got through without walls."""
    answer = inside.text if isinstance(inside, Answer) else None
    other = unwalled.text if isinstance(unwalled, Answer) else None
    outcome, detail = ProbeOutcome.NOT_SHOWN, None
    if isinstance(inside, NoAnswer):
        detail = f"{inside}"
    elif inside.reached:
        outcome = ProbeOutcome.REACHED
    elif not _refused(probe, inside):
        detail = f"{inside.text} is no answer of these walls"
    elif isinstance(unwalled, NoAnswer):
        detail = f"there is no counter-proof: {unwalled}"
    elif not unwalled.reached:
        detail = f"the same fails without walls, with {unwalled.text}"
    else:
        outcome = ProbeOutcome.HELD
    return ProbeReport(
        name=probe.name, tried=probe.tried, outcome=outcome, answer=answer, unwalled=other, detail=detail
    )


def _refused(probe: Probe, inside: Answer) -> bool:
    if inside.hit is not None:
        return inside.hit.name == probe.name
    return probe.holds(inside.text)


def of_layer(
    name: str, claim: IsolationLayer | None, probes: Sequence[ProbeReport], remedy: str | None
) -> LayerReport:
    """What may be said of a layer. Where its backend claims nothing, nothing is claimed here, whatever the probes say."""
    outcomes = {probe.outcome for probe in probes}
    if claim is None or claim.status != IN_FORCE:
        status = LayerStatus.ABSENT
    elif ProbeOutcome.REACHED in outcomes:
        status = LayerStatus.OPEN
    elif ProbeOutcome.HELD in outcomes:
        status = LayerStatus.IN_FORCE
    else:
        status = LayerStatus.NOT_SHOWN
    return LayerReport(
        name=name,
        status=status,
        detail=claim.detail if claim is not None else "its report does not name this layer",
        remedy=remedy if status is LayerStatus.ABSENT else None,
        probes=tuple(probes),
    )


def of_limit(
    value: float, name: str, claim: LimitReport | None, probe: ProbeReport, remedy: str | None
) -> LimitProbeReport:
    """What may be said of a limit."""
    if claim is None or claim.enforcement is Enforcement.NONE:
        status = LayerStatus.ABSENT
    else:
        status = {
            ProbeOutcome.HELD: LayerStatus.IN_FORCE,
            ProbeOutcome.REACHED: LayerStatus.OPEN,
            ProbeOutcome.NOT_SHOWN: LayerStatus.NOT_SHOWN,
        }[probe.outcome]
    return LimitProbeReport(
        name=name,
        value=value,
        status=status,
        enforcement=claim.enforcement if claim is not None else None,
        detail=claim.detail if claim is not None else "its report does not name this limit",
        remedy=remedy,
        probe=probe,
    )


def of_limits_layer(limits: Sequence[LimitProbeReport], claim: IsolationLayer | None) -> LayerReport:
    """The layer `limits`: the worst of them all."""
    statuses = {limit.status for limit in limits}
    if claim is None or claim.status != IN_FORCE or LayerStatus.ABSENT in statuses:
        status = LayerStatus.ABSENT
    else:
        worst = (LayerStatus.OPEN, LayerStatus.NOT_SHOWN, LayerStatus.IN_FORCE)
        status = next((each for each in worst if each in statuses), LayerStatus.NOT_SHOWN)
    remedies = dict.fromkeys(limit.remedy for limit in limits if limit.status is LayerStatus.ABSENT)
    return LayerReport(
        name="limits",
        status=status,
        detail=claim.detail if claim is not None else "its report does not name this layer",
        remedy="; ".join(each for each in remedies if each) or None,
    )
