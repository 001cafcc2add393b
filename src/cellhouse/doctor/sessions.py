"""Two sessions of one runtime, as `House` starts them: whether the first works, and whether the second is apart from it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cellhouse.doctor.programs import Probe, source
from cellhouse.doctor.report import SessionsReport
from cellhouse.doctor.running import VARIABLE, NoAnswer, Told, answered
from cellhouse.environments import NATIVE_KERNEL
from cellhouse.house import House
from cellhouse.model import (
    CellhouseError,
    DeadlineExceeded,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    Isolation,
    Outcome,
    RuntimeSpec,
)
from cellhouse.sandbox import LANDLOCK_LEAST_ABI, landlock_abi

NATIVE_REMEDY: Final = "install ipython 8.18 or later into the environment"
SECONDS: Final = 6.0
"""For one cell, the start of its kernel included."""

FIRST: Final = """
import os, socket
_listener = socket.socket(socket.AF_UNIX)
_listener.bind("\\0" + {name!r})
_listener.listen(8)
print(os.getpid())
6 * 7
"""
ARGUMENTS: Final = "import os; os.environ[{name!r}] = {value!r}\n"
START: Final = """
print("zygote" if b"zygote.py" in open("/proc/self/cmdline", "rb").read(65536) else "fresh")
"""

PROBES: Final = (
    Probe(
        "landlock",
        "sibling-signal",
        "signal another session of the runtime",
        "os.kill(ARGS['sibling'], 0)",
        ("EPERM",),
    ),
    Probe(
        "landlock",
        "sibling-abstract-socket",
        "connect to an abstract socket of another session",
        "socket.socket(socket.AF_UNIX).connect('\\0' + ARGS['name'])",
        ("EPERM",),
    ),
)


@dataclass(frozen=True, slots=True)
class Sessions:
    """What they told: the report, the runtime's own one of its walls, and what each of `PROBES` answered."""

    report: SessionsReport
    isolation: Isolation | None
    answers: dict[str, Told]


async def examine_sessions(house: House, level: str, wanted: str) -> Sessions:
    """Start a runtime of this level with all defaults, run a cell in each of two sessions, and delete it again.

    `wanted` is how native kernels are to start here, by the settings: "zygote" or "fresh".
    """
    answers: dict[str, Told] = {}
    try:
        runtime = await house.create_runtime(RuntimeSpec(isolation=level))
    except CellhouseError as error:
        return Sessions(SessionsReport(works=False, detail=error.message), None, answers)
    about = {"environment": runtime.environment, "kernel": runtime.kernel}
    try:
        first = await run_cell(house, f"{runtime.name}/sessions/first", FIRST.format(name=runtime.name))
        works = first.outcome is Outcome.OK and first.result == "42"
        if not works:
            return Sessions(
                SessionsReport(works=False, detail=_why(first), **about), runtime.isolation, answers
            )
        second = f"{runtime.name}/sessions/second"
        start = (await run_cell(house, second, START)).stdout.strip()
        for probe in PROBES:
            answers[probe.name] = await _told(
                house, second, probe, {"sibling": int(first.stdout), "name": runtime.name}
            )
        detail, remedy = _start_told(start, runtime.kernel, wanted)
        report = SessionsReport(works=True, start=start or None, detail=detail, remedy=remedy, **about)
        return Sessions(report, house.get_runtime(runtime.name).isolation, answers)
    except (CellhouseError, ValueError) as error:
        report = SessionsReport(works=False, detail=f"the sessions could not be examined: {error}", **about)
        return Sessions(report, runtime.isolation, answers)
    finally:
        await house.delete_runtime(runtime.name)


async def run_cell(house: House, session: str, code: str) -> ExecuteCodeResult:
    """Within `SECONDS`, the start of its kernel included. Raises DeadlineExceeded and what else a call can."""
    request = ExecuteCodeRequest(
        code=code, session=session, execution_timeout=SECONDS, wait_timeout=SECONDS, store_history=False
    )
    return await (await house.execute(request))


async def _told(house: House, session: str, probe: Probe, args: Mapping[str, Any]) -> Told:
    value = json.dumps(dict(args))
    try:
        result = await run_cell(house, session, ARGUMENTS.format(name=VARIABLE, value=value) + source(probe))
    except DeadlineExceeded as error:
        return NoAnswer(error.message)
    if result.outcome is not Outcome.OK:
        return NoAnswer(_why(result))
    try:
        return answered(result.stdout, probe)
    except NoAnswer as error:
        return error


def _why(result: ExecuteCodeResult) -> str:
    error = result.execution_error
    return f"{result.outcome}: {error.name}: {error.value}" if error is not None else f"{result.outcome}"


def _start_told(start: str, kernel: str | None, wanted: str) -> tuple[str, str | None]:
    if start == "zygote":
        return "forked from a zygote", None
    if wanted == "fresh":
        return "started fresh, as the settings say", None
    if kernel != NATIVE_KERNEL:
        return f"started fresh: kernel {kernel!r} can't be forked", NATIVE_REMEDY
    if (abi := landlock_abi()) < LANDLOCK_LEAST_ABI:
        why = f"this kernel has no Landlock scopes (ABI {LANDLOCK_LEAST_ABI}, here {abi}) to keep forks apart"
        return f"started fresh: {why}", "use Linux 6.12 or later with Landlock on"
    return "started fresh, though there was to be a zygote: none could be forked from", None
