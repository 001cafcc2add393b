"""One isolation level: what is known of it so far, the examination that fills it in, and the report made of it."""

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from cellhouse.doctor import remedies, sessions as siblings
from cellhouse.doctor.bench import LIMITS, ORDER, QUICK, Bench
from cellhouse.doctor.policy import examine_policy
from cellhouse.doctor.programs import LIMIT_PROBES, PROBES, REACHED
from cellhouse.doctor.report import (
    LayerReport,
    LayerStatus,
    LevelReport,
    LevelStatus,
    LimitProbeReport,
    PolicyReport,
    ProbeOutcome,
    ProbeReport,
    SessionsReport,
)
from cellhouse.doctor.running import NoAnswer, Told
from cellhouse.doctor.sessions import Sessions
from cellhouse.doctor.verdicts import of_layer, of_limit, of_limits_layer, weigh
from cellhouse.house import House
from cellhouse.model import CellhouseError, Enforcement, IsolationLayer, LimitName, LimitReport
from cellhouse.sandbox import LAYERS, Sandbox

NO_TIME: Final = NoAnswer("the time for everything was over before; give it more (--seconds)")
NO_SESSION: Final = NoAnswer("there was no session to ask")


def no_sessions(why: str) -> Sessions:
    return Sessions(SessionsReport(works=False, detail=why), None, {})


NO_SESSIONS: Final = no_sessions(f"{NO_TIME}")
NO_POLICY: Final = PolicyReport(status=LayerStatus.NOT_SHOWN, detail=f"{NO_TIME}")


