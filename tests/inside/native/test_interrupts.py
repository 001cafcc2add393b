"""SIGINT at any moment: it ends the user's code or nothing, and costs no reply."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellhouse.environments import Environment
from cellhouse.messages import Message, RawText
from cellhouse.model import DisplayEvent, Outcome
from tests.contract.native_rig import NativeKernels
from tests.contract.rig import Rig, plain
from tests.contract.truths import Told
from tests.kernel.support import items_until, until

STORM_SECONDS = 0.003


@contextlib.asynccontextmanager
async def storm(rig: Rig) -> AsyncIterator[None]:
    """The kernel's group gets a SIGINT every few milliseconds, whatever it is doing."""

    async def blow() -> None:
        while True:
            rig.kernels[-1].interrupt()
            await asyncio.sleep(STORM_SECONDS)

    blowing = asyncio.get_running_loop().create_task(blow())
    try:
        yield
    finally:
        blowing.cancel()
        await asyncio.wait([blowing])


async def interrupted(rig: Rig, code: str, sign: str = "running") -> Told:
    """`code` says the sign, and is interrupted then."""
    execution = await rig.started(code)
    await rig.printed(execution, sign)
    rig.session.interrupt()
    return await rig.end_of(execution)


async def test_a_storm_costs_no_reply(native: Rig) -> None:
    await native.run("import time")
    code = (
        "for i in range(10):\n    print(i)\n    display({'text/html': 'x'}, raw=True)\ntime.sleep(0.001)\n1"
    )
    ends = []
    async with storm(native):
        for _ in range(300):
            told = await native.run(code)
            assert told.result.outcome in (Outcome.OK, Outcome.ERROR), told.error
            if told.result.outcome is Outcome.ERROR:
                assert told.error[0] == "KeyboardInterrupt"
            ends.append(told.result.outcome)
    assert Outcome.ERROR in ends
    assert plain(await native.run("print('alive')")) == (Outcome.OK, "alive\n", "", "")


async def test_between_cells_it_is_harmless(native: Rig) -> None:
    await native.run("x = 5")
    for _ in range(200):
        native.kernels[0].interrupt()
    assert plain(await native.run("x")) == (Outcome.OK, "", "", "5")
    assert len(native.kernels) == 1


@pytest.mark.parametrize(
    "code",
    [
        "time.sleep(60)",
        "while True: pass",
        "re.match(r'(a+)+$', 'a' * 40 + 'b')",
        "threading.Event().wait()",
        "await asyncio.sleep(60)",
        "async def spin():\n    while True: pass\nawait spin()",
        "subprocess.run(['sleep', '60'])",
        "!sleep 60",
        "while True: print('x' * 50)",
        "while True: display({'text/html': 'x'}, raw=True)",
        "while True: sys.stderr.write('x')",
    ],
)
async def test_it_ends_the_code(native: Rig, code: str) -> None:
    await native.run("import asyncio, re, subprocess, sys, threading, time")
    told = await interrupted(native, f"print('running', flush=True)\n{code}")
    assert told.result.outcome is Outcome.INTERRUPTED
    assert told.error[0] == "KeyboardInterrupt"
    assert plain(await native.run("1")) == (Outcome.OK, "", "", "1")


async def test_it_ends_a_script(native: Rig) -> None:
    """IPython's %run tells a script's error itself, and its cell goes on; ipykernel has the same."""
    (native.content.parent / "endless.py").write_text("print('running', flush=True)\nwhile True: pass\n")
    told = await interrupted(native, "%run endless.py\nprint('goes on')")
    if told.result.outcome is Outcome.OK:
        assert "KeyboardInterrupt" in told.result.stderr
        assert told.result.stdout == "running\ngoes on\n"
    else:  # it landed between the script and the cell
        assert told.result.outcome is Outcome.INTERRUPTED
    assert plain(await native.run("1")) == (Outcome.OK, "", "", "1")


async def test_it_ends_input(native: Rig) -> None:
    execution = await native.started("input('name? ')", allow_stdin=True)
    await native.event(execution.log, lambda event: event.type == "inputRequested")
    native.session.interrupt()
    told = await native.end_of(execution)
    assert told.result.outcome is Outcome.INTERRUPTED


