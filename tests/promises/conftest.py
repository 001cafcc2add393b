"""One house for each module: real walls, real kernels, the default environment."""

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import pytest_asyncio

from cellhouse import House
from cellhouse.environments import Environment
from cellhouse.model import CaptureLimits, SessionLimits
from cellhouse.runtime import Settings
from tests.promises.support import Caller
from tests.runtime.support import quiet

THREADS = 2


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """A house as it comes, but for limits that a test can reach, and nothing that comes to be during a later one."""
    settings = Settings(
        state_dir=tmp_path_factory.mktemp("promise") / "state",
        environments=(environment.prefix.parent,),
        capture=CaptureLimits(bundle_bytes=1 << 20, artifacts=100, content_entries=250),
        session=SessionLimits(interrupt_grace=0.5),
        spares=0,
    )
    await warm_threads()
    async with House(settings=settings) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def caller(house: House) -> Caller:
    """Somebody with a session of their own, in which a kernel runs."""
    runtime = await house.create_runtime()
    made = Caller(house, runtime.name, f"{runtime.name}/sessions/main")
    await made.run("None")
    await quiet(house)
    return made


async def warm_threads() -> None:
    """The loop's threads, made before a test could be taken for the one that left them."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(THREADS))
    meeting = threading.Barrier(THREADS)
    await asyncio.gather(*(asyncio.to_thread(meeting.wait) for _ in range(THREADS)))
