"""Rows of the contract: a kernel that dies, by each signal and by exit; what is told of it, and to whom."""

import signal

import pytest

from cellhouse.model import LimitHit, Outcome, SessionState
from tests.contract.rig import Rig, plain
from tests.kernel.fake import FakeKernel, Sent

pytestmark = pytest.mark.asyncio(loop_scope="module")

OVER_IPYKERNEL = ["SIGSEGV", "SIGABRT", "SIGKILL", "SIGTERM", "SIGFPE"]
"""Each costs a kernel; tests/kernel goes through more of them over one that starts in no time."""
OTHERS = ["SIGBUS", "SIGILL", "SIGHUP", "SIGXCPU", "SIGSYS", "SIGUSR1"]


def _death(by: str) -> tuple[str, object]:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.echo()
        k.stream("before\n")
        k.raw("to the descriptor\n", "stderr")
        k.die(signal=int(getattr(signal, by)))

    code = f"""
import os, signal
print('before', flush=True)
input()
os.write(2, b'to the descriptor\\n')
signal.signal(signal.{by}, signal.SIG_DFL) if '{by}' != 'SIGKILL' else None
os.kill(os.getpid(), signal.{by})
import time; time.sleep(100)"""
    return code, script


async def died_by(rig: Rig, by: str) -> None:
    code, script = _death(by)
    execution = await rig.submit(code, script, allow_stdin=True)  # type: ignore[arg-type]
    await rig.printed(execution, "before")
    if not rig.fake:
        await rig.event(execution.log, lambda event: event.type == "inputRequested")
        rig.session.provide_input(execution, "")
    told = await rig.end_of(execution)
    assert told.result.outcome is Outcome.KERNEL_DIED
    assert told.reason == "KERNEL_SIGNALLED"
    assert told.metadata == {"signal": str(int(getattr(signal, by))), "signalName": by}
    assert by in told.error[1]
    assert told.result.session_state is SessionState.RESET
    assert told.result.stdout == "before\n"
    assert told.result.stderr == "to the descriptor\n"
    assert told.notices == []


@pytest.mark.parametrize("by", OVER_IPYKERNEL)
async def test_death_by_signal(mortal: Rig, by: str) -> None:
    await died_by(mortal, by)


@pytest.mark.parametrize("by", OTHERS)
async def test_death_by_another_signal(own_fake: Rig, by: str) -> None:
    await died_by(own_fake, by)


async def test_death_whose_cause_cannot_be_learnt(own_fake: Rig) -> None:
    """Over a fake kernel: a process without walls always tells."""

    def act(k: FakeKernel) -> None:
        k.echo()
        k.die()

    told = await own_fake.run("", act)
    assert told.result.outcome is Outcome.KERNEL_DIED
    assert told.reason == "KERNEL_LOST"
    assert told.metadata == {}


@pytest.mark.parametrize(
    ("hit", "outcome", "reason", "metadata"),
    [
        (
            LimitHit("memory", 1000, 1200),
            Outcome.OUT_OF_MEMORY,
            "MEMORY",
            {"limitBytes": "1000", "peakBytes": "1200"},
        ),
        (
            LimitHit("processes", 16, 20),
            Outcome.RESOURCE_KILLED,
            "PROCESSES",
            {"limitProcesses": "16", "peakProcesses": "20"},
        ),
        (LimitHit("content", 1000), Outcome.RESOURCE_KILLED, "DISK", {"limitBytes": "1000"}),
    ],
)
async def test_death_by_a_limit(
    own_fake: Rig, hit: LimitHit, outcome: Outcome, reason: str, metadata: dict[str, str]
) -> None:
    """Over a fake kernel; tests/promises meets each limit for real."""

    async def script(k: FakeKernel, _: Sent) -> None:
        k.echo()
        k.stream("before\n")
        k.die(signal=9, limit_hit=hit)

    execution = await own_fake.submit("", script)
    waiting = await own_fake.submit("", script)
    told = await own_fake.end_of(execution)
    assert (told.result.outcome, told.result.session_state) == (outcome, SessionState.RESET)
    assert (told.reason, told.metadata) == (reason, metadata)
    assert f"{hit.limit}" in told.error[1]
    assert told.result.stdout == "before\n"
    behind = await own_fake.end_of(waiting)
    assert (behind.result.outcome, behind.reason) == (Outcome.NEVER_STARTED, "SESSION_RESET")
    assert f"{hit.limit}" in behind.error[1]


