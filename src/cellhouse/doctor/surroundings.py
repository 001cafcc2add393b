"""Kernel environments and the state directory, as they are found."""

import os
from collections.abc import Sequence
from pathlib import Path

from cellhouse.doctor.report import EnvironmentReport, StateReport
from cellhouse.environments import DEFAULT_ENVIRONMENT, NATIVE_KERNEL, Environment, find_environment, survey
from cellhouse.environments.ipython import LEAST_IPYTHON, is_enough
from cellhouse.model import CellhouseError

STATE_REMEDY = "name a directory of this user's own in CELLHOUSE_STATE_DIR"


def look_at_environments(search: Sequence[Path] | None = None) -> tuple[EnvironmentReport, ...]:
    """All there are, the default one first, which is told of also where there is none."""
    try:
        found = survey(search)
    except CellhouseError as error:
        return (_missing(DEFAULT_ENVIRONMENT, error.message),)
    reports = [_told(environment) for environment in found.environments]
    reports += [_missing(name, why) for name, why in found.broken.items()]
    if not any(report.default for report in reports):
        try:
            find_environment(DEFAULT_ENVIRONMENT, search)
        except CellhouseError as error:
            reports.append(_missing(DEFAULT_ENVIRONMENT, error.message))
    return tuple(sorted(reports, key=lambda report: not report.default))


def _told(environment: Environment) -> EnvironmentReport:
    native = is_enough(environment.ipython)
    missing: list[str] = []
    kernel = None
    try:
        kernel = environment.kernel().name
    except CellhouseError as error:
        missing.append(error.message)
    if kernel is not None and not native:
        least = ".".join(map(str, LEAST_IPYTHON))
        missing.append(
            f"no kernel {NATIVE_KERNEL!r}: install ipython {least} or later into {environment.prefix}"
        )
    missing += [f"kernel {name!r}: {why}" for name, why in environment.broken_kernels.items()]
    return EnvironmentReport(
        name=environment.name,
        default=environment.name == DEFAULT_ENVIRONMENT,
        usable=kernel is not None,
        prefix=str(environment.prefix),
        kernel=kernel,
        native=native,
        ipython=environment.ipython or None,
        kernels=(*((NATIVE_KERNEL,) if native else ()), *environment.kernels),
        missing="; ".join(missing) or None,
    )


def _missing(name: str, why: str) -> EnvironmentReport:
    return EnvironmentReport(
        name=name, default=name == DEFAULT_ENVIRONMENT, usable=False, native=False, missing=why
    )


def look_at_state(root: Path, error: OSError | None) -> StateReport:
    """The directory, after a try to make one in it, which has failed with `error` or not at all."""
    if error is not None:
        return StateReport(
            directory=str(root), writable=False, detail=f"{error.strerror or error}", remedy=STATE_REMEDY
        )
    disk = os.statvfs(root)
    return StateReport(directory=str(root), writable=True, free_bytes=disk.f_bavail * disk.f_frsize)
