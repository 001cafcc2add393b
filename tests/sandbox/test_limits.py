"""Limits over real sandboxes: what is reported is what is met, whoever runs this."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellhouse.model import MIB, CallReason, FailedPrecondition, InvalidArgument, LimitReport, WallLimits
from cellhouse.sandbox import SandboxGone
from cellhouse.sandbox.limits.census import is_dying
from cellhouse.sandbox.privileged import Here
from cellhouse.sandbox.registry import create_sandbox
from cellhouse.sandbox.supervised import SupervisedSandbox
from tests.sandbox.support import SECONDS, run, run_python, spec

MEMORY, CONTENT, PROCESSES, OPEN_FILES = 192 * MIB, 32 * MIB, 24, 200
SMALL = WallLimits(memory=MEMORY, content=CONTENT, processes=PROCESSES, open_files=OPEN_FILES, cpus=0.5)


@pytest.fixture
async def limited(level: str, tmp_path: Path) -> AsyncIterator[SupervisedSandbox]:
    made = create_sandbox(level, spec(tmp_path / "state", limits=SMALL))
    assert isinstance(made, SupervisedSandbox)
    async with made:
        yield made


def report(sandbox: SupervisedSandbox, name: str) -> LimitReport:
    return next(each for each in sandbox.limits if each.name == name)


def groups_of(sandbox: SupervisedSandbox) -> list[Path]:
    keeper = sandbox._keeper
    return [] if keeper is None or keeper._group is None else list(keeper._group.directories)


async def test_each_limit_is_told_with_its_value_and_by_what_it_is_held(limited: SupervisedSandbox) -> None:
    told = {each.name: each.value for each in limited.limits}
    assert told == {
        "memory": MEMORY,
        "cpus": 0.5,
        "processes": PROCESSES,
        "content": CONTENT,
        "openFiles": OPEN_FILES,
        "fileSize": CONTENT,
    }
    assert all(each.detail for each in limited.limits)
    assert report(limited, "memory").enforcement != "none"
    layer = next(layer for layer in limited.report.layers if layer.name == "limits")
    assert ("memory" in layer.detail) is (limited.level != "none")


async def test_memory(limited: SupervisedSandbox) -> None:
    done = await run_python(limited, "import os; os.write(1, b'so far'); x = bytearray(1 << 30)")
    hit = done.how.limit_hit
    assert hit is not None
    assert (done.out, done.how.signal) == ("so far", signal.SIGKILL)
    assert (hit.name, hit.limit) == ("memory", MEMORY)
    assert hit.peak is not None
    assert hit.peak >= MEMORY * 9 // 10
    assert (await run_python(limited, "print(1)")).out == "1\n"


async def test_a_signal_of_its_own_is_no_limit(limited: SupervisedSandbox) -> None:
    hog = "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'x = bytearray(1 << 30)']).returncode)"
    if report(limited, "memory").enforcement == "exact":
        child = await run_python(limited, hog)
        assert (child.out, child.how.exit_status, child.how.limit_hit) == ("-9\n", 0, None)
    done = await run_python(limited, "import os; os.kill(os.getpid(), 9)")
    assert (done.how.signal, done.how.limit_hit) == (signal.SIGKILL, None)


FILL = "exec split -b 16m /dev/zero /dev/shm/x"
"""Memory that is no process's: the one that has most of its own is ended for it, which is not who fills it."""


async def test_who_fills_memory_that_is_nobody_s_is_ended_before_the_walls(
    limited: SupervisedSandbox,
) -> None:
    if limited.level == "none" or report(limited, "memory").enforcement != "exact":
        pytest.skip("without a group nobody is ended by the kernel of the host; /dev/shm is the host's own")
    done = await run(limited, "/bin/sh", "-c", f"echo begun; {FILL}")
    assert (done.out, done.how.signal) == ("begun\n", signal.SIGKILL)
    assert done.how.limit_hit is not None
    assert (done.how.limit_hit.name, done.how.limit_hit.walls) == ("memory", False)
    # What it filled is still full: nothing more can be started, but who runs is not ended for it.
    assert not limited.lost.done()
    assert limited._init_pid in {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}