@dataclass(slots=True)
class Level:
    """What is known so far, so that it can be told also where the time runs out in between."""

    name: str
    default: bool
    status: LevelStatus = LevelStatus.NOT_SHOWN
    detail: str | None = f"{NO_TIME}"
    claims: dict[str, IsolationLayer] = field(default_factory=dict)
    held: tuple[LimitReport, ...] = ()
    inside: dict[str, Told] = field(default_factory=dict)
    limited: dict[LimitName, tuple[Told, Told]] = field(default_factory=dict)
    uids: tuple[int, int] | NoAnswer = NO_TIME
    sessions: Sessions = NO_SESSIONS
    policy: PolicyReport = NO_POLICY

    async def examine(self, bench: Bench) -> None:
        """Put one sandbox of this level up, and a second one beside it, and try everything in the first."""
        try:
            async with contextlib.AsyncExitStack() as stack:
                walls = await self._start(stack, bench)
                if walls is not None:
                    await self._try(stack, bench, walls)
        except Exception as error:
            # A backend of somebody else's may fail in any way; the others are told of all the same.
            self.status = LevelStatus.NOT_SHOWN
            self.detail = f"its examination failed: {type(error).__name__}: {error}"

    async def _start(self, stack: contextlib.AsyncExitStack, bench: Bench) -> Sandbox | None:
        try:
            walls = await stack.enter_async_context(bench.sandbox(self.name, self.name, QUICK))
        except (CellhouseError, OSError) as error:
            self.status, self.detail = LevelStatus.UNAVAILABLE, f"{error}"
            return None
        self.status, self.detail = LevelStatus.AVAILABLE, None
        self.claims = {layer.name: layer for layer in walls.report.layers}
        self.held = walls.limits
        return walls

    async def _try(self, stack: contextlib.AsyncExitStack, bench: Bench, walls: Sandbox) -> None:
        self.inside = await bench.tell_all(walls)
        watched = {each.name for each in self.held if each.enforcement is Enforcement.WATCHED}
        for name in ORDER:
            self.limited[name] = await bench.limit_told(walls, name, watched=name in watched)
        try:
            beside = await stack.enter_async_context(bench.sandbox(self.name, f"{self.name}-2", LIMITS))
        except (CellhouseError, OSError) as error:
            self.uids = NoAnswer(f"there is no second sandbox to compare with: {error}")
            return
        slow = tuple(each for each in beside.limits if each.name == "cpus")
        self.held = (*(each for each in self.held if each.name != "cpus"), *slow)
        try:
            self.uids = (await bench.host_uid(walls), await bench.host_uid(beside))
        except NoAnswer as error:
            self.uids = error
        self.limited["cpus"] = await bench.cpus_told(beside)

    async def examine_sessions(self, house: House, start: str) -> None:
        """Have two sessions of a runtime of this level tell what they can reach of each other."""
        try:
            self.sessions = await siblings.examine_sessions(house, self.name, start)
        except Exception as error:  # as above
            self.sessions = no_sessions(f"their examination failed: {type(error).__name__}: {error}")

    async def examine_policy(self, house: House) -> None:
        """Have runtimes of this level try what a network policy lets through."""
        try:
            self.policy = await examine_policy(house, self.name)
        except Exception as error:  # as above
            detail = f"its examination failed: {type(error).__name__}: {error}"
            self.policy = PolicyReport(status=LayerStatus.NOT_SHOWN, detail=detail)

    def report(self, unwalled: Callable[[str], Told], sessions: Sessions) -> LevelReport:
        """What may be said. The counter-proofs: what each probe said without walls, and the sessions at level none."""
        if self.status is not LevelStatus.AVAILABLE:
            return LevelReport(level=self.name, default=self.default, status=self.status, detail=self.detail)
        limits = tuple(self._limit(name) for name in LIMIT_PROBES)
        return LevelReport(
            level=self.name,
            default=self.default,
            status=self.status,
            detail=self.detail,
            layers=tuple(self._layer(name, unwalled, sessions, limits) for name in LAYERS),
            limits=limits,
            sessions=self.sessions.report,
            network_policy=self.policy,
        )

    def _layer(
        self,
        name: str,
        unwalled: Callable[[str], Told],
        sessions: Sessions,
        limits: Sequence[LimitProbeReport],
    ) -> LayerReport:
        claim = self.claims.get(name)
        if name == "limits":
            return of_limits_layer(limits, claim)
        if name == "landlock":
            return self._landlock(sessions)
        if name == "uid":
            probes = [self._uid()]
        else:
            probes = [
                weigh(probe, self.inside.get(probe.name, NO_TIME), unwalled(probe.name))
                for probe in PROBES
                if probe.layer == name
            ]
        return of_layer(name, claim, probes, remedies.for_layer(name, self.name))

    def _landlock(self, unwalled: Sessions) -> LayerReport:
        """What is round a session is known to its runtime, and not to the sandbox."""
        name, isolation = "landlock", self.sessions.isolation
        if isolation is None:
            detail = f"no session could be started: {self.sessions.report.detail}"
            return LayerReport(name=name, status=LayerStatus.NOT_SHOWN, detail=detail)
        claim = next((layer for layer in isolation.layers if layer.name == name), None)
        probes = [
            weigh(probe, *(told.answers.get(probe.name, NO_SESSION) for told in (self.sessions, unwalled)))
            for probe in siblings.PROBES
        ]
        return of_layer(name, claim, probes, remedies.for_layer(name, self.name))

    def _uid(self) -> ProbeReport:
        """Whose a process inside is on the host: looked at from there, since inside it has another number."""
        probe = ProbeReport(
            name="host-uid",
            tried="be the service's user, or another runtime's, on the host",
            outcome=ProbeOutcome.NOT_SHOWN,
        )
        if isinstance(self.uids, NoAnswer):
            return probe.model_copy(update={"detail": f"{self.uids}"})
        service, (uid, other) = os.geteuid(), self.uids
        apart = len({service, uid, other}) == 3
        return probe.model_copy(
            update={
                "outcome": ProbeOutcome.HELD if apart else ProbeOutcome.REACHED,
                "answer": f"missed: uid {uid}" if apart else REACHED,
                "unwalled": REACHED,
                "detail": f"uid {uid} on the host, another runtime's is {other}, the service's {service}",
            }
        )

    def _limit(self, name: LimitName) -> LimitProbeReport:
        claim = next((each for each in self.held if each.name == name), None)
        probe = weigh(LIMIT_PROBES[name], *self.limited.get(name, (NO_TIME, NO_TIME)))
        remedy = None
        if claim is None or claim.enforcement is not Enforcement.EXACT:
            remedy = remedies.for_limit(name, self.held)
        return of_limit(LIMITS.value(name), name, claim, probe, remedy)
