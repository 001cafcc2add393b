"""Rows of the contract: late output of threads, tasks and children."""

import asyncio

import pytest

from cellhouse.messages import RawText
from cellhouse.model import LateEvent, Outcome
from tests.contract.rig import Rig, plain
from tests.contract.truths import Told
from tests.kernel.fake import FakeKernel, Sent

pytestmark = pytest.mark.asyncio(loop_scope="module")

# What runs in the background waits for a file, so that it is late for sure.
WAIT = "import os, time\nwhile not os.path.exists({go!r}): time.sleep(0.002)\n"


def _background(text: str) -> object:
    """Says it when it is let go, as a child of the request that began it."""

    async def script(k: FakeKernel, request: Sent) -> None:
        k.echo()
        k.stream("now\n")
        k.done()
        await k.interrupted.wait()
        k.stream(text, parent=request.msg_id)
        k.display({"text/html": "<b>late</b>"}, parent=request.msg_id)
        k.error("ValueError", "late")

    return script


async def begin(rig: Rig, code: str, script: object) -> Told:
    (rig.content / "go").unlink(missing_ok=True)
    told = await rig.run(code, script)  # type: ignore[arg-type]
    assert told.result.outcome is Outcome.OK
    assert told.result.stdout == "now\n"
    return told


async def late_and_counted(rig: Rig, told: Told, text: str) -> LateEvent:
    """The late text; the frozen result says nothing of it, and the count does."""
    rig.let_go()
    event = await rig.late(told, text)
    assert told.log.finished == told.result
    assert told.result.late is None
    late = rig.session.late_output(told.log.uid)
    assert late is not None
    assert late.stdout_bytes >= len(text)
    return event


async def test_late_output_of_threads(rig: Rig) -> None:
    go = str(rig.content / "go")
    code = f"""
import threading
def later():
    {WAIT.format(go=go).replace(chr(10), chr(10) + "    ")}
    print('from a thread')
threading.Thread(target=later).start()
print('now')"""
    told = await begin(rig, code, _background("from a thread\n"))
    event = await late_and_counted(rig, told, "from a thread")
    assert event.seq > told.events[-1].seq


async def test_late_output_of_threads_while_another_execution_runs(
    rig: Rig, request: pytest.FixtureRequest
) -> None:
    """It goes to the execution that began the thread, and never to the one that runs."""
    if rig.ipykernel:
        why = "ipykernel gives what a thread prints to whatever runs; its word, the message's parent, decides"
        request.applymarker(pytest.mark.xfail(reason=why))
    go, gone = str(rig.content / "go"), str(rig.content / "gone")
    code = f"""
import threading
def later():
    {WAIT.format(go=go).replace(chr(10), chr(10) + "    ")}
    print('from a thread', flush=True)
    open({gone!r}, 'w').close()
threading.Thread(target=later).start()
print('now')"""
    (rig.content / "gone").unlink(missing_ok=True)
    told = await begin(rig, code, _background("from a thread\n"))

    async def script(k: FakeKernel, _: Sent) -> None:
        k.echo()
        k.stream("between\n")
        k.stream("from a thread\n", parent=told.log.uid)
        k.done()

    other = await rig.run(f"open({go!r}, 'w').close()\n{WAIT.format(go=gone)}\nprint('between')", script)
    assert plain(other) == (Outcome.OK, "between\n", "", "")
    await rig.late(told, "from a thread")


async def test_late_output_of_tasks(rig: Rig) -> None:
    go = str(rig.content / "go")
    code = f"""
import asyncio, os
async def later():
    while not os.path.exists({go!r}): await asyncio.sleep(0.002)
    print('from a task')
task = asyncio.get_running_loop().create_task(later())
print('now')"""
    told = await begin(rig, code, _background("from a task\n"))
    await late_and_counted(rig, told, "from a task")


