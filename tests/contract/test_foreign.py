"""A kernel of another language, as its kernelspec describes it: the same truths, as far as it tells them."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from cellhouse.environments import Environment
from cellhouse.kernel import Launch
from cellhouse.model import Outcome
from tests.contract.conftest import live_rig
from tests.contract.rig import Rig, plain, undamaged

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bash(bash_environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    spec = bash_environment.kernels["bash"]
    launch = Launch(
        argv=spec.argv, env=spec.env, interrupt_mode=spec.interrupt_mode, resource_dir=str(spec.resource_dir)
    )
    async with live_rig(tmp_path_factory.mktemp("bash"), launch, "bash") as rig:
        rig.session.language = spec.language
        await rig.run("true")
        yield rig


async def test_text_of_another_language(bash: Rig) -> None:
    told = await bash.run("echo one; echo two")
    assert plain(told) == (Outcome.OK, "one\ntwo\n", "", "")
    undamaged(told)


async def test_variables_of_another_language_stay(bash: Rig) -> None:
    await bash.run("x=5")
    assert (await bash.run("echo $x")).result.stdout == "5\n"


async def test_a_failure_in_another_language(bash: Rig) -> None:
    told = await bash.run("echo before; (exit 3)")
    assert told.result.outcome is Outcome.ERROR
    assert told.result.stdout == "before\n"


async def test_an_interrupt_in_another_language(bash: Rig) -> None:
    # A program that is ready for it: bash itself loses one that comes while it begins a program.
    code = """sh -c 'trap "exit 1" INT; echo running; while :; do sleep 0.02; done'"""
    execution = await bash.submit(code)
    await bash.printed(execution, "running")
    assert bash.session.interrupt()
    told = await bash.end_of(execution)
    assert told.result.outcome is Outcome.INTERRUPTED
    assert plain(await bash.run("echo on")) == (Outcome.OK, "on\n", "", "")
