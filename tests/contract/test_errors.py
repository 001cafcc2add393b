"""Rows of the contract: how code that raised is told from code that did not."""

import pytest

from cellhouse.model import ErrorEvent, Outcome
from tests.contract.rig import Rig, plain
from tests.kernel.fake import FakeKernel

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_error(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        k.stream("before\n")
        frames = ["\x1b[31m------\x1b[0m", "Cell In[1], line 2", "ZeroDivisionError: division by zero"]
        k.error("ZeroDivisionError", "division by zero", frames)
        k.reply_error("ZeroDivisionError", "division by zero", frames)
        k.idle()

    told = await rig.run("print('before')\n1/0", act)
    assert told.result.outcome is Outcome.ERROR
    assert told.error == ("ZeroDivisionError", "division by zero")
    assert told.reason == "CODE_RAISED"
    assert told.result.stdout == "before\n"
    assert told.result.stderr == ""
    assert told.result.execution_error is not None
    text = "\n".join(told.result.execution_error.traceback)
    assert "ZeroDivisionError: division by zero" in text
    assert "\x1b" not in text
    assert [(e.name, e.value) for e in told.events if isinstance(e, ErrorEvent)] == [told.error]


async def test_error_leaves_the_session_as_it_was(rig: Rig) -> None:
    await rig.run("kept = 5\n1/0", lambda k: k.raises("ZeroDivisionError", "division by zero"))

    def act(k: FakeKernel) -> None:
        k.echo()
        k.value({"text/plain": "5"})
        k.done()

    assert plain(await rig.run("kept", act)) == (Outcome.OK, "", "", "5")


async def test_error_that_is_a_system_exit_or_a_keyboard_interrupt_of_its_own(rig: Rig) -> None:
    for name, value in (("SystemExit", "3"), ("KeyboardInterrupt", "")):
        told = await rig.run(f"raise {name}({value})", lambda k, n=name, v=value: k.raises(n, v))
        assert told.result.outcome is Outcome.ERROR
        assert told.error == (name, value)


async def test_error_in_the_syntax(rig: Rig) -> None:
    told = await rig.run("1 +", lambda k: k.raises("SyntaxError", "invalid syntax (1, 4)"))
    assert told.result.outcome is Outcome.ERROR
    assert told.error[0] == "SyntaxError"


async def test_error_with_an_ok_reply(rig: Rig) -> None:
    """A traceback that the code had shown is output: it did not end the code."""

    def act(k: FakeKernel) -> None:
        k.echo()
        k.stream("before\n", "stderr")
        k.error("ValueError", "shown", ["Traceback (most recent call last)", "ValueError: shown"])
        k.stream("after\n", "stderr")
        k.value({"text/plain": "'end'"})
        k.done()

    code = """
import sys
print('before', file=sys.stderr, flush=True)
try:
    raise ValueError('shown')
except ValueError:
    get_ipython().showtraceback()
print('AFTER'.lower(), file=sys.stderr, flush=True)
'end'"""
    told = await rig.run(code, act)
    assert told.result.outcome is Outcome.OK
    assert told.result.result == "'end'"
    before, shown, after = (
        told.result.stderr.index(text) for text in ("before", "ValueError: shown", "after\n")
    )
    assert before < shown < after
    assert told.sources("stderr") == [None, "error"]  # whose it is, is known at the end


async def test_reply_error_without_an_iopub_error(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        k.reply_error("ValueError", "only in the reply", ["ValueError: only in the reply"])
        k.idle()

    if not rig.fake:
        await rig.run("shell = get_ipython(); shell._showtraceback = lambda *a, **k: None")
    told = await rig.run("raise ValueError('only in the reply')", act)
    if not rig.fake:
        await rig.run("del shell._showtraceback")
    assert told.result.outcome is Outcome.ERROR
    assert told.error == ("ValueError", "only in the reply")
    assert told.result.stderr == ""


async def test_two_errors(rig: Rig) -> None:
    """The first that was told of is the execution's; the other one is printed."""

    def act(k: FakeKernel) -> None:
        k.echo()
        k.error("ValueError", "first", ["Traceback", "ValueError: first"])
        k.error("KeyError", "'second'", ["Traceback", "KeyError: 'second'"])
        k.reply_error("KeyError", "'second'")
        k.idle()

    code = """
try:
    raise ValueError('first')
except ValueError:
    get_ipython().showtraceback()
raise KeyError('second')"""
    told = await rig.run(code, act)
    assert told.result.outcome is Outcome.ERROR
    assert told.error == ("ValueError", "first")
    assert "KeyError: 'second'" in told.result.stderr
    assert "ValueError: first" not in told.result.stderr


async def test_repr_that_raises(rig: Rig) -> None:
    """The value can't be shown: that exception's class is the execution's."""

    def act(k: FakeKernel) -> None:
        k.echo()
        frames = ["Traceback", "RuntimeError: no repr"]
        k.error("RuntimeError", "no repr", frames)
        k.reply("error", ename="NoneType", evalue="None", traceback=[])
        k.idle()

    code = "class R:\n def __repr__(self): raise RuntimeError('no repr')\nR()"
    told = await rig.run(code, act)
    assert told.result.outcome is Outcome.ERROR
    assert told.error == ("RuntimeError", "no repr")
    assert told.result.result == ""


async def test_rich_repr_that_raises_beside_a_good_one(rig: Rig) -> None:
    """It costs only that representation, and its traceback goes to stderr."""

    def act(k: FakeKernel) -> None:
        k.echo()
        k.error("RuntimeError", "no html", ["Traceback", "RuntimeError: no html"])
        k.value({"text/plain": "good"})
        k.reply("error", ename="NoneType", evalue="None", traceback=[])
        k.idle()

    code = """
class R:
    def __repr__(self): return 'good'
    def _repr_html_(self): raise RuntimeError('no html')
R()"""
    told = await rig.run(code, act)
    assert told.result.outcome is Outcome.OK
    assert told.result.result == "good"
    assert "RuntimeError: no html" in told.result.stderr


async def test_error_whose_str_raises(rig: Rig, request: pytest.FixtureRequest) -> None:
    if rig.ipykernel:
        why = "ipykernel calls str() itself, and names what that raised"
        request.applymarker(pytest.mark.xfail(reason=why))

    def act(k: FakeKernel) -> None:
        k.echo()
        k.error("Odd", "<unprintable Odd object>", ["Odd: <unprintable Odd object>"])
        k.reply_error("Odd", "<unprintable Odd object>")
        k.idle()

    code = """
class Odd(Exception):
    def __str__(self): raise RuntimeError('no str')
raise Odd()"""
    told = await rig.run(code, act)
    assert told.result.outcome is Outcome.ERROR
    assert told.error[0] == "Odd"


async def test_error_group_is_whole(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        text = "ExceptionGroup: both (2 sub-exceptions)\n  | ValueError: one\n  | KeyError: 'two'"
        k.error("ExceptionGroup", "both (2 sub-exceptions)", [text])
        k.reply_error("ExceptionGroup", "both (2 sub-exceptions)", [text])
        k.idle()

    told = await rig.run("raise ExceptionGroup('both', [ValueError('one'), KeyError('two')])", act)
    assert told.error == ("ExceptionGroup", "both (2 sub-exceptions)")
    assert told.result.execution_error is not None
    text = "\n".join(told.result.execution_error.traceback)
    assert "ValueError: one" in text
    assert "KeyError: 'two'" in text
