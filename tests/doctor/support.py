"""Backends that are not what they say, and a patient to show them to."""

import asyncio
from pathlib import Path
from typing import Any

from cellhouse.doctor import DoctorReport, LayerReport, LevelReport, LimitProbeReport, Patient
from cellhouse.environments import Environment
from cellhouse.model import Isolation, IsolationLayer
from cellhouse.runtime import Settings
from cellhouse.sandbox import IN_FORCE, LAYERS, Sandbox, SandboxSpec, create_sandbox
from cellhouse.sandbox.base import unavailable
from cellhouse.sandbox.bubblewrap import BubblewrapSandbox
from cellhouse.sandbox.none import NoneSandbox


class Liar(NoneSandbox):
    """No walls, and says that it has all of them."""

    level = "liar"

    def describe(self) -> Isolation:
        layers = tuple(IsolationLayer(name=name, status=IN_FORCE, detail="trust me") for name in LAYERS)
        return Isolation(level=self.level, layers=layers)


class Modest(BubblewrapSandbox):
    """Has walls, and does not speak of one of them."""

    level = "modest"

    def describe(self) -> Isolation:
        report = super().describe()
        return Isolation(
            level=self.level, layers=tuple(layer for layer in report.layers if layer.name != "ipc")
        )


class Lacking(NoneSandbox):
    """Can't be had here."""

    level = "lacking"

    async def start(self) -> None:
        raise unavailable("the moat is dry; fill it", level=self.level)


class Broken(NoneSandbox):
    """Fails in a way that no backend should."""

    level = "broken"

    async def start(self) -> None:
        raise TypeError("a mistake")


class Stuck(NoneSandbox):
    """Never comes to an end with its start."""

    level = "stuck"

    async def start(self) -> None:
        await asyncio.get_running_loop().create_future()


BACKENDS = {each.level: each for each in (Liar, Modest, Lacking, Broken, Stuck)}


def make(level: str, spec: SandboxSpec) -> Sandbox:
    backend = BACKENDS.get(level)
    return create_sandbox(level, spec) if backend is None else backend(spec)


def patient(state: Path, environment: Environment, *levels: str, **changes: Any) -> Patient:
    """One with these levels, the last of which is the default."""
    settings = {
        "state_dir": state,
        "isolation": levels[-1],
        "environments": (environment.prefix.parent,),
        **changes,
    }
    seconds = settings.pop("seconds", 60.0)
    return Patient(settings=Settings(**settings), levels=levels, make=make, seconds=seconds)


def level_of(report: DoctorReport, name: str) -> LevelReport:
    return next(level for level in report.levels if level.level == name)


def layers_of(level: LevelReport) -> dict[str, LayerReport]:
    assert level.layers is not None
    return {layer.name: layer for layer in level.layers}


def limits_of(level: LevelReport) -> dict[str, LimitProbeReport]:
    assert level.limits is not None
    return {limit.name: limit for limit in level.limits}
