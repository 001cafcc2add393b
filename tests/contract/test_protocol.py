"""Rows of the contract: what a kernel must not do and does. Where code can make ipykernel do it, ipykernel does it; the rest
is done by a process of ours behind the same client, since ipykernel never would."""

import sys
from pathlib import Path

import pytest

from cellhouse.kernel import Kernel, KernelStartFailed, Launch, life
from cellhouse.model import LateEvent, Outcome, SessionState
from tests.contract.conftest import live_rig
from tests.contract.rig import SAY, Rig, Words, plain, say_next, undamaged
from tests.kernel.fake import FakeKernel, Sent

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_no_idle(hostile: Rig) -> None:
    def act(k: Words) -> None:
        k.busy()
        k.echo()
        k.stream("out\n")
        k.reply()

    with hostile.limits(settle_seconds=0.2):
        told = await hostile.act(act)
    assert plain(told) == (Outcome.OK, "out\n", "", "")
    assert told.notices == ["IOPUB_LOST"]


async def test_no_reply(hostile: Rig) -> None:
    """Whether it succeeded is not known, and silence is no success."""

    def act(k: Words) -> None:
        k.busy()
        k.echo()
        k.stream("out\n")
        k.idle()

    with hostile.limits(settle_seconds=0.2):
        told = await hostile.act(act)
    assert told.result.outcome is Outcome.ERROR
    assert told.error[0] == "ReplyLost"
    assert told.reason == "KERNEL_LOST"
    assert told.notices == ["REPLY_LOST"]
    assert told.result.stdout == "out\n"


async def test_no_reply_after_an_error(hostile: Rig) -> None:
    def act(k: Words) -> None:
        k.echo()
        k.error("ValueError", "told on iopub")
        k.idle()

    with hostile.limits(settle_seconds=0.2):
        told = await hostile.act(act)
    assert told.error == ("ValueError", "told on iopub")
    assert told.notices == ["REPLY_LOST"]


@pytest.mark.parametrize("status", ["", "OK", "fine", None, 5, ["ok"], {"ok": 1}])
async def test_a_reply_that_says_nothing_is_no_success(hostile: Rig, status: object) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        k.reply(status)
        k.idle()

    told = await hostile.run(f"k.echo(); k.reply({status!r}); k.idle()", act)
    assert told.result.outcome is Outcome.ERROR
    assert told.error[0] == "ReplyLost"


async def test_a_reply_that_cannot_be_read_is_no_success(hostile: Rig) -> None:
    if hostile.fake:

        def fake(k: FakeKernel) -> None:
            k.echo()
            k.say("execute_reply", {}, channel="shell", defect="deeper than 200 levels")
            k.idle()

        told = await hostile.run("", fake)
    else:
        code = "k.echo(); k.say('execute_reply', b'{\"a\":' + b'[' * 300 + b']' * 300 + b'}', channel='shell'); k.idle()"
        told = await hostile.run(code)
    assert told.result.outcome is Outcome.ERROR
    assert told.error[0] == "ReplyLost"
    assert told.notices == ["MALFORMED_MESSAGE"]


async def test_idle_before_output(rig: Rig) -> None:
    """As long as the reply has not come, output is the execution's."""

    def act(k: FakeKernel) -> None:
        k.echo()
        k.idle()
        k.stream("after idle\n")
        k.reply()

    code = f"{SAY}\nsay('status', {{'execution_state': 'idle'}})\nprint('after idle')"
    told = await rig.run(code, act)
    assert plain(told) == (Outcome.OK, "after idle\n", "", "")


async def test_output_after_the_end_is_late(rig: Rig) -> None:
    async def script(k: FakeKernel, _: Sent) -> None:
        k.echo()
        k.done()
        await k.interrupted.wait()
        k.stream("after the end\n")

    go = str(rig.content / "go")
    code = f"""{SAY}
import os, threading, time
parent = get_ipython().kernel.get_parent()['header']['msg_id']
def later():
    while not os.path.exists({go!r}): time.sleep(0.002)
    say('stream', {{'name': 'stdout', 'text': 'after the end\\n'}}, parent=parent)
threading.Thread(target=later).start()
None"""
    told = await rig.run(code, script)
    assert plain(told) == (Outcome.OK, "", "", "")
    rig.let_go()
    late = await rig.late(told, "after the end")
    assert (late.name, late.seq) == ("stdout", told.events[-1].seq + 1)


