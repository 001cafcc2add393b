"""What the native kernel relies on in CPython beyond its documentation, and what it does where that is missing.

Each body runs in the environment's own Python: 3.9 and later, nothing of this file, one fork each.
"""

from typing import Any

from tests.inside.versions.interpreter import inside
from tests.inside.versions.served import Inside

# --- CPython: threads ---


@inside
def test_a_thread_has_the_origin_of_who_starts_it(k: Inside) -> None:
    """threading reaches the platform through a module's global that we replace; _thread has its own function."""
    import _thread
    import concurrent.futures
    import threading
    import time

    origin = k.native("origin")
    started = []
    origin.carry(lambda: started.append(1))
    names = ("_start_joinable_thread", "_start_new_thread")
    assert any(getattr(threading, name, None) is not None for name in names)
    seen = []
    origin.origin.set("one")
    thread = threading.Thread(target=lambda: seen.append(origin.origin.get()))
    thread.start()
    thread.join()
    _thread.start_new_thread(lambda *args: seen.append((origin.origin.get(), *args)), (1,))
    while len(seen) < 2:
        time.sleep(0.001)
    timer = threading.Timer(0, lambda: seen.append(origin.origin.get()))
    timer.start()
    timer.join()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        origin.origin.set("two")
        assert pool.submit(origin.origin.get).result() == "two"
        assert list(pool.map(lambda _: origin.origin.get(), range(2))) == ["two", "two"]
    assert seen == ["one", ("one", 1), "one"]
    assert len(started) == 4
    assert origin.origin.get() == "two"


@inside
def test_a_thread_that_brings_its_context_keeps_it(k: Inside) -> None:
    """Thread(context=…) of Python 3.14; before, there is no `_context`."""
    import contextvars
    import sys
    import threading

    origin = k.native("origin")
    assert hasattr(threading.Thread(), "_context") == (sys.version_info >= (3, 14))
    origin.carry(lambda: None)
    if sys.version_info >= (3, 14):
        other = contextvars.ContextVar("other", default=0)
        context = contextvars.Context()
        context.run(other.set, 5)
        seen = []
        thread = threading.Thread(target=lambda: seen.append(other.get()), context=context)  # type: ignore[call-arg]
        thread.start()
        thread.join()
        assert seen == [5]


@inside
def test_without_the_names_of_threading_and_pools_threads_run_as_ever(k: Inside) -> None:
    """What is not there is not replaced; what a pool runs has the origin of who made its worker, or none."""
    import concurrent.futures
    import threading

    joinable = getattr(threading, "_start_joinable_thread", None)
    start = getattr(threading, "_start_new_thread", None)
    if joinable is not None:  # threading itself calls what there is
        k.without("threading._start_new_thread")
    else:
        k.without("threading._start_joinable_thread")
    work = concurrent.futures.thread._WorkItem
    k.without("concurrent.futures.thread._WorkItem")
    origin = k.native("origin")
    origin.carry(lambda: None)
    concurrent.futures.thread._WorkItem = work  # type: ignore[misc]  # what the pool goes on to use, under whatever name
    assert joinable is not None or threading._start_new_thread is not start  # type: ignore[attr-defined]
    origin.origin.set("one")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert pool.submit(origin.origin.get).result() == "one"


@inside
def test_a_work_item_with_slots_is_left_alone(k: Inside) -> None:
    import concurrent.futures.thread

    class WorkItem:
        __slots__ = ("task",)

        def __init__(self, task: object) -> None:
            self.task = task

        def run(self) -> None: ...

    before = WorkItem.__init__
    concurrent.futures.thread._WorkItem = WorkItem  # type: ignore[misc, assignment]
    k.native("origin").carry(lambda: None)
    assert WorkItem.__init__ is before


# --- CPython: processes ---


@inside
def test_each_start_of_a_process_is_seen(k: Inside) -> None:
    """fork through os.register_at_fork; subprocess, posix_spawn, system and popen through functions we replace."""
    import multiprocessing
    import os
    import subprocess
    import sys

    flushed = []
    in_fork = []
    children = k.native("children").Children(lambda: flushed.append(1), lambda: in_fork.append(1))
    children.watch()

    def fork() -> None:
        pid = os.fork()
        if pid == 0:
            os._exit(len(in_fork))
        assert os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 1

    def spawn() -> None:
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)

    def work() -> None:
        process = multiprocessing.get_context("fork").Process(target=int)
        process.start()
        process.join()

    def open_pipe() -> None:
        os.popen("true").close()

    for start in (
        fork,
        spawn,
        work,
        open_pipe,
        lambda: os.system("true"),
        lambda: subprocess.run(["true"]),
        lambda: subprocess.run("true", shell=True),
        lambda: subprocess.run(["true"], preexec_fn=int),
        lambda: subprocess.run(["true"], close_fds=False),
        lambda: subprocess.run(["true"], start_new_session=True, env={"PATH": os.environ["PATH"]}),
        lambda: os.spawnlp(os.P_WAIT, "true", "true"),
    ):
        children.started = False
        del flushed[:]
        start()
        assert children.started, (start, sys.version)
        assert flushed, start
    children.started = False
    with children.unseen():
        fork_pid = os.fork()
        if fork_pid == 0:
            os._exit(0)
        os.waitpid(fork_pid, 0)
    assert not children.started


