"""Sessions of one runtime, its zygote and its supervisor: none is within another's reach, and without walls each is."""

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from cellhouse import House
from cellhouse.environments import Environment
from cellhouse.model import ExecuteCodeRequest, ExecuteCodeResult, Outcome, RuntimeSpec
from cellhouse.runtime import Settings
from cellhouse.sandbox import LANDLOCK_LEAST_ABI, landlock_abi
from cellhouse.sandbox.seccomp import MACHINES
from tests.attacks.host import UNSHARE
from tests.attacks.siblings import ATTACKS, ON_THE_SUPERVISOR, OPEN, Attack
from tests.promises.conftest import warm_threads
from tests.runtime.support import quiet, until, within
from tests.sandbox.support import PYTHON

CALLS = MACHINES[os.uname().machine].numbers

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.native,
    pytest.mark.skipif(
        landlock_abi() < LANDLOCK_LEAST_ABI, reason="this kernel has no Landlock scopes (Linux 6.12)"
    ),
]


@dataclass(frozen=True)
class Sessions:
    """Two sessions of one runtime, and the numbers of the processes as they are seen there."""

    house: House
    runtime: str
    victim: int
    zygote: int
    supervisor: int

    async def run(self, session: str, code: str) -> ExecuteCodeResult:
        name = f"{self.runtime}/sessions/{session}"
        return await within(await self.house.execute(ExecuteCodeRequest(code=code, session=name)))

    async def attacked(self, attack: Attack, target: int) -> str:
        result = await self.run("attacker", attack.cell(target, CALLS))
        assert result.outcome is Outcome.OK, result.execution_error
        return str(result.stdout).strip()


ZYGOTE = """
import os
for _pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        _stat = open(f"/proc/{_pid}/stat").read().rpartition(")")[2].split()
        _line = open(f"/proc/{_pid}/cmdline").read()
    except OSError:
        continue
    if "zygote.py" in _line and int(_stat[1]) == os.getppid() and not _line.split("zygote.py")[1].startswith("\\0-"):
        print(_pid, _stat[19])
"""


async def gather(house: House, isolation: str) -> Sessions:
    runtime = await house.create_runtime(RuntimeSpec(kernel="native", start="zygote", isolation=isolation))
    made = Sessions(house, runtime.name, 0, 0, 0)
    await made.run("victim", "secret = 'precious'")
    await quiet(house)
    await made.run("attacker", "None")
    victim = int(str((await made.run("victim", "import os; os.getpid()")).result))
    supervisor = int(str((await made.run("victim", "os.getppid()")).result))
    # All forks show the zygote's command; it is the oldest of them.
    found = str((await made.run("attacker", ZYGOTE)).stdout).splitlines()
    zygote = min((line.split() for line in found), key=lambda words: int(words[1]))
    return Sessions(house, runtime.name, victim, int(zygote[0]), supervisor)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    settings = Settings(
        state_dir=tmp_path_factory.mktemp("sessions") / "state",
        environments=(environment.prefix.parent,),
        preload=(),
        spares=0,
    )
    await warm_threads()
    async with House(settings=settings) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def walled(house: House) -> Sessions:
    return await gather(house, "bubblewrap")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def unwalled(house: House) -> Sessions:
    return await gather(house, "none")


def named(attacks: tuple[Attack, ...], *marks: pytest.MarkDecorator) -> list[object]:
    return [pytest.param(attack, id=attack.name, marks=marks) for attack in attacks]


@pytest.mark.parametrize("attack", named(ATTACKS))
async def test_on_a_sibling(walled: Sessions, attack: Attack) -> None:
    assert await walled.attacked(attack, walled.victim) == "refused"


@pytest.mark.parametrize("attack", named(ATTACKS))
async def test_on_the_zygote(walled: Sessions, attack: Attack) -> None:
    assert await walled.attacked(attack, walled.zygote) == "refused"


@pytest.mark.parametrize("attack", named(ON_THE_SUPERVISOR))
async def test_on_the_supervisor(walled: Sessions, attack: Attack) -> None:
    assert walled.supervisor == 1
    assert await walled.attacked(attack, 1) == "refused"