async def test_two_replies(hostile: Rig) -> None:
    """The first counts."""

    def act(k: Words) -> None:
        k.echo()
        k.reply_error("ValueError", "first")
        k.reply()
        k.idle()

    told = await hostile.act(act)
    assert told.error == ("ValueError", "first")

    def other(k: Words) -> None:
        k.echo()
        k.reply()
        k.reply_error("ValueError", "second")
        k.idle()

    assert plain(await hostile.act(other)) == (Outcome.OK, "", "", "")
    assert plain(await hostile.act(say_next)) == (Outcome.OK, "next\n", "", "")


async def test_forged_parents(rig: Rig) -> None:
    """What names another execution is never this one's: a known one's is late there, any other goes to the session's log."""

    def nothing(k: FakeKernel) -> None:
        k.echo()
        k.done()

    earlier = await rig.run("None", nothing)

    def act(k: FakeKernel) -> None:
        k.echo()
        k.stream("for the earlier one\n", parent=earlier.log.uid)
        k.stream("for nobody\n", parent="nobody")
        k.display({"text/html": "x", "text/plain": 5}, parent="")
        k.idle(parent=earlier.log.uid)
        k.stream("mine\n")
        k.done()

    code = f"""{SAY}
say('stream', {{'name': 'stdout', 'text': 'for the earlier one\\n'}}, parent={earlier.log.uid!r})
say('stream', {{'name': 'stdout', 'text': 'for nobody\\n'}}, parent='nobody')
say('display_data', {{'data': {{'text/html': 'x', 'text/plain': 5}}, 'metadata': {{}}}}, parent='')
say('status', {{'execution_state': 'idle'}}, parent={earlier.log.uid!r})
print('mine')"""
    told = await rig.run(code, act)
    assert plain(told) == (Outcome.OK, "mine\n", "", "")
    assert told.result.rich_outputs == ()
    await rig.late(earlier, "for the earlier one")
    entries = [(entry["kind"], entry["text"]) for entry in rig.session_log]
    assert ("stream", "for nobody\n") in entries
    assert any(kind == "display_data" and "text/html" in text for kind, text in entries)


async def test_wrong_signature(rig: Rig) -> None:
    if rig.native:
        pytest.skip("nothing is signed: its socket has no name by which anyone else could reach it")

    def act(k: FakeKernel) -> None:
        k.echo()
        k.trouble("MALFORMED_MESSAGE", "dropped a message on iopub: wrong signature")
        k.stream("good\n")
        k.done()

    code = """
kernel = get_ipython().kernel
kernel.iopub_socket.send_multipart([b'x', b'<IDS|MSG>', b'0' * 64, b'{}', b'{}', b'{}', b'{}'])
kernel.iopub_socket.send_multipart([b'no message at all'])
print('good')"""
    told = await rig.run(code, act)
    assert plain(told) == (Outcome.OK, "good\n", "", "")
    assert set(told.notices) == {"MALFORMED_MESSAGE"}
    assert any("wrong signature" in notice.text for notice in told.result.notices or ())


async def test_wrong_signature_of_a_reply(hostile: Rig) -> None:
    if hostile.fake:

        def fake(k: FakeKernel) -> None:
            k.echo()
            k.trouble("MALFORMED_MESSAGE", "dropped a message on shell: wrong signature")
            k.idle()

        with hostile.limits(settle_seconds=0.2):
            told = await hostile.run("", fake)
    else:
        code = "k.echo(); k.say('execute_reply', {'status': 'ok'}, channel='shell', key=b'other'); k.idle()"
        with hostile.limits(settle_seconds=0.2):
            told = await hostile.run(code)
    assert told.error[0] == "ReplyLost"
    assert {"MALFORMED_MESSAGE", "REPLY_LOST"} <= set(told.notices)