async def test_death_by_exit(mortal: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        k.raw("last words\n")
        k.die(exit_status=3)

    told = await mortal.run("import os\nos.write(1, b'last words\\n')\nos._exit(3)", act)
    assert told.result.outcome is Outcome.EXITED
    assert told.reason == "KERNEL_EXITED"
    assert told.metadata == {"exitStatus": "3"}
    assert plain(told)[1] == "last words\n"
    assert told.result.session_state is SessionState.RESET


async def test_death_ends_what_waits_and_only_what_is_submitted_later_gets_the_fresh_kernel(
    mortal: Rig,
) -> None:
    async def script(k: FakeKernel, request: Sent) -> None:
        k.echo()
        if "_exit" in request.content["code"]:
            k.stream("running\n")
            k.die(exit_status=1)
            return
        k.stream("fresh\n")
        k.done()

    first = await mortal.submit("x = 1\nimport os\nos._exit(1)", script)
    waiting = await mortal.submit("print('waited')", script)
    assert (await mortal.end_of(first)).result.outcome is Outcome.EXITED
    behind = await mortal.end_of(waiting)
    assert behind.result.outcome is Outcome.NEVER_STARTED
    assert behind.reason == "SESSION_RESET"
    assert behind.result.session_state is SessionState.RESET
    fresh = await mortal.run("print('fresh' if 'x' not in globals() else 'old')", script)
    assert plain(fresh) == (Outcome.OK, "fresh\n", "", "")
    assert fresh.notices == ["FRESH_KERNEL"]
    assert "status 1" in (fresh.result.notices or ())[0].text
    assert (await mortal.run("print('fresh')", script)).notices == []


async def test_death_a_moment_before_the_next_code(own_fake: Rig) -> None:
    """The session has not heard of it yet: the code is sent to a fresh kernel all the same, once."""

    def act(k: FakeKernel) -> None:
        k.echo()
        k.stream("fresh\n")
        k.done()

    await own_fake.run("", act)
    (old,) = own_fake.kernels
    assert isinstance(old, FakeKernel)
    execution = await own_fake.submit("", act)
    old.die(signal=9)
    told = await own_fake.end_of(execution)
    assert plain(told) == (Outcome.OK, "fresh\n", "", "")
    assert told.notices == ["FRESH_KERNEL"]
    assert len(old.sent) == 1


async def test_death_while_the_variables_of_an_execution_are_set(own_fake: Rig) -> None:
    """The code was not sent, so it never started, and what comes next gets a fresh kernel."""

    async def script(k: FakeKernel, request: Sent) -> None:
        if request.content["silent"]:
            k.die(signal=11)
        else:
            k.echo()
            k.done()

    await own_fake.run("", script)
    (old,) = own_fake.kernels
    assert isinstance(old, FakeKernel)
    old.plays_silent = True
    told = await own_fake.run("", script, environment={"A": "b"})
    assert told.result.outcome is Outcome.NEVER_STARTED
    assert told.reason == "SESSION_RESET"
    assert "signal 11" in told.error[1]
    fresh = await own_fake.run("", script)
    assert fresh.result.outcome is Outcome.OK
    assert fresh.notices == ["FRESH_KERNEL"]


async def test_death_while_the_variables_of_an_execution_are_put_back(own_fake: Rig) -> None:
    silents = 0

    async def script(k: FakeKernel, request: Sent) -> None:
        nonlocal silents
        if not request.content["silent"]:
            k.echo()
        else:
            silents += 1
            if silents == 2:
                k.die(exit_status=1)
        k.done()

    await own_fake.run("", script)
    (old,) = own_fake.kernels
    assert isinstance(old, FakeKernel)
    old.plays_silent = True
    told = await own_fake.run("", script, environment={"A": "b"})
    assert told.result.outcome is Outcome.OK
    assert told.result.session_state is SessionState.RESET
    assert told.notices == ["OPTION_NOT_SUPPORTED"]
    fresh = await own_fake.run("", script)
    assert fresh.result.outcome is Outcome.OK
    assert fresh.notices == ["FRESH_KERNEL"]
    assert len(own_fake.kernels) == 2


async def test_restart_ends_what_runs(mortal: Rig) -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.echo()
        k.stream("running\n")
        await k.interrupted.wait()

    execution = await mortal.submit("import time\nprint('running', flush=True)\ntime.sleep(100)", script)
    await mortal.printed(execution, "running")
    await mortal.session.restart()
    told = await mortal.end_of(execution)
    assert told.result.outcome is Outcome.INTERRUPTED
    assert told.reason == "SESSION_RESET"
    assert told.result.session_state is SessionState.RESET
    assert told.result.stdout == "running\n"
