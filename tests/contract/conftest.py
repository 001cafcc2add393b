"""Each row of the contract over a fake kernel and over ipykernel, or over a process that says what ipykernel never would."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from cellhouse.environments import Environment
from cellhouse.kernel import Kernel, Launch
from tests.contract.rig import Rig
from tests.kernel.fake import FakeKernel
from tests.kernel.support import Kernels, ipykernel

HOSTILE_KERNEL = Path(__file__).with_name("hostile_kernel.py")


def _fake(directory: Path) -> Rig:
    async def make() -> Kernel:
        return FakeKernel(made.play)

    made = Rig(directory, "fake", make)
    return made


def live(directory: Path, kernels: Kernels, launch: Launch, variant: str) -> Rig:
    async def make() -> Kernel:
        return await kernels.start(launch)

    return Rig(directory, variant, make)


async def _opened(rig: Rig, kernels: Kernels | None = None) -> AsyncIterator[Rig]:
    await rig.open()
    yield rig
    await rig.close()
    if kernels is not None:
        await kernels.close()


async def _shared(rig: Rig, kernels: Kernels, first: str) -> AsyncIterator[Rig]:
    """Its kernel is up before any test begins, so that none is blamed for it."""
    await rig.open()
    await rig.run(first)
    yield rig
    await rig.close()
    await kernels.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def loop_of_the_module() -> None:
    """The loop is there before any test begins, so that none is blamed for it."""


# one kernel for all tests of a module that leave it as it was


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_ipykernel(
    environment: Environment, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Rig]:
    directory = tmp_path_factory.mktemp("shared")
    kernels = Kernels(directory)
    async for rig in _shared(live(directory, kernels, ipykernel(environment), "ipykernel"), kernels, "None"):
        yield rig


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_process(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    directory = tmp_path_factory.mktemp("shared")
    kernels = Kernels(directory)
    async for rig in _shared(live(directory, kernels, hostile_launch(), "process"), kernels, "k.done()"):
        yield rig


@pytest_asyncio.fixture(loop_scope="module")
async def own_fake(tmp_path: Path) -> AsyncIterator[Rig]:
    directory = tmp_path / "fake"
    directory.mkdir()
    async for rig in _opened(_fake(directory)):
        yield rig


@pytest.fixture(params=["fake", "ipykernel"])
def rig(request: pytest.FixtureRequest, shared_ipykernel: Rig, own_fake: Rig) -> Rig:
    return own_fake if request.param == "fake" else shared_ipykernel


@pytest.fixture(params=["fake", "process"])
def hostile(request: pytest.FixtureRequest, shared_process: Rig, own_fake: Rig) -> Rig:
    """For what ipykernel can't be made to do: the second kernel is a process of ours behind the same client."""
    return own_fake if request.param == "fake" else shared_process


# a kernel for one test that ends it


@pytest_asyncio.fixture(loop_scope="module")
async def own_ipykernel(environment: Environment, tmp_path: Path) -> AsyncIterator[Rig]:
    directory = tmp_path / "ipykernel"
    directory.mkdir()
    kernels = Kernels(directory)
    async for rig in _opened(live(directory, kernels, ipykernel(environment), "ipykernel"), kernels):
        yield rig


@pytest_asyncio.fixture(loop_scope="module")
async def own_process(tmp_path: Path) -> AsyncIterator[Rig]:
    directory = tmp_path / "process"
    directory.mkdir()
    kernels = Kernels(directory)
    async for rig in _opened(live(directory, kernels, hostile_launch(), "process"), kernels):
        yield rig


@pytest.fixture(params=["fake", "ipykernel"])
def mortal(request: pytest.FixtureRequest, own_ipykernel: Rig, own_fake: Rig) -> Rig:
    return own_fake if request.param == "fake" else own_ipykernel


@pytest.fixture(params=["fake", "process"])
def mortal_hostile(request: pytest.FixtureRequest, own_process: Rig, own_fake: Rig) -> Rig:
    return own_fake if request.param == "fake" else own_process


def hostile_launch() -> Launch:
    argv = [sys.executable, str(HOSTILE_KERNEL), "{connection_file}"]
    return Launch(argv=argv, env={}, name="hostile")