async def test_late_output_of_children(rig: Rig) -> None:
    """A child writes to the descriptors, which tell nothing of its origin: the session's own log has it.

    The native kernel knows who started children, and gives the next execution descriptors of its own.
    """
    go = str(rig.content / "go")

    async def script(k: FakeKernel, _: Sent) -> None:
        k.echo()
        k.stream("now\n")
        k.done()
        await k.interrupted.wait()
        k.raw("from a child\n")

    code = f"""
import subprocess, sys
child = subprocess.Popen(['sh', '-c', 'while ! [ -e {go} ]; do sleep 0.01; done; echo from a child'])
print('now')"""
    told = await begin(rig, code, script)
    rig.let_go()
    if rig.native:
        await late_and_counted(rig, told, "from a child\n")
    else:
        async with asyncio.timeout(20):
            while not any("from a child" in entry["text"] for entry in rig.session_log):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        assert rig.session.late_output(told.log.uid) is None

    async def reap(k: FakeKernel, _: Sent) -> None:
        k.echo()
        k.stream("0\n")
        k.done()

    after = await rig.run("print(child.wait())", reap)
    assert plain(after) == (Outcome.OK, "0\n", "", "")


async def test_late_output_of_children_that_the_kernel_knows(own_fake: Rig) -> None:
    """Text that names its execution is that one's, whatever runs when it comes; none of it is anyone else's."""
    rig = own_fake

    async def script(k: FakeKernel, request: Sent) -> None:
        k.echo()
        k.put(RawText("stdout", b"now\n", parent_id=request.msg_id, printed=True))
        k.done()
        await k.interrupted.wait()
        k.put(RawText("stdout", b"from a child\n", parent_id=request.msg_id, printed=True))

    told = await begin(rig, "", script)
    assert told.sources() == [None]
    event = await late_and_counted(rig, told, "from a child\n")
    assert event.name == "stdout"

    async def meanwhile(k: FakeKernel, request: Sent) -> None:
        k.put(RawText("stdout", b"and on\n", parent_id=told.log.uid, printed=True))
        k.echo()
        k.put(RawText("stderr", b"and on\n", parent_id=told.log.uid, printed=True))
        k.put(RawText("stdout", b"another's\n", parent_id=request.msg_id, printed=True))
        k.done()
        k.put(RawText("stdout", b"to the end\n", parent_id=told.log.uid, printed=True))

    other = await rig.run("", meanwhile)
    assert plain(other) == (Outcome.OK, "another's\n", "", "")
    assert other.notices == []
    await rig.late(told, "to the end\n")
    late = rig.session.late_output(told.log.uid)
    assert late is not None
    assert (late.stdout_bytes, late.stderr_bytes) == (31, 7)
    assert rig.session_log == []


async def test_late_displays_that_the_kernel_dropped_are_told(own_fake: Rig) -> None:
    async def script(k: FakeKernel, request: Sent) -> None:
        k.echo()
        k.stream("now\n")
        k.done()
        await k.interrupted.wait()
        told = {"kind": "display_data", "reason": "OUTPUT_TOO_LARGE", "mimeTypes": ["text/html"]}
        k.say("display_dropped", {**told, "sizeBytes": 5_000, "limitBytes": 1_000}, parent=request.msg_id)
        k.stream("after the display\n", parent=request.msg_id)

    told = await begin(own_fake, "", script)
    await late_and_counted(own_fake, told, "after the display")
    shown = [event for event in told.log.read(told.events[-1].seq) if isinstance(event, LateEvent)]
    assert (shown[0].mime_types, shown[0].size_bytes) == (("text/html",), 5_000)
    late = own_fake.session.late_output(told.log.uid)
    assert late is not None
    assert late.displays == 1


async def test_late_displays_and_errors_are_told_and_not_kept(rig: Rig) -> None:
    go = str(rig.content / "go")
    code = f"""
import asyncio, os
async def later():
    while not os.path.exists({go!r}): await asyncio.sleep(0.002)
    display({{'text/html': '<b>late</b>'}}, raw=True)
    print('after the display')
task = asyncio.get_running_loop().create_task(later())
print('now')"""

    async def script(k: FakeKernel, request: Sent) -> None:
        k.echo()
        k.stream("now\n")
        k.done()
        await k.interrupted.wait()
        k.display({"text/html": "<b>late</b>"}, parent=request.msg_id)
        k.stream("after the display\n", parent=request.msg_id)

    told = await begin(rig, code, script)
    await late_and_counted(rig, told, "after the display")
    shown = [event for event in told.log.read(told.events[-1].seq) if isinstance(event, LateEvent)]
    assert shown[0].mime_types == ("text/html",)
    late = rig.session.late_output(told.log.uid)
    assert late is not None
    assert late.displays == 1
    assert not (rig.content / ".dsm_outputs" / told.log.uid).exists()
