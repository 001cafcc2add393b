"""What may be created here: environments, and levels of the walls with what each really holds on this machine."""

import asyncio
from pathlib import Path

from cellhouse.environments import NATIVE_KERNEL, Environment, list_environments, survey
from cellhouse.environments.ipython import is_enough
from cellhouse.model import (
    BrokenKernel,
    CellhouseError,
    EnvironmentOffer,
    IsolationOffer,
    LimitRange,
    NetworkOffer,
    NetworkSettings,
    RuntimeSpecs,
    WallLimits,
)
from cellhouse.model.limits import (
    LEAST_CONTENT,
    LEAST_CPUS,
    LEAST_MEMORY,
    LEAST_OPEN_FILES,
    LEAST_PROCESSES,
)
from cellhouse.runtime.network import policies
from cellhouse.runtime.settings import Settings
from cellhouse.runtime.store import remove_tree
from cellhouse.runtime.walls import sandbox_spec
from cellhouse.sandbox import create_sandbox, levels

PROBE_SECONDS = 60.0


class Offer:
    """Puts each level's walls up once, for a moment, and remembers what came of it for as long as the house lives."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._levels: asyncio.Task[tuple[IsolationOffer, ...]] | None = None

    async def specs(self, *, runtimes: int, accepting: bool) -> RuntimeSpecs:
        """The whole answer; the first one takes as long as walls take to stand and fall."""
        search = list(self._settings.environments) if self._settings.environments else None
        if self._levels is None or (self._levels.done() and self._levels.exception() is not None):
            self._levels = asyncio.ensure_future(self._look(search))
        offered = await asyncio.shield(self._levels)
        found = await asyncio.to_thread(survey, search)
        broken = tuple(
            EnvironmentOffer(name=name, available=False, detail=why)
            for name, why in sorted(found.broken.items())
        )
        most = self._settings.max_runtimes
        return RuntimeSpecs(
            environments=(*map(_environment, found.environments), *broken),
            isolation=offered,
            limits=_ranges(self._settings.walls),
            start=("zygote", "fresh"),
            network=_network(self._settings.network),
            max_runtimes=most,
            runtimes=runtimes,
            may_create=accepting and runtimes < most and any(level.available for level in offered),
        )

    async def close(self) -> None:
        """Break off what is being looked at."""
        if self._levels is not None:
            self._levels.cancel()
            await asyncio.wait([self._levels])

    async def _look(self, search: list[Path] | None) -> tuple[IsolationOffer, ...]:
        usable = await asyncio.to_thread(list_environments, search)
        return tuple([await self._look_at(level, usable) for level in levels()])

    async def _look_at(self, level: str, usable: list[Environment]) -> IsolationOffer:
        default = level == self._settings.isolation
        if not usable:
            why = "there is no environment to put walls around"
            return IsolationOffer(level=level, default=default, available=False, detail=why)
        place = self._settings.state_dir / "probe" / level
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            spec = sandbox_spec(place, usable[0], self._settings.walls)
            sandbox = create_sandbox(level, spec)
            try:
                async with asyncio.timeout(PROBE_SECONDS):
                    await sandbox.start()
                report = sandbox.report
                return IsolationOffer(
                    level=level,
                    default=default,
                    available=True,
                    isolation=report,
                    limits=sandbox.limits,
                    network_policies=policies(report, self._settings.network),
                )
            finally:
                await sandbox.close()
        except CellhouseError as error:
            return IsolationOffer(level=level, default=default, available=False, detail=error.message)
        except OSError as error:
            return IsolationOffer(level=level, default=default, available=False, detail=f"{error}")
        finally:
            await asyncio.to_thread(remove_tree, place)


def _environment(environment: Environment) -> EnvironmentOffer:
    kernels = sorted(environment.kernels)
    if is_enough(environment.ipython):
        kernels.insert(0, NATIVE_KERNEL)
    broken = [BrokenKernel(name=name, detail=why) for name, why in sorted(environment.broken_kernels.items())]
    return EnvironmentOffer(
        name=environment.name, available=True, kernels=tuple(kernels), broken_kernels=tuple(broken) or None
    )


def _network(settings: NetworkSettings) -> NetworkOffer:
    return NetworkOffer(
        may_allow=settings.may_allow,
        private=settings.private,
        may_open=settings.may_open,
        limit_connections=settings.connections,
        limit_bytes=settings.total_bytes,
    )


def _ranges(walls: WallLimits) -> tuple[LimitRange, ...]:
    return (
        LimitRange(name="memory", least=LEAST_MEMORY, default=walls.memory),
        LimitRange(name="cpus", least=LEAST_CPUS, default=walls.cpus),
        LimitRange(name="processes", least=LEAST_PROCESSES, default=walls.processes),
        LimitRange(name="content", least=LEAST_CONTENT, default=walls.content),
        LimitRange(name="openFiles", least=LEAST_OPEN_FILES, default=walls.open_files),
        LimitRange(name="fileSize", least=1, default=walls.one_file),
    )
