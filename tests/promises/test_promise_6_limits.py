"""Promise 6, of the limits: what hits one ends for that cause, with its output, and is taken for nothing else."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest
import pytest_asyncio

from cellhouse import House, Settings
from cellhouse.environments import Environment
from cellhouse.model import (
    MIB,
    EndReason,
    ExecuteCodeResult,
    InvalidArgument,
    LimitReport,
    NoticeReason,
    Outcome,
    RuntimeLimits,
    RuntimeSpec,
    SessionState,
)
from cellhouse.sandbox.privileged import Here
from tests.promises.conftest import warm_threads
from tests.promises.support import SECONDS, Caller
from tests.runtime.support import quiet, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

MEMORY, CONTENT, PROCESSES = 384 * MIB, 64 * MIB, 64
LIMITS = RuntimeLimits(memory=MEMORY, content=CONTENT, processes=PROCESSES)
START: dict[str, Literal["zygote", "fresh"] | None] = {"native": "fresh", "python3": None}
HOG = "import numpy; print('so far', flush=True); x = numpy.ones(1 << 28)"  # 2 GiB of doubles
CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'x = bytearray(2 << 30)']).returncode"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def small(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    settings = Settings(
        state_dir=tmp_path_factory.mktemp("limits") / "state",
        environments=(environment.prefix.parent,),
        spares=0,
        preload=("numpy",),
    )
    await warm_threads()
    async with House(settings=settings) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["native", "python3"])
async def limited(small: House, request: pytest.FixtureRequest) -> Caller:
    """Somebody in a small runtime; over a kernel that is forked, and over ipykernel."""
    runtime = await small.create_runtime(
        RuntimeSpec(kernel=request.param, limits=LIMITS, start=START[request.param])
    )
    made = Caller(small, runtime.name, f"{runtime.name}/sessions/main")
    await made.run("None")
    await made.in_session("other").run("kept = 1")
    await quiet(small)
    return made


def report(caller: Caller, name: str) -> LimitReport:
    runtime = caller.house.get_runtime(caller.runtime)
    return next(limit for limit in runtime.limits or () if limit.name == name)


def figures(result: ExecuteCodeResult) -> tuple[str, dict[str, str]]:
    assert result.outcome_info is not None
    return result.outcome_info.reason, result.outcome_info.metadata


async def test_limits_that_can_t_be_are_refused_and_leave_nothing(small: House) -> None:
    before = [runtime.name for runtime in small.list_runtimes()]
    for limits, field in (
        (RuntimeLimits(memory=2**60), "limits.memory"),
        (RuntimeLimits(cpus=5000), "limits.cpus"),
        (RuntimeLimits(processes=2**31 - 1), "limits.processes"),
        (RuntimeLimits(content=2**60), "limits.content"),
        (RuntimeLimits(open_files=2**31 - 1), "limits.openFiles"),
        (RuntimeLimits(file_size=2**60), "limits.fileSize"),
    ):
        with pytest.raises(InvalidArgument, match="more than this machine has; it takes at most") as refused:
            await small.create_runtime(RuntimeSpec(limits=limits))
        assert refused.value.metadata["field"] == field
    assert [runtime.name for runtime in small.list_runtimes()] == before


@pytest.mark.leaves("the kernel that comes in the place of one that ended")
async def test_memory_that_runs_out_ends_the_hog_and_nobody_else(limited: Caller) -> None:
    await limited.run("x = 1")
    first = await limited.start(HOG)
    behind = await limited.start("x")
    async with asyncio.timeout(SECONDS):
        result, waited = await first, await behind
    assert (result.outcome, result.session_state) == (Outcome.OUT_OF_MEMORY, SessionState.RESET)
    assert result.stdout == "so far\n"
    reason, metadata = figures(result)
    assert reason == EndReason.MEMORY
    assert int(metadata["limitBytes"]) == MEMORY
    assert int(metadata["peakBytes"]) >= MEMORY * 9 // 10
    assert result.execution_error is not None
    assert f"memory limit of {MEMORY} bytes" in result.execution_error.value
    assert (waited.outcome, waited.session_state) == (Outcome.NEVER_STARTED, SessionState.RESET)
    assert figures(waited)[0] == EndReason.SESSION_RESET
    # Told to the next, and to nobody in another session.
    fresh = await limited.run("'x' in globals()")
    assert fresh.result == "False"
    assert [notice.reason for notice in fresh.notices or ()] == [NoticeReason.FRESH_KERNEL]
    assert "memory limit" in (fresh.notices or ())[0].text
    other = await limited.in_session("other").run("kept")
    assert (other.result, other.notices) == ("1", None)


UNMAPPED = f"""
import os
files = [os.memfd_create("x") for _ in range({2 * MEMORY // CONTENT})]
for descriptor in files:
    os.set_inheritable(descriptor, True)
print("so far", flush=True)
fill = "; ".join(f"head -c {CONTENT} /dev/zero > /dev/fd/{{descriptor}}" for descriptor in files)
os.execv("/bin/sh", ["sh", "-c", fill])
"""
"""Memory that is no process's; and a kernel that has become so small that the supervisor is the largest of all."""


async def test_memory_that_ends_the_walls_is_told_as_the_cause(
    small: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Here, "expose", lambda self, pid: None)
    runtime = await small.create_runtime(RuntimeSpec(kernel="native", limits=LIMITS, start="fresh"))
    caller = Caller(small, runtime.name, f"{runtime.name}/sessions/main")
    if report(caller, "memory").enforcement != "exact":
        await small.delete_runtime(str(runtime.name))
        pytest.skip("without a group nobody but a session is ended for memory")
    await caller.run("None")
    first = await caller.start(UNMAPPED)
    behind = await caller.start("1")
    async with asyncio.timeout(SECONDS):
        result, waited = await first, await behind
    assert (result.outcome, result.session_state, result.stdout) == (
        Outcome.OUT_OF_MEMORY, SessionState.GONE, "so far\n",
    )  # fmt: skip
    reason, metadata = figures(result)
    assert (reason, metadata["limitBytes"]) == (EndReason.MEMORY, str(MEMORY))
    assert int(metadata["peakBytes"]) >= MEMORY * 9 // 10
    assert waited.outcome is Outcome.NEVER_STARTED
    assert waited.execution_error is not None
    assert "memory limit" in waited.execution_error.value
    await until(lambda: runtime.name not in [each.name for each in small.list_runtimes()])


@pytest.mark.leaves("the kernel that comes in the place of one that ended")
async def test_a_sigkill_of_its_own_is_no_want_of_memory(limited: Caller) -> None:
    child = await limited.run(CHILD)
    if report(limited, "memory").enforcement == "exact":
        # The child was the hog, so the child alone was ended; and its end is not to be taken for its parent's.
        assert (child.outcome, child.result) == (Outcome.OK, "-9")
    else:
        assert child.outcome is Outcome.OUT_OF_MEMORY
    result = await limited.run("print('so far', flush=True); import os; os.kill(os.getpid(), 9)")
    assert (result.outcome, result.stdout) == (Outcome.KERNEL_DIED, "so far\n")
    assert figures(result) == (EndReason.KERNEL_SIGNALLED, {"signal": "9", "signalName": "SIGKILL"})


@pytest.mark.leaves("the kernel that comes in the place of one that ended")
async def test_a_memory_error_that_the_code_survives_is_its_own(limited: Caller) -> None:
    caught = await limited.run("try:\n    bytearray(1 << 62)\nexcept MemoryError:\n    print('caught')")
    assert (caught.outcome, caught.stdout) == (Outcome.OK, "caught\n")
    raised = await limited.run("y = 2; bytearray(1 << 62)")
    assert (raised.outcome, raised.session_state) == (Outcome.ERROR, SessionState.PRESERVED)
    assert raised.execution_error is not None
    assert raised.execution_error.name == "MemoryError"
    assert (await limited.run("y")).result == "2"


@pytest.mark.leaves("the kernel that comes in the place of one that ended")
async def test_processes_that_run_out_are_the_code_s_own_error_or_its_end(limited: Caller) -> None:
    code = f"""
import threading
print('so far', flush=True)
stop, started = threading.Event(), []
try:
    for _ in range({4 * PROCESSES}):
        thread = threading.Thread(target=stop.wait)
        thread.start()
        started.append(thread)
    stop.wait()
except RuntimeError as error:
    print('refused', len(started) < {PROCESSES})
finally:
    stop.set()
"""
    result = await limited.run(code)
    if report(limited, "processes").enforcement == "exact":
        assert (result.outcome, result.stdout) == (Outcome.OK, "so far\nrefused True\n")
    else:
        assert (result.outcome, result.stdout) == (Outcome.RESOURCE_KILLED, "so far\n")
        reason, metadata = figures(result)
        assert (reason, metadata["limitProcesses"]) == (EndReason.PROCESSES, str(PROCESSES))
        assert int(metadata["peakProcesses"]) > PROCESSES


@pytest.mark.leaves("the kernel that comes in the place of one that ended")
async def test_a_full_content_is_the_code_s_own_error_or_its_end(limited: Caller) -> None:
    code = f"""
import os, time
print('so far', flush=True)
try:
    for number in range(8):
        with open(f'big{{number}}', 'wb') as file:
            for _ in range({CONTENT // MIB // 4}):
                file.write(os.urandom(1 << 20))
    time.sleep(600)
except OSError as error:
    print(error.strerror)
"""
    result = await limited.run(code)
    if report(limited, "content").enforcement == "exact":
        assert (result.outcome, result.stdout) == (Outcome.OK, "so far\nNo space left on device\n")
    else:
        assert (result.outcome, result.session_state) == (Outcome.RESOURCE_KILLED, SessionState.RESET)
        assert result.stdout == "so far\n"
        reason, metadata = figures(result)
        assert (reason, metadata["limitBytes"]) == (EndReason.DISK, str(CONTENT))
        assert int(metadata["peakBytes"]) > CONTENT
    # What stands there is no later one's fault; it can be looked at, and cleared away.
    cleared = await limited.run(
        "import glob, os; [os.unlink(name) for name in glob.glob('big*')]; len(os.listdir())"
    )
    assert cleared.outcome is Outcome.OK
    again = await limited.run("open('small', 'wb').write(b'x' * 1000)")
    assert (again.outcome, again.result) == (Outcome.OK, "1000")


async def test_one_file_and_open_files_have_limits_that_the_code_meets_as_errors(limited: Caller) -> None:
    result = await limited.run(
        f"""
import os, resource
held = []
try:
    while True:
        held.append(open('/dev/null'))
except OSError as error:
    print(error.strerror, len(held) < 1024)
for file in held:
    file.close()
with open('sparse', 'wb') as file:
    try:
        file.truncate({CONTENT} + 1)
    except OSError as error:
        print(error.strerror)
os.unlink('sparse')
for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE):
    soft, hard = resource.getrlimit(kind)
    try:
        resource.setrlimit(kind, (hard + 1, hard + 1))
    except (OSError, ValueError):
        print('kept')
"""
    )
    assert result.stdout == "Too many open files True\nFile too large\nkept\nkept\n"


async def test_a_zygote_that_is_the_hog_is_replaced(small: House) -> None:
    """Its sessions live on, and there are further ones."""
    runtime = await small.create_runtime(RuntimeSpec(start="zygote", limits=RuntimeLimits(memory=MEMORY)))
    caller = Caller(small, runtime.name, f"{runtime.name}/sessions/one")
    await caller.run("x = 1")
    for number in range(3):
        hog = caller.in_session(f"hog-{number}")
        await hog.run("None")
        assert (await hog.run(HOG)).outcome is Outcome.OUT_OF_MEMORY
    assert (await caller.in_session("after").run("1 + 1")).result == "2"
    assert (await caller.run("x")).result == "1"
    await small.delete_runtime(runtime.name)


async def test_what_was_written_stays_readable_and_nothing_is_left_mounted(
    environment: Environment, tmp_path: Path
) -> None:
    settings = Settings(state_dir=tmp_path / "state", environments=(environment.prefix.parent,))
    async with House(settings=settings) as house:
        runtime = await house.create_runtime(RuntimeSpec(start="fresh", limits=LIMITS))
        caller = Caller(house, runtime.name, f"{runtime.name}/sessions/main")
        result = await caller.run(
            "import os; os.mkdir('deep'); open('deep/file', 'w').write('kept'); os.symlink('/etc', 'link'); os.mkfifo('fifo')"
        )
        assert result.outcome is Outcome.OK
        assert sorted(os.listdir(tmp_path / "state" / "runtimes" / _id(runtime.name) / "content")) == [
            "deep",
            "fifo",
            "link",
        ]
    state = tmp_path / "state" / "runtimes" / _id(runtime.name)
    assert sorted(os.listdir(state)) == ["content", "runtime.json"]
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    async with House(settings=settings) as house:
        assert Caller(house, runtime.name, "").file("deep/file") == "kept"
        assert os.readlink(state / "content" / "link") == "/etc"


def _id(name: str) -> str:
    return name.rpartition("/")[2]
