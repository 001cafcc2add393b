"""The whole examination, within a time: everything is tried just now, and what came to no answer is told as that."""

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from cellhouse import __version__
from cellhouse.doctor import place
from cellhouse.doctor.bench import Bench, SandboxMaker
from cellhouse.doctor.level import NO_SESSIONS, NO_TIME, Level, no_sessions
from cellhouse.doctor.machine import look_at_machine
from cellhouse.doctor.policy import own_servers
from cellhouse.doctor.problems import find_problems
from cellhouse.doctor.report import DoctorReport, LevelReport, StateReport
from cellhouse.doctor.surroundings import look_at_environments, look_at_state
from cellhouse.doctor.targets import standing
from cellhouse.environments import DEFAULT_ENVIRONMENT, Environment, find_environment, read_environment
from cellhouse.house import House
from cellhouse.model import CellhouseError, SystemClock, rfc3339
from cellhouse.runtime import Settings
from cellhouse.runtime.state import state_root
from cellhouse.sandbox import create_sandbox, levels

SECONDS: Final = 10.0
"""For everything but the ends of what was started; a quiet machine needs some four."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patient:
    """What is examined: a house with these settings on this machine. `levels` and `make` are others in tests."""

    settings: Settings
    levels: Sequence[str] = field(default_factory=levels)
    make: SandboxMaker = create_sandbox
    seconds: float = SECONDS


async def examine(patient: Patient | None = None) -> DoctorReport:
    """Try everything, within about ten seconds. What can't be had is in the report, and no error of this call.

    OSError where not even a temporary directory can be made to work in.
    """
    patient = patient or Patient(settings=Settings(state_dir=state_root()))
    settings = patient.settings
    began = time.monotonic()
    found = [Level(name, default=name == settings.isolation) for name in patient.levels]
    bench: Bench | None = None
    async with _working(settings.state_dir) as (directory, state):
        try:
            environment = await asyncio.to_thread(_interpreter, settings)
        except CellhouseError as error:
            for level in found:
                level.detail = f"there is no Python to run inside: {error}"
        else:
            with standing(directory) as args:
                bench = Bench(
                    environment, directory / place.WALLS, args, uids=settings.uids, make=patient.make
                )
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(patient.seconds), bench:
                        await _examine(settings, found, bench, directory / place.HOUSE)
        reports = _reports(found, bench)
        namespaces = bench.user_namespaces if bench is not None else NO_TIME
        machine = await asyncio.to_thread(look_at_machine, namespaces)
    environments = await asyncio.to_thread(look_at_environments, settings.environments)
    problems = find_problems(reports, environments, state)
    return DoctorReport(
        ok=not problems,
        problems=problems,
        version=__version__,
        time=rfc3339(SystemClock().now()),
        seconds=round(time.monotonic() - began, 3),
        default_isolation=settings.isolation,
        levels=reports,
        machine=machine,
        environments=environments,
        state=state,
    )


async def _examine(settings: Settings, found: Sequence[Level], bench: Bench, state: Path) -> None:
    """All levels beside each other: they wait more than they work."""
    # How a session comes to be is the same with less to import.
    light = replace(settings, state_dir=state, preload=(), spares=0, network=own_servers(settings.network))
    async with asyncio.TaskGroup() as group:
        for level in found:
            group.create_task(level.examine(bench))
        try:
            async with House(settings=light) as house, asyncio.TaskGroup() as sessions:
                for level in found:
                    sessions.create_task(level.examine_sessions(house, settings.start))
                    sessions.create_task(level.examine_policy(house))
        except (CellhouseError, OSError) as error:
            for level in found:
                level.sessions = no_sessions(f"the house for them failed: {error}")


def _reports(found: Sequence[Level], bench: Bench | None) -> tuple[LevelReport, ...]:
    unwalled = next((level.sessions for level in found if level.name == "none"), NO_SESSIONS)
    return tuple(
        level.report(bench.unwalled if bench is not None else lambda _: NO_TIME, unwalled) for level in found
    )


def _interpreter(settings: Settings) -> Environment:
    """The default environment, or else what this service itself runs in: walls can be shown with any Python."""
    try:
        return find_environment(DEFAULT_ENVIRONMENT, settings.environments)
    except CellhouseError:
        return read_environment(Path(sys.prefix), "service")


@contextlib.asynccontextmanager
async def _working(root: Path) -> AsyncIterator[tuple[Path, StateReport]]:
    """A directory to work in, where state lives if it can be made there; and what was learnt of that place."""
    with contextlib.ExitStack() as stack:
        error: OSError | None = None
        try:
            made = await asyncio.to_thread(stack.enter_context, place.working_in(root))
        except OSError as refused:
            error = refused
            instead = stack.enter_context(tempfile.TemporaryDirectory(prefix="cellhouse-doctor-"))
            made = await asyncio.to_thread(stack.enter_context, place.working_in(Path(instead)))
        yield made, look_at_state(root, error)