async def test_a_background_task_is_not_what_was_meant(native: Rig) -> None:
    """While the cell waits, a task of an earlier one goes on; the cell ends, and the task does not."""
    await native.run(
        "import asyncio\nturns = 0\nasync def turn():\n    global turns\n    while True:\n        turns += 1\n"
        "        await asyncio.sleep(0)\ntask = asyncio.create_task(turn())"
    )
    told = await interrupted(native, "print('running', flush=True)\nawait asyncio.Event().wait()")
    assert told.result.outcome is Outcome.INTERRUPTED
    code = "before = turns\nwhile turns < before + 10: await asyncio.sleep(0)\ntask.done(), task.cancel()"
    assert plain(await native.run(code)) == (Outcome.OK, "", "", "(False, True)")


async def test_code_that_swallows_it(native: Rig) -> None:
    code = "try:\n    print('running', flush=True)\n    while True: pass\nexcept BaseException:\n    print('swallowed')"
    told = await interrupted(native, code)
    assert told.result.outcome is Outcome.OK
    assert "INTERRUPT_IGNORED" in told.notices


async def test_the_figures_of_a_cell_are_whole_after_it(native: Rig) -> None:
    """An interrupt in the middle of many displays tears none of them."""
    code = "n = 0\nwhile True:\n    display({'text/html': 'x' * 10_000}, raw=True)\n    n += 1"
    execution = await native.started(code)
    await native.event(execution.log, lambda event: isinstance(event, DisplayEvent) and event.index > 5)
    native.session.interrupt()
    told = await native.end_of(execution)
    assert told.result.outcome is Outcome.INTERRUPTED
    count = int((await native.run("n")).result.result)
    outputs = told.result.rich_outputs
    assert count <= len(outputs) <= count + 1  # the interrupt may come between a display and the count
    assert {output.error_info for output in outputs} == {None}


async def test_one_that_was_put_off_breaks_off_what_waits_by_then(native: Rig) -> None:
    """It came while our own code was at work, and the user's is in a system call before it can be raised."""
    code = """
import os, signal, time
interrupts = get_ipython().sink.link.interrupts
interrupts.enter()
os.kill(os.getpid(), signal.SIGINT)
interrupts.leave()
time.sleep(60)"""
    told = await native.run(code)
    assert told.error[0] == "KeyboardInterrupt"


@pytest.mark.parametrize(
    ("fd", "write"),
    [
        (1, "libc.write(1, b'x' * 100, 100)"),
        (2, "libc.write(2, b'x' * 1_000_000, 1_000_000)"),
        (1, "libc.puts(b'x' * 1_000)"),
    ],
)
async def test_c_code_that_prints_with_the_interpreter_s_lock_while_nobody_reads(
    environment: Environment, tmp_path: Path, fd: int, write: str
) -> None:
    """The pipe is full, and no other thread can do anything: the system call fails, and Python goes on from there."""
    kernels = NativeKernels(environment, tmp_path)
    kernel = await kernels.start()
    code = f"""
import ctypes
libc = ctypes.PyDLL(None)
try:
    while True: {write}
except KeyboardInterrupt:
    open('interrupted', 'w').close()
    raise"""
    asked = kernel.send("shell", "execute_request", {"code": code})
    call = Path(f"/proc/{kernel._process.pid}/syscall") if kernel._process else Path()
    await until(lambda: kernel._inbox.held and call.read_text().split()[1:2] == [hex(fd)])
    kernel.interrupt()
    await until((tmp_path / "interrupted").exists)
    assert kernel._inbox.held
    items = await items_until(
        kernel, lambda item: isinstance(item, Message) and item.msg_type == "execute_reply"
    )
    (reply,) = [item for item in items if isinstance(item, Message) and item.msg_type == "execute_reply"]
    assert (reply.parent_id, reply.content["ename"]) == (asked, "KeyboardInterrupt")
    assert sum(len(item.data) for item in items if isinstance(item, RawText)) > 1_000_000
    await kernels.close()