@inside
def test_subprocess_has_one_of_the_names_that_we_watch(k: Inside) -> None:
    """subprocess keeps its own reference to _posixsubprocess.fork_exec, under one name or the other."""
    import _posixsubprocess
    import subprocess

    assert callable(_posixsubprocess.fork_exec)
    kept = [name for name, value in vars(subprocess).items() if value is _posixsubprocess.fork_exec]
    assert kept in ([], ["_fork_exec"]), kept
    assert kept or getattr(subprocess, "_posixsubprocess", None) is _posixsubprocess


@inside
def test_without_these_names_watching_goes_on(k: Inside) -> None:
    """A Python without one of them runs as ever; forks are still seen."""
    import os

    k.without("os.posix_spawnp", "signal.raise_signal", "os.killpg")
    children = k.native("children").Children(lambda: None, lambda: None)
    children.watch()
    assert not hasattr(os, "killpg")
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert children.started


@inside
def test_what_is_printed_goes_out_before_an_end_on_the_spot(k: Inside) -> None:
    """os._exit, abort, exec, kill: the attribute is looked up in os at each call."""
    import os
    import signal

    for function in (
        lambda: os._exit(0),
        lambda: os.kill(os.getpid(), signal.SIGKILL),
        lambda: os.execv("/bin/true", ["true"]),
        lambda: os.execvp("true", ["true"]),
        lambda: signal.raise_signal(signal.SIGKILL),
    ):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            children = k.native("children").Children(lambda fd=write: os.write(fd, b"x"), lambda: None)
            children.watch()
            function()  # type: ignore[no-untyped-call]
        os.close(write)
        os.waitpid(pid, 0)
        assert os.read(read, 10)[:1] == b"x", function
        os.close(read)


# --- CPython: the end ---


@inside
def test_the_end_waits_for_threads_and_runs_what_was_registered(k: Inside) -> None:
    """atexit._run_exitfuncs and threading._shutdown, as Python's own end calls them."""
    import atexit
    import os
    import threading
    import time
    import types

    assert callable(atexit._run_exitfuncs)
    assert callable(threading._shutdown)  # type: ignore[attr-defined]
    host_class = k.native("host").Host
    host = host_class.__new__(host_class)
    host.streams = types.SimpleNamespace(flush=lambda: None)
    read, write = os.pipe()

    def work() -> None:
        time.sleep(0.05)
        os.write(write, b"t")

    def leave() -> None:
        atexit.register(os.write, write, b"a")
        threading.Thread(target=work).start()
        host._leave()

    assert k.exit_code(leave) == 0
    os.close(write)
    assert os.read(read, 10) == b"ta"


@inside
def test_without_threading_shutdown_the_end_is_an_end(k: Inside) -> None:
    import atexit
    import os
    import types

    k.without("threading._shutdown")
    host_class = k.native("host").Host
    host = host_class.__new__(host_class)
    host.streams = types.SimpleNamespace(flush=lambda: None)
    read, write = os.pipe()

    def leave() -> None:
        atexit.register(os.write, write, b"a")
        host._leave()

    assert k.exit_code(leave) == 0
    assert os.read(read, 10) == b"a"


@inside
def test_without_run_exitfuncs_the_end_is_an_end(k: Inside) -> None:
    """It says what it could not do, and ends."""
    import types

    k.without("atexit._run_exitfuncs")
    host_class = k.native("host").Host
    host = host_class.__new__(host_class)
    host.streams = types.SimpleNamespace(flush=lambda: None)
    assert k.exit_code(host._leave) == 1


# --- CPython: streams ---