@pytest.mark.parametrize("attack", named(OPEN))
async def test_what_is_still_open(walled: Sessions, attack: Attack) -> None:
    """Fails as soon as it is closed, so that nobody goes on saying that it is open."""
    assert await walled.attacked(attack, walled.victim) == "reached"


OWN = """
import ctypes, os, subprocess, sys, threading
def put(name, data):
    fd = os.open(f"/proc/{name}", os.O_WRONLY)
    os.write(fd, data)
    os.close(fd)
put("self/oom_score_adj", b"7")
put("self/coredump_filter", b"0x33")
put("self/clear_refs", b"1")
put("self/comm", b"renamed")
threads = []
thread = threading.Thread(target=lambda: put(f"self/task/{threading.get_native_id()}/comm", b"thread"))
thread.start()
thread.join()
put("thread-self/comm", b"renamed")
child = subprocess.run("echo 9 > /proc/self/oom_score_adj", shell=True, stderr=subprocess.PIPE)
assert b"Permission denied" in child.stderr, child
print(open("/proc/self/oom_score_adj").read().strip(), open("/proc/self/comm").read().strip())
subprocess.run("echo a > /tmp/own; echo b >> ~/own; echo c > /dev/null; echo d > /dev/shm/own; echo e > own; echo f >&2", shell=True, check=True)
os.mkdir("/tmp/deeper")
os.rename("/tmp/own", "/tmp/deeper/own")
os.link("/tmp/deeper/own", "/tmp/linked")
os.makedirs("one/two", exist_ok=True)
os.rename("own", "one/two/own")
os.mkfifo("one/fifo")
fd = os.open("one/fifo", os.O_RDWR)
os.write(fd, b"through")
print(os.read(fd, 100), open("/tmp/linked").read(), open("/dev/shm/own").read(), open("one/two/own").read())
memory = os.memfd_create("own")
os.close(os.open(f"/proc/self/fd/{memory}", os.O_RDWR))
os.close(os.open("/dev/stdout", os.O_WRONLY))
unnamed = os.open("/tmp", os.O_TMPFILE | os.O_RDWR, 0o600)
linked = ctypes.CDLL(None, use_errno=True).linkat(-100, b"/proc/self/fd/%d" % unnamed, -100, b"/tmp/named", 0x400)
assert linked == 0, ctypes.get_errno()
master, slave = os.openpty()
os.close(os.open(os.ttyname(slave), os.O_RDWR | os.O_NOCTTY))
for fd in (fd, memory, unnamed, master, slave):
    os.close(fd)
"""


async def test_what_is_one_s_own_stays_open(house: House) -> None:
    """Writing to one's own files in /proc, and to everything that is there to be written to; moving, linking, reopening.

    All but one: what a session starts can't write to its own files in /proc.
    """
    runtime = await house.create_runtime(RuntimeSpec(kernel="native", start="fresh"))
    try:
        result = await Sessions(house, runtime.name, 0, 0, 0).run("main", OWN)
        assert result.outcome is Outcome.OK, result.execution_error
        assert result.stdout == "7 renamed\nb'through' a\n d\n e\n\n"
        assert result.stderr == "f\n"
    finally:
        await house.delete_runtime(runtime.name)


@pytest.mark.walls
@pytest.mark.slow
@pytest.mark.parametrize("attack", named(ATTACKS))
async def test_on_a_sibling_without_walls(unwalled: Sessions, attack: Attack) -> None:
    assert await unwalled.attacked(attack, unwalled.victim) == "reached"


