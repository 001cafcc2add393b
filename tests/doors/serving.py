"""A service over fake kernels as a process of its own, for clients that would hold up the loop: `serving.py DIRECTORY`."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from cellhouse.doors.limits import DoorLimits
from cellhouse.doors.server import ServeOptions, Service
from cellhouse.model import ExecuteCodeRequest
from tests.runtime.kernels import FakeKernel
from tests.runtime.support import FakeWorld, settings

RUNTIME, SESSION, EXECUTION = "here", "main", "one"
CODE = "print a\nerr b\ndisplay <b>\nvalue 2"

WORDS = {"print", "err", "value", "display", "raise"}
"""What code of a client's may do here; whatever else it says does nothing."""


def tame(patch: pytest.MonkeyPatch) -> None:
    act = FakeKernel._act

    async def only_words(self: FakeKernel, word: str, rest: str) -> dict[str, Any]:
        return await act(self, word, rest) if word in WORDS else {}

    patch.setattr(FakeKernel, "_act", only_words)


async def serve(directory: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        FakeWorld().install(patch)
        tame(patch)
        limits = DoorLimits(drain_seconds=0, grace_seconds=1, requests_per_second=1e6, burst=1_000_000)
        made = settings(directory, max_runtimes=100_000, max_sessions=100_000)
        async with Service(made, ServeOptions(limits=limits)) as service:
            house = service.tenants.open[0].house
            await house.create_runtime(runtime_id=RUNTIME)
            session = f"runtimes/{RUNTIME}/sessions/{SESSION}"
            await (
                await house.execute(ExecuteCodeRequest(code=CODE, session=session, execution_id=EXECUTION))
            )
            print(service.url, flush=True)
            await service.run()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
