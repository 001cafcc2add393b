"""Rows of the contract: interrupts that work, that are swallowed, that come too late; and time limits."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from cellhouse.environments import Environment
from cellhouse.model import Outcome, SessionState
from tests.contract.conftest import live_rig
from tests.contract.rig import Rig, plain
from tests.kernel.fake import FakeKernel, Sent
from tests.kernel.support import ipykernel, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SLEEPS = "import time\nprint('running', flush=True)\nwhile True: time.sleep(0.01)"


async def _sleeps(k: FakeKernel, _: Sent) -> None:
    k.busy()
    k.echo()
    k.stream("running\n")
    await k.interrupted.wait()
    k.interrupted.clear()
    k.raises("KeyboardInterrupt", "")


def _on(k: FakeKernel) -> None:
    k.echo()
    k.stream("on\n")
    k.done()


async def interrupted(rig: Rig) -> None:
    execution = await rig.submit(SLEEPS, _sleeps)
    await rig.printed(execution, "running")
    assert rig.session.interrupt()
    told = await rig.end_of(execution)
    assert told.result.outcome is Outcome.INTERRUPTED
    assert told.reason == "INTERRUPT_REQUESTED"
    assert told.error[0] == "KeyboardInterrupt"
    assert told.result.session_state is SessionState.PRESERVED
    assert told.result.stdout == "running\n"
    assert plain(await rig.run("print('on')", _on)) == (Outcome.OK, "on\n", "", "")


async def test_interrupt_by_signal(rig: Rig) -> None:
    await interrupted(rig)


@pytest_asyncio.fixture(loop_scope="module")
async def by_message(environment: Environment, tmp_path: Path) -> AsyncIterator[Rig]:
    launch = replace(ipykernel(environment), interrupt_mode="message")
    async with live_rig(tmp_path, launch, "ipykernel") as rig:
        yield rig


async def test_interrupt_by_message(by_message: Rig) -> None:
    """ipykernel alone: for a fake kernel there is no difference, which is the client's."""
    await interrupted(by_message)


async def test_interrupt_of_nothing(rig: Rig) -> None:
    await rig.run("print('on')", _on)
    assert not rig.session.interrupt()


async def test_interrupt_asked_for_before_the_code_runs(rig: Rig) -> None:
    """It is kept until the kernel runs the code: before, it would be ignored."""

    async def script(k: FakeKernel, request: Sent) -> None:
        await asyncio.sleep(0.02)
        assert not k.interrupted.is_set()
        await _sleeps(k, request)

    with rig.limits(settle_seconds=0.5):
        execution = await rig.submit(SLEEPS, script)
        await until(rig.session.interrupt)
    told = await rig.end_of(execution)
    assert told.result.outcome in (Outcome.INTERRUPTED, Outcome.NEVER_STARTED)


async def test_interrupt_swallowed(rig: Rig) -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.echo()
        k.stream("running\n")
        await k.interrupted.wait()
        k.stream("never mind\n")
        k.done()

    code = """
import time
try:
    print('running', flush=True)
    while True: time.sleep(0.01)
except KeyboardInterrupt:
    print('never mind')"""
    execution = await rig.submit(code, script)
    await rig.printed(execution, "running")
    rig.session.interrupt()
    told = await rig.end_of(execution)
    assert plain(told) == (Outcome.OK, "running\nnever mind\n", "", "")
    assert told.notices == ["INTERRUPT_IGNORED"]


async def test_interrupt_swallowed_and_something_else_raised(rig: Rig) -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.echo()
        k.stream("running\n")
        await k.interrupted.wait()
        k.raises("ValueError", "instead")

    code = """
import time
try:
    print('running', flush=True)
    while True: time.sleep(0.01)
except KeyboardInterrupt:
    raise ValueError('instead') from None"""
    execution = await rig.submit(code, script)
    await rig.printed(execution, "running")
    rig.session.interrupt()
    told = await rig.end_of(execution)
    assert told.result.outcome is Outcome.ERROR
    assert told.error == ("ValueError", "instead")
    assert told.notices == ["INTERRUPT_IGNORED"]


async def test_interrupt_racing_the_end(rig: Rig) -> None:
    """Either it ended the code or it came too late; both are told, and the next execution never hears of it."""

    async def script(k: FakeKernel, request: Sent) -> None:
        k.echo()
        if "last" in request.content["code"]:
            k.stream("last\n")
            await asyncio.sleep(0)
        else:
            before = k.interrupts
            await asyncio.sleep(0.001)
            k.stream(f"{k.interrupts != before}\n")
        k.done()

    for _ in range(6):
        with rig.limits(settle_seconds=0.5):
            execution = await rig.submit("print('last', flush=True)", script)
            await rig.printed(execution, "last")
        rig.session.interrupt()
        following = await rig.submit("print('on' == 'off')", script)
        told = await rig.end_of(execution)
        if told.result.outcome is Outcome.OK:
            assert told.notices in ([], ["INTERRUPT_IGNORED"])
        else:
            assert told.result.outcome is Outcome.INTERRUPTED
        assert plain(await rig.end_of(following)) == (Outcome.OK, "False\n", "", "")


