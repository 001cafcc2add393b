"""Rows of the contract: payloads of a reply, a request that was aborted."""

import pytest

from cellhouse.model import Outcome, SessionState
from tests.contract.rig import Rig, Words, plain
from tests.kernel.fake import FakeKernel, Sent

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_payload_of_the_pager(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        k.stream("before\n")
        data = {"text/plain": "\x1b[31mDocstring:\x1b[39m The docs of f."}
        k.done(payload=[{"source": "page", "data": data, "start": 0}])

    await rig.run("def f():\n    'The docs of f.'", lambda k: k.done())
    told = await rig.run("print('before')\nf?", act)
    assert told.result.outcome is Outcome.OK
    assert told.result.stdout.startswith("before\n")
    assert "The docs of f." in told.result.stdout
    assert "\x1b" not in told.result.stdout
    assert told.sources() == [None, "pager"]


async def test_payload_of_set_next_input(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        k.done(payload=[{"source": "set_next_input", "text": "x = 1", "replace": False}])

    told = await rig.run("get_ipython().set_next_input('x = 1')", act)
    assert plain(told) == (Outcome.OK, "", "", "")
    assert told.notices == ["SET_NEXT_INPUT"]
    assert "x = 1" in (told.result.notices or ())[0].text


@pytest.mark.parametrize("word", ["quit()", "exit()"])
async def test_payload_of_ask_exit(mortal: Rig, word: str) -> None:
    """The code runs on to its end; then the process is awaited."""

    async def script(k: FakeKernel, _: Sent) -> None:
        k.echo()
        k.stream("on to the end\n")
        k.done(payload=[{"source": "ask_exit", "keepkernel": False}])
        k.die(exit_status=0)

    told = await mortal.run(f"{word}\nprint('on to the end')", script)
    assert told.result.outcome is Outcome.EXITED
    assert told.metadata == {"exitStatus": "0"}
    assert told.result.stdout == "on to the end\n"
    assert told.result.session_state is SessionState.RESET


async def test_payload_that_is_none(hostile: Rig) -> None:
    def act(k: Words) -> None:
        k.echo()
        k.stream("x\n")
        k.done(
            payload=[5, "page", {"source": "page"}, {"source": ["page"]}, {}, {"source": "page", "data": 5}]
        )

    assert plain(await hostile.act(act)) == (Outcome.OK, "x\n", "", "")


async def test_aborted(hostile: Rig) -> None:
    """The kernel would not run it: it never started. (ipykernel is never told to stop on an error.)"""

    def act(k: Words) -> None:
        k.busy()
        k.reply("aborted")
        k.idle()

    told = await hostile.act(act)
    assert told.result.outcome is Outcome.NEVER_STARTED
    assert told.reason == "KERNEL_ABORTED"
    assert told.result.session_state is SessionState.PRESERVED


async def test_aborted_never_by_an_exception_before(rig: Rig) -> None:
    """An exception stops nothing behind it."""

    async def script(k: FakeKernel, request: Sent) -> None:
        assert request.content["stop_on_error"] is False
        k.echo()
        if "1/0" in request.content["code"]:
            k.raises("ZeroDivisionError", "division by zero")
        else:
            k.stream("behind\n")
            k.done()

    first = await rig.submit("1/0", script)
    second = await rig.submit("print('behind')", script)
    assert (await rig.end_of(first)).result.outcome is Outcome.ERROR
    assert plain(await rig.end_of(second)) == (Outcome.OK, "behind\n", "", "")
