"""Each row of the contract over a fake kernel, over ipykernel and over the native one, or over a process that says what
neither ever would."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from cellhouse.environments import Environment
from cellhouse.kernel import Kernel, Launch
from tests.contract.native_rig import native_rig
from tests.contract.rig import Rig
from tests.kernel.fake import FakeKernel
from tests.kernel.support import Kernels, ipykernel

HOSTILE_KERNEL = Path(__file__).with_name("hostile_kernel.py")


def hostile_launch() -> Launch:
    argv = [sys.executable, str(HOSTILE_KERNEL), "{connection_file}"]
    return Launch(argv=argv, env={}, name="hostile")


@asynccontextmanager
async def fake_rig(directory: Path) -> AsyncIterator[Rig]:
    async def make() -> Kernel:
        return FakeKernel(made.play)

    made = Rig(directory, "fake", make)
    await made.open()
    yield made
    await made.close()


@asynccontextmanager
async def live_rig(directory: Path, launch: Launch, variant: str) -> AsyncIterator[Rig]:
    """Its kernels are processes, started by the session when it first needs one."""
    kernels = Kernels(directory)

    async def make() -> Kernel:
        return await kernels.start(launch)

    rig = Rig(directory, variant, make)
    await rig.open()
    yield rig
    await rig.close()
    await kernels.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def loop_of_the_module() -> None:
    """The loop is there before any test begins, so that none is blamed for it."""


# one kernel for all tests of a module that leave it as it was; it is up before any of them begins


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_ipykernel(
    environment: Environment, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Rig]:
    directory = tmp_path_factory.mktemp("shared")
    async with live_rig(directory, ipykernel(environment), "ipykernel") as rig:
        await rig.run("None")
        yield rig


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_process(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with live_rig(tmp_path_factory.mktemp("shared"), hostile_launch(), "process") as rig:
        await rig.run("k.done()")
        yield rig


@pytest_asyncio.fixture(loop_scope="module", params=["fake", "ipykernel", "native"])
async def rig(
    request: pytest.FixtureRequest, shared_ipykernel: Rig, environment: Environment, tmp_path: Path
) -> AsyncIterator[Rig]:
    """The native kernel is one's own: it has other pipes after a test that started a process."""
    if request.param == "ipykernel":
        yield shared_ipykernel
        return
    native = request.param == "native"
    async with native_rig(tmp_path, environment) if native else fake_rig(tmp_path) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module", params=["fake", "process"])
async def hostile(request: pytest.FixtureRequest, shared_process: Rig, tmp_path: Path) -> AsyncIterator[Rig]:
    """For what ipykernel can't be made to do: the second kernel is a process of ours behind the same client."""
    if request.param == "process":
        yield shared_process
        return
    async with fake_rig(tmp_path) as made:
        yield made


# a kernel for one test that ends it


@pytest_asyncio.fixture(loop_scope="module")
async def own_fake(tmp_path: Path) -> AsyncIterator[Rig]:
    async with fake_rig(tmp_path) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module", params=["fake", "ipykernel", "native"])
async def mortal(
    request: pytest.FixtureRequest, environment: Environment, tmp_path: Path
) -> AsyncIterator[Rig]:
    if request.param == "fake":
        context = fake_rig(tmp_path)
    elif request.param == "native":
        context = native_rig(tmp_path, environment)
    else:
        context = live_rig(tmp_path, ipykernel(environment), "ipykernel")
    async with context as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module", params=["fake", "process"])
async def mortal_hostile(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    fake = request.param == "fake"
    async with fake_rig(tmp_path) if fake else live_rig(tmp_path, hostile_launch(), "process") as made:
        yield made
