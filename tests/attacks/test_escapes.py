"""What a session starts ends with its runtime at the latest, and holds nobody up; what it leaves behind runs nowhere else."""

import asyncio
import signal
import subprocess
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest
import pytest_asyncio

from cellhouse import House
from cellhouse.environments import Environment
from cellhouse.model import Outcome, RuntimeSpec, SessionLimits, SessionState
from cellhouse.runtime import Settings
from tests.attacks.escapes import ESCAPES, Escape
from tests.attacks.host import UNSHARE
from tests.promises.conftest import warm_threads
from tests.promises.support import SECONDS, Caller
from tests.runtime.support import quiet
from tests.sandbox.support import PYTHON, until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.native]

LATER = (pytest.mark.walls, pytest.mark.slow)
ALIVE = """
import os, subprocess, sys, time
subprocess.run([sys.executable, "-I", "-S", "-c", sys.argv[1]], check=True)
until = time.monotonic() + 10
while time.monotonic() < until:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\\0")
        except OSError:
            continue
        if line[-2:-1] == [sys.argv[2].encode()]:
            print("reached")
            sys.exit()
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    settings = Settings(
        state_dir=tmp_path_factory.mktemp("escapes") / "state",
        environments=(environment.prefix.parent,),
        session=SessionLimits(interrupt_grace=0.3),
        preload=("numpy",),
        spares=0,
    )
    await warm_threads()
    async with House(settings=settings) as made:
        yield made


async def new(
    house: House, kernel: str = "native", start: Literal["zygote", "fresh"] | None = "fresh"
) -> Caller:
    runtime = await house.create_runtime(
        RuntimeSpec(kernel=kernel, start=start if kernel == "native" else None)
    )
    made = Caller(house, runtime.name, f"{runtime.name}/sessions/main")
    await made.run("None")
    return made


def marked(escape: Escape) -> object:
    return pytest.param(escape, id=escape.name, marks=() if escape.quick else LATER)


def alive(mark: str) -> list[int]:
    """The host's processes whose command ends with it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[-2:-1] == [mark.encode()]:
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize("escape", [marked(escape) for escape in ESCAPES])
async def test_what_gets_away_ends_with_its_runtime(house: House, escape: Escape) -> None:
    mark = uuid.uuid4().hex
    caller = await new(house)
    try:
        result = await caller.run(escape.program(mark))
        assert result.outcome is Outcome.OK, result.execution_error
        await until(lambda: alive(mark))
    finally:
        async with asyncio.timeout(SECONDS):
            await house.delete_runtime(caller.runtime)
    assert alive(mark) == []


@pytest.mark.walls
@pytest.mark.slow
@pytest.mark.parametrize("escape", [pytest.param(escape, id=escape.name) for escape in ESCAPES])
async def test_without_walls_it_gets_away(escape: Escape) -> None:
    """It lives on when what started it has ended. In a process namespace, so that it ends with this test."""
    mark = uuid.uuid4().hex
    argv = [*UNSHARE, "--mount-proc", str(PYTHON), "-I", "-S", "-c", ALIVE, escape.program(mark), mark]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    assert done.stdout == "reached\n", done.stderr


HOLDER = """
import os, signal, sys, time
# A child that holds whatever the kernel holds, and says things for ever from the kernel's end on.
def hold():
    kernel = os.getpid()
    if os.fork() == 0:
        os.setsid()
        for number in signal.valid_signals() - {9, 19, 32, 33}:
            signal.signal(number, signal.SIG_IGN)
        while os.getppid() == kernel:
            time.sleep(0.001)
        while True:
            for number in range(1, 64):
                try:
                    os.set_blocking(number, False)
                    os.write(number, b"FORGED" * 100)
                except OSError:
                    pass
            time.sleep(0.001)
print("so far", flush=True)
"""


@pytest.mark.leaves("the kernel that comes in the place of one that ended")
@pytest.mark.parametrize("kernel", ["native", pytest.param("python3", marks=LATER)])
@pytest.mark.parametrize(
    ("death", "outcome"),
    [("os._exit(3)", Outcome.EXITED), ("os.kill(os.getpid(), 9)", Outcome.KERNEL_DIED)],
    ids=["exit", "kill"],
)
async def test_who_holds_the_pipes_of_a_dead_kernel_holds_up_nobody(
    house: House, kernel: str, death: str, outcome: Outcome
) -> None:
    caller = await new(house, kernel)
    try:
        result = await caller.run(f"{HOLDER}\nhold()\n{death}")
        assert result.outcome is outcome, result.execution_error
        assert result.session_state is SessionState.RESET
        assert result.stdout.startswith("so far\n")
        following = await caller.run("print('next'); 1 + 1")
        assert (following.stdout, following.result) == ("next\n", "2")
    finally:
        await house.delete_runtime(caller.runtime)