@pytest.mark.walls
@pytest.mark.slow
@pytest.mark.parametrize("attack", named(ATTACKS))
async def test_on_the_zygote_without_walls(unwalled: Sessions, attack: Attack) -> None:
    assert await unwalled.attacked(attack, unwalled.zygote) == "reached"


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
async def test_everything_is_signalled_and_only_the_sender_s_own_is_hit(house: House, number: int) -> None:
    code = f"""
import os, signal
child = os.fork()
if child == 0:
    while True:
        signal.pause()
hit = []
for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
    if pid not in (1, os.getpid()):
        try:
            os.kill(pid, {int(number)})
            hit.append(pid)
        except (PermissionError, ProcessLookupError):
            continue
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
print(hit == [child])
"""
    made = await gather(house, "bubblewrap")
    try:
        assert str((await made.run("attacker", code)).stdout) == "True\n"
        assert (await made.run("victim", "secret")).result == "'precious'"
        # The zygote still forks, and is the one that it was.
        assert (await made.run("after", "1 + 1")).result == "2"
        found = str((await made.run("attacker", ZYGOTE)).stdout).splitlines()
        assert str(made.zygote) in [line.split()[0] for line in found]
    finally:
        await house.delete_runtime(made.runtime)


@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM"])
async def test_abstract_sockets_of_a_sibling(walled: Sessions, kind: str) -> None:
    name = f"sibling-{kind}"
    listen = f"""
import socket
listener = socket.socket(socket.AF_UNIX, socket.{kind})
listener.bind("\\0{name}")
if "{kind}" == "SOCK_STREAM":
    listener.listen()
"""
    connect = f"""
import socket
with socket.socket(socket.AF_UNIX, socket.{kind}) as s:
    try:
        s.connect("\\0{name}")
        print("reached")
    except PermissionError:
        print("refused")
"""
    assert (await walled.run("victim", listen)).outcome is Outcome.OK
    assert str((await walled.run("attacker", connect)).stdout) == "refused\n"
    assert str((await walled.run("victim", connect)).stdout) == "reached\n"


DAEMON = """
import os
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.write(write, b"%d" % os.getpid())
    for number in range(3, 256):
        try:
            os.close(number)
        except OSError:
            pass
    for number in (0, 1, 2):
        os.dup2(os.open("/dev/null", os.O_RDWR), number)
    os.execve("/bin/sleep", ["sleep", "1000"], {})
os.close(write)
print(int(os.read(read, 100)))
"""
ALIVE = """
import os, subprocess, sys
pid = int(subprocess.run([sys.executable, "-I", "-S", "-c", sys.argv[1]], capture_output=True, text=True).stdout)
os.kill(pid, 0)
print("reached")
"""


async def test_a_daemon_ends_with_its_runtime(house: House) -> None:
    """Without its mark, its session and its parent it still stands in the walls, which end as a whole."""
    runtime = await house.create_runtime(RuntimeSpec(kernel="native", start="fresh"))
    made = Sessions(house, runtime.name, 0, 0, 0)
    pidfds: list[int] = []
    try:
        result = await made.run("main", DAEMON)
        assert result.outcome is Outcome.OK, result.execution_error
        inside = int(str(result.stdout))
        await until(lambda: any(b"sleep\x001000" in _command(pid) for pid in _numbered(inside)))
        found = [pid for pid in _numbered(inside) if b"sleep\x001000" in _command(pid)]
        assert len(found) == 1
        pidfds += [os.pidfd_open(pid) for pid in found]
    finally:
        await house.delete_runtime(runtime.name)
    with contextlib.ExitStack() as stack:
        for pidfd in pidfds:
            stack.callback(os.close, pidfd)
            assert select.select([pidfd], [], [], 0)[0], "it lives on"


@pytest.mark.walls
@pytest.mark.slow
async def test_a_daemon_without_walls_outlives_what_started_it() -> None:
    # In a process namespace of its own, so that it ends with this test.
    done = subprocess.run(
        [*UNSHARE, str(PYTHON), "-I", "-S", "-c", ALIVE, DAEMON], capture_output=True, text=True, timeout=20
    )
    assert done.stdout == "reached\n", done.stderr


def _numbered(inside: int) -> list[int]:
    """The host's processes that have this number in a namespace of their own."""
    return [pid for pid in _processes() if _inside(pid) == inside]


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _inside(pid: int) -> int:
    """The number of a process in its innermost namespace; 0 where that is the host's."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    numbers = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
    return int(numbers[-1]) if len(numbers) > 1 else 0


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