async def test_deep_json(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        k.say("display_data", {}, defect="deeper than 200 levels")
        k.stream("good\n")
        k.done()

    code = f"""{SAY}
deep = b'[' * 5000 + b']' * 5000
say('display_data', None, raw=b'{{"data": {{"application/json": ' + deep + b'}}, "metadata": {{}}}}')
print('good')"""
    told = await rig.run(code, act)
    assert plain(told) == (Outcome.OK, "good\n", "", "")
    assert told.notices == ["MALFORMED_MESSAGE"]
    assert "deeper than 200 levels" in (told.result.notices or ())[0].text
    undamaged(told)


async def test_nan_json(rig: Rig) -> None:
    """Where a value is JSON, NaN is none: that representation is dropped, the one beside it is kept."""

    def act(k: FakeKernel) -> None:
        k.echo()
        k.display({"application/json": {"n": float("nan")}})
        k.display({"application/json": [float("inf")], "text/html": "<b>good</b>"})
        k.done()

    code = f"""{SAY}
say('display_data', None, raw=b'{{"data": {{"application/json": {{"n": NaN}}}}, "metadata": {{}}}}')
say('display_data', None, raw=b'{{"data": {{"application/json": [Infinity], "text/html": "<b>good</b>"}}, "metadata": {{}}}}')"""
    told = await rig.run(code, act)
    assert told.result.outcome is Outcome.OK
    assert told.drop(0) == "INVALID_OUTPUT"
    assert told.result.rich_outputs[1].mime_types == ("text/html",)


async def test_128_mib_frame(mortal: Rig) -> None:
    """A kernel that sends more than that is ended, with the cause and the figures; what came before is kept."""

    def act(k: FakeKernel) -> None:
        k.echo()
        k.stream("before\n")
        size, limit = str((129 << 20) + 1000), str(128 << 20)
        k.trouble("MESSAGE_SIZE", "the kernel sent too much", fatal=True, sizeBytes=size, limitBytes=limit)

    show = "display({'text/html': 'x' * (129 << 20)}, raw=True)"
    if mortal.native:  # which drops such a display itself, unless the code goes behind its back
        show = f"{SAY}\nsay('display_data', {{'data': {{'text/html': 'x' * (129 << 20)}}}})"
    told = await mortal.run(f"print('before', flush=True)\n{show}", act)
    assert told.result.outcome is Outcome.RESOURCE_KILLED
    assert told.reason == "MESSAGE_SIZE"
    assert int(told.metadata["sizeBytes"]) > 129 << 20
    assert told.metadata["limitBytes"] == str(128 << 20)
    assert told.result.session_state is SessionState.RESET
    assert told.result.stdout == "before\n"


async def test_iopub_closed(mortal_hostile: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "CLOSE_GRACE_SECONDS", 0.01)
    if mortal_hostile.fake:

        def fake(k: FakeKernel) -> None:
            k.echo()
            k.stream("before\n")
            k.trouble("CHANNEL_CLOSED", "the kernel closed its iopub channel", fatal=True)

        told = await mortal_hostile.run("", fake)
    else:
        told = await mortal_hostile.run("k.echo(); k.stream('before\\n'); k.close_iopub()")
    assert told.result.outcome is Outcome.KERNEL_DIED
    assert told.reason == "KERNEL_LOST"
    assert "closed its iopub channel" in told.error[1]
    assert told.metadata == {"cause": "the kernel closed its iopub channel"}
    assert told.result.stdout == "before\n"
    assert told.result.session_state is SessionState.RESET


@pytest.mark.parametrize("variant", ["fake", "process"])
async def test_kernel_that_never_starts(tmp_path: Path, variant: str) -> None:
    argv = [sys.executable, "-I", "-S", "-c", "import sys; sys.exit('no room in here')"]
    launch = Launch(argv=argv, env={}, name="hopeless")
    async with live_rig(tmp_path, launch, variant) as rig:
        if variant == "fake":

            async def fail() -> Kernel:
                raise KernelStartFailed("kernel 'hopeless' ended with status 1", log="no room in here\n")

            rig._make_kernel = fail
        first = await rig.submit("1")
        second = await rig.submit("2")
        for execution in (first, second):
            told = await rig.end_of(execution)
            assert told.result.outcome is Outcome.NEVER_STARTED
            assert told.reason == "KERNEL_START_FAILED"
            assert told.metadata == {"log": "no room in here\n"}
            assert "no room in here" in told.error[1]
            assert told.kinds == []


async def test_kernel_that_never_starts_for_a_fault_of_ours(own_fake: Rig) -> None:
    """Whatever goes wrong in here, the execution has an end and the session lives."""
    make = own_fake._make_kernel

    async def fail() -> Kernel:
        own_fake._make_kernel = make
        raise ZeroDivisionError("a fault in the house")

    own_fake._make_kernel = fail
    told = await own_fake.run("1", lambda k: k.done())
    assert told.result.outcome is Outcome.NEVER_STARTED
    assert told.reason == "KERNEL_START_FAILED"
    assert "errorId" in told.error[1]
    assert plain(await own_fake.run("2", say_next)) == (Outcome.OK, "next\n", "", "")


async def test_output_lost(hostile: Rig) -> None:
    """A gap in the message counter is a loss, and is said."""
    if hostile.fake:

        def fake(k: FakeKernel) -> None:
            k.echo()
            k.lost = 3
            k.done()

        told = await hostile.run("", fake)
    else:
        told = await hostile.run("k.echo(); k.number += 3; k.stream('x'); k.done()")
    assert told.result.outcome is Outcome.OK
    assert told.notices == ["OUTPUT_LOST"]
    assert "3 messages" in (told.result.notices or ())[0].text
    assert not any(isinstance(event, LateEvent) for event in told.events)