async def test_interrupt_after_the_end_changes_nothing(rig: Rig) -> None:
    first = await rig.submit("print('on')", _on)
    told = await rig.end_of(first)
    rig.session.cancel(first)
    assert told.result == (await rig.end_of(first)).result
    assert told.notices == []


async def test_interrupt_that_ends_the_process(mortal: Rig) -> None:
    """Code that gave the signal its default back: the interrupt that was asked for worked, and cost the session."""

    async def script(k: FakeKernel, _: Sent) -> None:
        k.echo()
        k.stream("running\n")
        await k.interrupted.wait()
        k.die(signal=2)

    code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\n" + SLEEPS
    execution = await mortal.submit(code, script)
    await mortal.printed(execution, "running")
    mortal.session.interrupt()
    told = await mortal.end_of(execution)
    assert told.result.outcome is Outcome.INTERRUPTED
    assert told.reason == "INTERRUPT_REQUESTED"
    assert told.metadata["signalName"] == "SIGINT"
    assert told.result.session_state is SessionState.RESET


async def test_time_limit_that_an_interrupt_enforces(rig: Rig) -> None:
    told = await rig.run(SLEEPS, _sleeps, execution_timeout=0.3)
    assert told.result.outcome is Outcome.TIMED_OUT
    assert told.metadata == {"limitSeconds": "0.3", "endedBy": "interrupt"}
    assert told.result.session_state is SessionState.PRESERVED
    assert told.result.stdout == "running\n"
    assert plain(await rig.run("print('on')", _on)) == (Outcome.OK, "on\n", "", "")


async def test_time_limit_that_a_kill_enforces(mortal: Rig) -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.echo()
        k.stream("running\n")
        await asyncio.Event().wait()

    code = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print('running', flush=True)
while True: time.sleep(0.01)"""
    with mortal.limits(interrupt_grace=0.1):
        execution = await mortal.submit(code, script, execution_timeout=0.3)
        told = await mortal.end_of(execution)
    assert told.result.outcome is Outcome.TIMED_OUT
    assert told.metadata == {"limitSeconds": "0.3", "endedBy": "kill"}
    assert told.result.session_state is SessionState.RESET
    assert told.error[0] == "TimedOut"


@pytest.mark.parametrize(
    "call",
    [
        # The interpreter's lock is let go in the first, and held in the second; neither looks at signals.
        "numpy.lib.stride_tricks.as_strided(numpy.ones(1), (1 << 50,), (0,)).sum()",
        "sum(range(1 << 60))",
        # It stops itself, and all of its threads.
        "__import__('signal').raise_signal(19)",
    ],
)
async def test_time_limit_of_a_call_that_no_interrupt_ends(mortal: Rig, call: str) -> None:
    """Such as C code that goes on: it is killed after the grace, and nothing that was printed is lost."""

    async def script(k: FakeKernel, _: Sent) -> None:
        k.echo()
        k.stream("running\n")
        await asyncio.Event().wait()

    assert (await mortal.run("import numpy\nx = 5\nprint('on')", _on)).result.outcome is Outcome.OK
    with mortal.limits(interrupt_grace=0.1):
        told = await mortal.run(f"print('running')\n{call}", script, execution_timeout=1.0)
    assert told.result.outcome is Outcome.TIMED_OUT
    assert told.metadata == {"limitSeconds": "1", "endedBy": "kill"}
    assert told.result.session_state is SessionState.RESET
    assert told.error[0] == "TimedOut"
    if not mortal.ipykernel:  # whose own buffer dies with it
        assert told.result.stdout == "running\n"
    fresh = await mortal.run("print('fresh' if 'x' not in globals() else 'old')", _fresh)
    assert plain(fresh) == (Outcome.OK, "fresh\n", "", "")
    assert fresh.notices == ["FRESH_KERNEL"]


def _fresh(k: FakeKernel) -> None:
    k.echo()
    k.stream("fresh\n")
    k.done()


async def test_time_limit_that_is_swallowed(rig: Rig) -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.echo()
        await k.interrupted.wait()
        k.stream("never mind\n")
        k.done()

    code = (
        "import time\ntry:\n    while True: time.sleep(0.01)\nexcept KeyboardInterrupt: print('never mind')"
    )
    told = await rig.run(code, script, execution_timeout=0.3)
    assert plain(told) == (Outcome.OK, "never mind\n", "", "")
    assert told.notices == ["INTERRUPT_IGNORED"]
    assert "executionTimeout of 0.3 s" in (told.result.notices or ())[0].text
