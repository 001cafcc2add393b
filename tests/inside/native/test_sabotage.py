"""Code that breaks what the kernel itself is made from: cells go on, or the session ends and says so."""

import os
import signal

import pytest

from cellhouse.kernel.native import NativeKernel
from cellhouse.model import Outcome
from tests.contract.rig import Rig, plain
from tests.inside.native.test_interrupts import interrupted
from tests.kernel.support import until

REPLACE = """
import {module}
def replaced(*args, **options):
    raise RuntimeError('{module} is replaced')
for name in '{names}'.split() or [name for name in dir({module}) if callable(getattr({module}, name))]:
    assert hasattr({module}, name)
    setattr({module}, name, replaced)
del replaced"""


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("os", "write read getpid open close dup dup2 fstat fork pipe _exit kill memfd_create"),
        ("select", ""),
        ("time", "monotonic time sleep perf_counter"),
        ("json", "dumps loads dump load JSONEncoder JSONDecoder"),
        ("struct", ""),
        ("threading", ""),
        ("_thread", "get_ident start_new_thread allocate_lock RLock"),
        ("signal", "signal getsignal pthread_kill raise_signal setitimer"),
        ("socket", "socket socketpair CMSG_SPACE"),
        ("mmap", ""),
        ("base64", ""),
        ("math", "isfinite floor"),
        ("traceback", ""),
        ("selectors", ""),
    ],
)
async def test_a_module_whose_functions_are_replaced(native: Rig, module: str, names: str) -> None:
    await native.run("import asyncio")
    assert plain(await native.run(REPLACE.format(module=module, names=names))) == (Outcome.OK, "", "", "")
    told = await native.run("print('on')\ndisplay({'image/png': b'x'}, raw=True)\n[1.5, float('nan')]")
    assert plain(told) == (Outcome.OK, "on\n", "", "[1.5, nan]")
    assert [output.mime_types for output in told.result.rich_outputs] == [("image/png",)]
    assert (await native.run("1 / 0")).error == ("ZeroDivisionError", "division by zero")
    told = await interrupted(native, "print('running')\nwhile True: pass")
    assert told.result.outcome is Outcome.INTERRUPTED
    assert plain(await native.run("await asyncio.sleep(0.001)\nprint('on')")) == (Outcome.OK, "on\n", "", "")
    assert len(native.kernels) == 1


async def test_a_time_that_stands_still(native: Rig) -> None:
    """As libraries that freeze the time do it."""
    code = "import time\nfor name in ('monotonic', 'time', 'perf_counter'): setattr(time, name, lambda: 5.0)\ntime.sleep = lambda _: None"
    await native.run(code)
    told = await native.run("import asyncio\nawait asyncio.sleep(0.05)\ntime.monotonic()")
    assert plain(told) == (Outcome.OK, "", "", "5.0")
    execution = await native.started("print('seen', end='')\nwhile True: pass")
    await native.printed(execution, "seen")
    native.session.interrupt()
    assert (await native.end_of(execution)).result.outcome is Outcome.INTERRUPTED


async def test_a_signal_s_handler_that_raises_between_cells_is_told_and_ends_nothing(native: Rig) -> None:
    code = """
import os, signal
def raises(*_): raise TimeoutError('too late')
signal.signal(signal.SIGALRM, raises)
x = 5"""
    await native.run(code)
    kernel = native.kernels[0]
    assert isinstance(kernel, NativeKernel)
    assert kernel._process is not None
    os.kill(kernel._process.pid, signal.SIGALRM)
    await until(lambda: "TimeoutError: too late" in str(native.session_log))
    assert plain(await native.run("x")) == (Outcome.OK, "", "", "5")
    assert len(native.kernels) == 1


async def test_handlers_that_raise_at_any_moment_cost_no_reply(native: Rig) -> None:
    """They come in the code, and before and after it: there each is told, and the cell ends as it would."""
    code = """
import signal
class Enough(Exception): pass
left = 120
def raises(*_):
    global left
    left -= 1
    if left > 0: raise Enough
    signal.setitimer(signal.ITIMER_REAL, 0)
signal.signal(signal.SIGALRM, raises)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)"""
    await native.run(code)
    raised = 0
    while True:
        told = await native.run("for i in range(20): print(i)\ndisplay({'text/html': 'x'}, raw=True)\nleft")
        if told.result.outcome is Outcome.OK:
            if int(told.result.result) <= 0:
                break
        else:
            # A library in whose middle it comes may make an error of its own of it.
            assert "Enough" in repr(told.result), told.error
            raised += 1
    assert raised
    assert plain(await native.run("left <= 0")) == (Outcome.OK, "", "", "True")
    assert len(native.kernels) == 1


async def test_a_stream_of_the_user_s_whose_flush_does_not_end_can_be_interrupted(native: Rig) -> None:
    code = """
import sys
class Stuck:
    closed = False
    def write(self, text): pass
    def flush(self):
        print('flushing', file=sys.__stdout__)
        while True: pass
sys.stdout = Stuck()"""
    told = await interrupted(native, code, "flushing")
    assert told.result.outcome is Outcome.INTERRUPTED
    await native.run("sys.stdout = sys.__stdout__")
    assert plain(await native.run("print('on')")) == (Outcome.OK, "on\n", "", "")


@pytest.mark.parametrize("error", ["RuntimeError", "SystemExit"])
async def test_a_stream_of_the_user_s_that_raises_whatever_is_asked(native: Rig, error: str) -> None:
    code = f"""
import sys
class Bad:
    def __getattr__(self, name): raise {error}(name)
sys.stderr = Bad()"""
    await native.run(code)
    assert plain(await native.run("print('on')\n5")) == (Outcome.OK, "on\n", "", "5")
    assert len(native.kernels) == 1


async def test_a_kernel_whose_own_work_fails_ends_and_says_why(native: Rig) -> None:
    """Its parts were taken from it: that is no execution without an end."""
    told = await native.run("print('before')\nget_ipython().sink.link._queued = None")
    assert told.result.outcome is Outcome.EXITED
    assert told.metadata["exitStatus"] == "1"
    assert told.result.stdout == "before\n"
    assert "AttributeError: 'NoneType' object has no attribute" in told.result.stderr
    assert plain(await native.run("5")) == (Outcome.OK, "", "", "5")
