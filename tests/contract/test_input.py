"""Rows of the contract: input that is allowed, refused, unanswered."""

import pytest

from cellhouse.model import FailedPrecondition, InputRequestedEvent, Outcome
from tests.contract.rig import Rig, plain
from tests.kernel.fake import FakeKernel, Sent

pytestmark = pytest.mark.asyncio(loop_scope="module")

EOF = "\x04"


async def _asks(k: FakeKernel, _: Sent) -> None:
    k.busy()
    k.echo()
    answer = await k.ask("name? ")
    if answer == EOF:
        k.raises("EOFError", "")
        return
    k.stream(f"hello {answer}\n")
    k.done()


async def test_input_request_allowed(rig: Rig) -> None:
    execution = await rig.submit("print('hello', input('name? '))", _asks, allow_stdin=True)
    event = await rig.event(execution.log, lambda event: isinstance(event, InputRequestedEvent))
    assert isinstance(event, InputRequestedEvent)
    assert (event.prompt, event.password) == ("name? ", False)
    rig.session.provide_input(execution, "Ada \ud83d\ude00 Lovelace")
    with pytest.raises(FailedPrecondition):
        rig.session.provide_input(execution, "twice")
    told = await rig.end_of(execution)
    assert told.result.outcome is Outcome.OK
    assert told.result.stdout.startswith("hello Ada")
    assert told.kinds == ["started", "inputRequested", "stream"]


async def test_input_request_for_a_password(rig: Rig) -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.echo()
        k.stream(f"{len(await k.ask('secret: ', password=True))}\n")
        k.done()

    code = "import getpass; print(len(getpass.getpass('secret: ')))"
    execution = await rig.submit(code, script, allow_stdin=True)
    event = await rig.event(execution.log, lambda event: isinstance(event, InputRequestedEvent))
    assert isinstance(event, InputRequestedEvent)
    assert (event.prompt, event.password) == ("secret: ", True)
    rig.session.provide_input(execution, "xyz")
    told = await rig.end_of(execution)
    assert told.result.stdout == "3\n"
    assert "xyz" not in "".join(event.to_json() for event in told.events)


async def test_input_request_refused(rig: Rig) -> None:
    """At once, with an error that says so: ipykernel's own, or the end of input with a notice."""
    told = await rig.run("input('name? ')", _asks)
    assert told.result.outcome is Outcome.ERROR
    assert "inputRequested" not in told.kinds
    if rig.fake:
        assert told.error[0] == "EOFError"
        assert told.notices == ["INPUT_REFUSED"]
    else:
        assert told.error[0] == "StdinNotImplementedError"


async def test_input_request_unanswered(rig: Rig) -> None:
    code = "try:\n    input('name? ')\nexcept EOFError:\n    print('nobody')"

    async def script(k: FakeKernel, _: Sent) -> None:
        k.echo()
        assert await k.ask("name? ") == EOF
        k.stream("nobody\n")
        k.done()

    with rig.limits(input_wait=0.05):
        told = await rig.run(code, script, allow_stdin=True)
    assert plain(told) == (Outcome.OK, "nobody\n", "", "")
    assert told.notices == ["INPUT_UNANSWERED"]


async def test_input_that_nothing_asked_for_is_refused(rig: Rig) -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.echo()
        k.stream("running\n")
        await k.interrupted.wait()
        k.raises("KeyboardInterrupt", "")

    code = "import time\nprint('running', flush=True)\nwhile True: time.sleep(0.01)"
    execution = await rig.submit(code, script, allow_stdin=True)
    await rig.printed(execution, "running")
    with pytest.raises(FailedPrecondition, match="not waiting for input"):
        rig.session.provide_input(execution, "x")
    assert rig.session.interrupt()
    told = await rig.end_of(execution)
    with pytest.raises(FailedPrecondition, match="not waiting for input"):
        rig.session.provide_input(execution, "x")
    assert told.result.outcome is Outcome.INTERRUPTED


async def test_input_that_is_interrupted(rig: Rig) -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.echo()
        k.say("input_request", {"prompt": "? ", "password": False}, channel="stdin")
        await k.interrupted.wait()
        k.raises("KeyboardInterrupt", "Interrupted by user")

    execution = await rig.submit("input('? ')", script, allow_stdin=True)
    await rig.event(execution.log, lambda event: isinstance(event, InputRequestedEvent))
    rig.session.interrupt()
    told = await rig.end_of(execution)
    assert told.result.outcome is Outcome.INTERRUPTED
    assert plain(await rig.run("print('on')", _on))[:2] == (Outcome.OK, "on\n")


def _on(k: FakeKernel) -> None:
    k.echo()
    k.stream("on\n")
    k.done()
