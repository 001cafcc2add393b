"""What keeps code from being run here behind the default walls, in sentences that say what would help."""

from collections.abc import Iterator, Sequence

from cellhouse.doctor.report import (
    EnvironmentReport,
    LayerReport,
    LayerStatus,
    LevelReport,
    LevelStatus,
    LimitProbeReport,
    ProbeOutcome,
    StateReport,
)


def find_problems(
    levels: Sequence[LevelReport], environments: Sequence[EnvironmentReport], state: StateReport
) -> tuple[str, ...]:
    """All of them; empty where there is none.

    A layer that its level claims and nothing has shown is one where the level is the default, a limit is not: whether
    CPU time is limited can't always be shown on a machine that is busy.
    """
    return tuple(_found(levels, environments, state))


def _found(
    levels: Sequence[LevelReport], environments: Sequence[EnvironmentReport], state: StateReport
) -> Iterator[str]:
    if not state.writable:
        yield f"the state directory {state.directory} can't be written: {state.detail}; {state.remedy}"
    for level in levels:
        yield from _of_level(level)
    for environment in environments:
        if environment.default and not environment.usable:
            yield f"{environment.missing}"


def _of_level(level: LevelReport) -> Iterator[str]:
    name = f"isolation {level.level!r}"
    for layer in level.layers or ():
        if layer.status is LayerStatus.OPEN and layer.name != "limits":
            yield f"{name}: layer {layer.name!r} is claimed, and yet code could {_through(layer)}"
    for limit in level.limits or ():
        if limit.status is LayerStatus.OPEN:
            yield f"{name}: limit {limit.name!r} is claimed ({limit.enforcement}), and yet code could {_tried(limit)}"
    policy = level.network_policy
    if policy is not None and policy.status is LayerStatus.OPEN:
        yield f"{name}: network policy 'allow' does not hold: {policy.detail}"
    if not level.default:
        return
    if level.status is not LevelStatus.AVAILABLE:
        # The message of a sandbox that does not start says what would help.
        yield f"{name}, the default, was not to be had: {level.detail}"
        return
    for layer in level.layers or ():
        if layer.status is LayerStatus.NOT_SHOWN and layer.name != "limits":
            yield f"{name}: layer {layer.name!r} was not shown to stand: {_why(layer)}"
    if level.sessions is not None and not level.sessions.works:
        yield f"{name}: no session works: {level.sessions.detail}"


def _through(layer: LayerReport) -> str:
    return " and ".join(probe.tried for probe in layer.probes if probe.outcome is ProbeOutcome.REACHED)


def _tried(limit: LimitProbeReport) -> str:
    return limit.probe.tried if limit.probe is not None else "exceed it"


def _why(layer: LayerReport) -> str:
    return "; ".join(f"{probe.tried}: {probe.detail}" for probe in layer.probes) or f"{layer.detail}"