@pytest.mark.leaves("the kernel that comes in the place of one that ended")
@pytest.mark.parametrize("end", ["restart", "timeout", "delete"])
async def test_a_deaf_kernel_is_ended_all_the_same(house: House, end: str) -> None:
    caller = await new(house)
    code = (
        "import os, signal\n"
        "for number in signal.valid_signals() - {9, 19, 32, 33}: signal.signal(number, signal.SIG_IGN)\n"
        "if os.fork() == 0:\n"
        "    while True: signal.pause()\n"
        "print('deaf', flush=True)\n"
        "while True:\n"
        "    try:\n"
        "        while True: pass\n"
        "    except BaseException: pass\n"
    )
    try:
        handle = await caller.printing(code, "deaf", execution_timeout=0.5 if end == "timeout" else None)
        async with asyncio.timeout(SECONDS):
            if end == "restart":
                await house.restart(caller.session)
            elif end == "delete":
                await house.delete_session(caller.session)
            result = await handle
        expected = {
            "restart": (Outcome.INTERRUPTED, SessionState.RESET),
            "timeout": (Outcome.TIMED_OUT, SessionState.RESET),
            "delete": (Outcome.SESSION_DELETED, SessionState.GONE),
        }
        assert (result.outcome, result.session_state) == expected[end]
        assert result.stdout == "deaf\n"
        assert (await caller.run("1 + 1")).result == "2"
    finally:
        await house.delete_runtime(caller.runtime)


PLANT = """
import os, site, sys, sysconfig
said = "import os\\nwith open('/content/ran', 'a') as file: file.write(__name__ + chr(10))\\n"
home = site.getusersitepackages()
os.makedirs(home, exist_ok=True)
for name in ("usercustomize", "sitecustomize", "IPython", "numpy"):
    open(os.path.join(home, name + ".py"), "w").write(said)
open(os.path.join(home, "planted.pth"), "w").write("import os; open('/content/ran', 'a').write('pth')")
for name in ("sitecustomize", "usercustomize", "IPython", "traitlets", "asyncio", "json", "numpy", "pandas", "landlock", "native"):
    open(name + ".py", "w").write(said)
os.makedirs(os.path.expanduser("~/.ipython/profile_default/startup"), exist_ok=True)
open(os.path.expanduser("~/.ipython/profile_default/startup/00.py"), "w").write(said)
open(os.path.expanduser("~/.ipython/profile_default/ipython_config.py"), "w").write(said)
open(os.path.expanduser("~/.pythonrc.py"), "w").write(said)
open(".python_startup", "w").write(said)
"""


async def another_zygote(house: House) -> None:
    """The one that is there has imported everything before there was a session; its successor does so afterwards."""
    await quiet(house)
    (nursery,) = [
        native._nursery
        for host in house._runtimes.hosts.values()
        if (native := getattr(host, "_native", None)) is not None and native._nursery is not None
    ]
    before = nursery._zygote
    before._process.signal(signal.SIGKILL)
    await until(lambda: nursery._zygote is not before)
    await quiet(house)


@pytest.mark.parametrize("start", ["zygote", "fresh"])
async def test_what_a_session_plants_runs_in_no_other_before_its_walls_stand(
    house: House, start: Literal["zygote", "fresh"]
) -> None:
    """Neither in the zygote, which all later ones come from, nor in a session that starts fresh."""
    caller = await new(house, start=start)
    try:
        assert (await caller.run(PLANT)).outcome is Outcome.OK
        if start == "zygote":
            await another_zygote(house)
        for number in range(3):
            result = await caller.in_session(f"other-{number}").run("1 + 1")
            assert result.result == "2", result.execution_error
        await quiet(house)
        assert (await caller.run("import os; os.path.exists('/content/ran')")).result == "False"
        # In the session that imports it, it does run: the place is one where modules are looked for.
        assert (await caller.in_session("reader").run("import pandas")).outcome is Outcome.OK
        assert caller.file("ran") == "pandas\n"
    finally:
        await house.delete_runtime(caller.runtime)