@inside
def test_print_takes_the_write_of_the_instance(k: Inside) -> None:
    """`front`: an attribute `write` of one text file is what print, writelines and tracebacks call."""
    import os
    import sys
    import traceback

    read, write = os.pipe()
    os.dup2(write, 9)
    stream = k.native("streams").Stream(9, "stdout")
    assert stream.name == "<stdout>"
    seen: Any = []
    stream.front(lambda text: len(seen.append(text) or text))
    print("a", "b", file=stream)
    stream.write("c")
    sys.stderr, kept = stream, sys.stderr
    try:
        traceback.print_exception(ValueError, ValueError("e"), None)
        sys.stdout, out = stream, sys.stdout
        print("d", end="")
        sys.stdout = out
    finally:
        sys.stderr = kept
    assert "".join(seen) == "a b\ncValueError: e\nd", seen
    stream.front(None)
    print("line", file=stream)
    assert os.read(read, 100) == b"line\n"  # written through when it ends
    print("part", end="", file=stream)
    assert stream.write_plainly("!") == 1
    stream.flush()
    assert os.read(read, 100) == b"part!"


@inside
def test_a_stream_that_was_closed_or_detached_is_known_for_it(k: Inside) -> None:
    """`buffer` raises or is None after detach; `closed` tells after close."""
    import os

    stream_class = k.native("streams").Stream
    os.dup2(2, 9)
    one, two, three = stream_class(9, "a"), stream_class(9, "b"), stream_class(9, "c")
    one.close()
    two.detach()
    assert not one.usable
    assert not two.usable
    assert three.usable
    unusable = k.native("streams")._unusable
    assert [unusable(stream) for stream in (one, two, three, None, object())] == [
        True,
        True,
        False,
        True,
        True,
    ]
    os.fstat(9)  # closefd=False


# --- CPython: asyncio ---


@inside
def test_the_loop_tells_what_is_left_to_do(k: Inside) -> None:
    """_selector, _ready and _scheduled; two descriptors are the loop's and ours."""
    import asyncio
    import os
    import socket

    loop = asyncio.new_event_loop()
    executions_class = k.native("execution").Executions
    executions = executions_class.__new__(executions_class)
    executions._loop = loop
    ours, _theirs = socket.socketpair()
    loop.add_reader(ours, int)
    assert len(loop._selector.get_map()) == 2  # type: ignore[attr-defined]
    assert not executions._others()
    handle = loop.call_later(100, int)
    assert executions._others()
    handle.cancel()
    loop._scheduled.clear()  # type: ignore[attr-defined]
    assert not executions._others()
    loop.call_soon(loop.stop)
    assert executions._others()
    loop.run_forever()
    assert not executions._others()
    read, _write = os.pipe()
    loop.add_reader(read, int)
    assert executions._others()
    loop.remove_reader(read)

    async def forever() -> None:
        await asyncio.Event().wait()

    task = loop.create_task(forever())
    assert executions._others()
    task.cancel()
    loop.run_until_complete(asyncio.wait([task]))
    assert not executions._others()


@inside
def test_the_loop_outlives_interrupts_and_current_tasks_are_told(k: Inside) -> None:
    """run_forever after KeyboardInterrupt, and asyncio.current_task(loop) from a signal handler."""
    import asyncio

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)

    def interrupted() -> None:
        raise KeyboardInterrupt

    seen = []

    async def work() -> None:
        seen.append(asyncio.current_task(loop))

    task = loop.create_task(work())
    assert task.get_loop() is loop
    loop.call_soon(interrupted)
    for _ in range(2):
        try:
            loop.call_soon(loop.stop)
            loop.run_forever()
        except KeyboardInterrupt:
            seen.append(None)
    assert task in seen
    assert None in seen
    assert asyncio.current_task(loop) is None


@inside
def test_a_traceback_can_be_made_anew(k: Inside) -> None:
    """types.TracebackType takes its four arguments, also for a line that is None."""
    import sys
    import types

    try:
        exec(compile("1 / 0", k.native("tracebacks")._HERE + "x.py", "exec"), {})
    except ZeroDivisionError:
        _, error, trace = sys.exc_info()
    assert isinstance(trace, types.TracebackType)
    assert trace.tb_next is not None
    kept = k.native("tracebacks").without_ours(error, trace)
    assert kept.tb_next is None
    assert kept.tb_frame.f_code.co_name == "test_a_traceback_can_be_made_anew"


@inside
def test_interrupt_main_is_a_signal_that_our_handler_gets(k: Inside) -> None:
    """What the helper thread does to deliver an interrupt that was put off."""
    interrupts = k.native("interrupts").Interrupts()
    interrupts.begin()
    interrupts.running = True
    with_in = []
    try:
        interrupts.enter()
        interrupts.pending = True
        assert interrupts.again()
        for _ in range(100):
            pass
        with_in.append(interrupts.pending)
        interrupts.__exit__()
    except KeyboardInterrupt:
        with_in.append("raised")
    assert with_in == [True, "raised"]
    assert not interrupts.pending