async def test_walls_that_are_ended_for_memory_are_lost_to_memory(
    limited: SupervisedSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    if limited.level == "none" or report(limited, "memory").enforcement != "exact":
        pytest.skip("as above")
    monkeypatch.setattr(Here, "expose", lambda self, pid: None)
    done = await run(limited, "/bin/sh", "-c", FILL)
    async with asyncio.timeout(SECONDS):
        loss = await asyncio.shield(limited.lost)
    for hit in (done.how.limit_hit, loss.limit_hit):
        assert hit is not None
        assert (hit.name, hit.limit, hit.walls) == ("memory", MEMORY, True)
        assert hit.peak is not None
        assert hit.peak >= MEMORY * 9 // 10
    assert f"the memory limit of {MEMORY} bytes ended it" in loss.text


async def test_walls_that_are_ended_by_somebody_are_not_lost_to_memory(limited: SupervisedSandbox) -> None:
    await run_python(limited, "x = bytearray(1 << 30)")  # which is this one's end only
    assert limited._launcher is not None
    limited._launcher.kill()
    async with asyncio.timeout(SECONDS):
        loss = await asyncio.shield(limited.lost)
    assert loss.limit_hit is None


async def test_an_exit_is_an_exit_whatever_a_child_met(limited: SupervisedSandbox) -> None:
    code = "import subprocess, sys, os; subprocess.run([sys.executable, '-c', 'x = bytearray(1 << 30)']); os._exit(3)"
    done = await run_python(limited, code)
    if report(limited, "memory").enforcement == "exact":
        assert (done.how.exit_status, done.how.limit_hit) == (3, None)
    else:  # who watches from outside ends the session that has most
        assert done.how.limit_hit is not None


async def test_processes(limited: SupervisedSandbox) -> None:
    code = """
import os, signal
children = []
try:
    while True:
        child = os.fork()
        if not child:
            signal.pause()
        children.append(child)
except OSError as error:
    print(error.strerror, len(children) < 24)
for child in children:
    os.kill(child, signal.SIGKILL)
"""
    done = await run_python(limited, code)
    if report(limited, "processes").enforcement == "exact":
        assert done.out == "Resource temporarily unavailable True\n"
    else:
        assert done.how.limit_hit is not None
        assert (done.how.limit_hit.name, done.how.limit_hit.limit) == ("processes", PROCESSES)
    assert (await run_python(limited, "print(1)")).out == "1\n"


async def test_content(limited: SupervisedSandbox) -> None:
    code = """
import os, signal
try:
    for number in range(8):
        with open(f'{number}', 'wb', buffering=0) as file:
            for _ in range(16):
                file.write(os.urandom(1 << 20))
    signal.pause()
except OSError as error:
    os.write(1, error.strerror.encode())
"""
    done = await run_python(limited, code)
    if report(limited, "content").enforcement == "exact":
        assert done.out == "No space left on device"
    else:
        assert done.how.limit_hit is not None
        assert (done.how.limit_hit.name, done.how.limit_hit.limit) == ("content", CONTENT)
    # What stands there is no later one's fault.
    assert (await run_python(limited, "import time; time.sleep(0.6); print(1)")).out == "1\n"


async def test_what_each_process_carries_along(limited: SupervisedSandbox) -> None:
    code = """
import resource
print(resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_FSIZE))
try:
    open('sparse', 'wb').truncate(32 * 2**20 + 1)
except OSError as error:
    print(error.strerror)
"""
    done = await run_python(limited, code)
    assert done.out == f"({OPEN_FILES}, {OPEN_FILES}) ({CONTENT}, {CONTENT})\nFile too large\n"


async def test_a_limit_that_is_named_is_held_or_there_is_no_sandbox(level: str, tmp_path: Path) -> None:
    for name, value in (("cpus", 0.5), ("content", CONTENT), ("memory", MEMORY)):
        limits = WallLimits(**{name: value}, named=frozenset({name}), exact=frozenset({name}))  # type: ignore[arg-type]
        refused: FailedPrecondition | None = None
        made = create_sandbox(level, spec(tmp_path / name, limits=limits))
        assert isinstance(made, SupervisedSandbox)
        try:
            async with made:
                assert report(made, name).enforcement == "exact"
        except FailedPrecondition as error:
            refused = error
        if refused is not None:
            assert os.geteuid() != 0
            assert refused.reason == CallReason.LIMIT_UNAVAILABLE
            assert refused.metadata["limit"] == name
            assert "run the service as root" in refused.message
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == ["content"]
    assert isinstance(made, SupervisedSandbox)
    assert not any(path.exists() for path in groups_of(made))


async def test_more_than_the_machine_has_is_no_limit_when_named_and_less_when_not(
    level: str, tmp_path: Path
) -> None:
    limits = WallLimits(memory=2**60, named=frozenset({"memory"}))
    with pytest.raises(
        InvalidArgument, match=r"limits\.memory: .*more than this machine has.*at most"
    ) as caught:
        await create_sandbox(level, spec(tmp_path / "named", limits=limits)).start()
    assert caught.value.metadata["field"] == "limits.memory"
    made = create_sandbox(level, spec(tmp_path / "default", limits=WallLimits(memory=2**60, cpus=5000.0)))
    assert isinstance(made, SupervisedSandbox)
    async with made:
        assert report(made, "memory").value == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        assert (report(made, "cpus").value, report(made, "cpus").enforcement) == (
            len(os.sched_getaffinity(0)),
            "exact",
        )


async def test_nothing_of_it_is_left(level: str, tmp_path: Path) -> None:
    made = create_sandbox(level, spec(tmp_path / "state", limits=SMALL))
    assert isinstance(made, SupervisedSandbox)
    async with made:
        assert (await run_python(made, "open('file', 'w').write('kept')")).how.exit_status == 0
    assert isinstance(made, SupervisedSandbox)
    assert not any(path.exists() for path in groups_of(made))
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["content"]
    assert [path.name for path in (tmp_path / "state" / "content").iterdir()] == ["file"]
    assert (tmp_path / "state" / "content" / "file").read_text(encoding="utf-8") == "kept"


async def test_closed_while_it_gets_its_limits(level: str, tmp_path: Path) -> None:
    for _ in range(3):
        made = create_sandbox(level, spec(tmp_path / "state", limits=SMALL))
        starting = asyncio.ensure_future(made.start())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await made.close()
        with pytest.raises((SandboxGone, FailedPrecondition)):
            await starting
    assert isinstance(made, SupervisedSandbox)
    assert not any(path.exists() for path in groups_of(made))
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")


def test_who_is_dying() -> None:
    assert not is_dying(os.getpid())
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert is_dying(child)
    os.waitpid(child, 0)
    assert is_dying(child)
