"""What the native kernel relies on in CPython's threads and processes beyond their documentation, and what it does where that is missing.

Each body runs in the environment's own Python: 3.9 and later, nothing of this file, one fork each.
"""

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
    host.interrupts = types.SimpleNamespace(depth=1)
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
    host.interrupts = types.SimpleNamespace(depth=1)
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
    host.interrupts = types.SimpleNamespace(depth=1)
    assert k.exit_code(host._leave) == 1
