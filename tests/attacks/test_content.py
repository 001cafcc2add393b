"""/content belongs to hostile code: whatever it puts there, and swaps while the service works there, leads nowhere else."""

import asyncio
import contextlib
import hashlib
import os
import select
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from cellhouse import House
from cellhouse.environments import Environment
from cellhouse.files import FileError
from cellhouse.model import MIB, CaptureLimits, CellhouseError, NotFound, Outcome, RuntimeLimits, RuntimeSpec
from cellhouse.runtime import Settings
from cellhouse.sandbox import IN_FORCE
from tests.files.racer import PROGRAM
from tests.promises.conftest import warm_threads
from tests.promises.support import SECONDS, Caller
from tests.sandbox.support import until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.native]

LATER = (pytest.mark.walls, pytest.mark.slow)
PRECIOUS = b"precious: nobody inside may see this, and nobody outside may write here"
LIMITS = RuntimeLimits(content=64 * MIB)
# A program of the code's own that goes on in the background; it is ended with its runtime.
RACE = f"""
import os, subprocess, sys
program = {PROGRAM!r}
def race(*names):
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", program, *names], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"up\\n"
"""
SHOW = """
from IPython.display import display, HTML
for number in range(500):
    display(HTML("<b>%d</b>" % number))
"""


@dataclass(frozen=True)
class Place:
    """A runtime, and a directory of the host that is none of its business."""

    caller: Caller
    content: Path
    secret: Path

    async def run(self, code: str) -> None:
        result = await self.caller.run(code)
        assert result.outcome is Outcome.OK, result.execution_error


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    settings = Settings(
        state_dir=tmp_path_factory.mktemp("content") / "state",
        environments=(environment.prefix.parent,),
        capture=CaptureLimits(artifacts=1_000, content_entries=1_000),
    )
    await warm_threads()
    async with House(settings=settings) as made:
        yield made


@pytest.fixture
def secret(tmp_path: Path) -> Iterator[Path]:
    """It must be afterwards what it was."""
    place = tmp_path / "secret"
    place.mkdir()
    (place / "key").write_bytes(PRECIOUS)
    before = (place.stat(), (place / "key").stat())
    yield place
    assert [path.name for path in place.iterdir()] == ["key"]
    assert (place / "key").read_bytes() == PRECIOUS
    after = (place.stat(), (place / "key").stat())
    assert [(s.st_mode, s.st_uid, s.st_mtime_ns, s.st_nlink) for s in after] == [
        (s.st_mode, s.st_uid, s.st_mtime_ns, s.st_nlink) for s in before
    ]


@pytest_asyncio.fixture(loop_scope="module")
async def place(house: House, secret: Path) -> AsyncIterator[Place]:
    runtime = await house.create_runtime(RuntimeSpec(start="fresh", limits=LIMITS))
    directory = house.state_dir / "runtimes" / runtime.name.rpartition("/")[2]
    caller = Caller(house, runtime.name, f"{runtime.name}/sessions/main")
    await caller.run("None")
    try:
        yield Place(caller, directory / "content", secret)
    finally:
        # Also while the race goes on: nothing of it is left, and nothing else is taken.
        async with asyncio.timeout(SECONDS):
            await house.delete_runtime(runtime.name)
    assert not directory.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="not root: all that a plain user starts is that user's")
async def test_each_runtime_s_files_and_processes_are_another_uid_s(house: House, place: Place) -> None:
    other = await house.create_runtime(RuntimeSpec(start="fresh", limits=LIMITS))
    try:
        seen = []
        for runtime in (place.caller.runtime, other.name):
            isolation = house.get_runtime(runtime).isolation
            assert isolation is not None
            assert ("uid", IN_FORCE) in [(layer.name, layer.status) for layer in isolation.layers]
            caller = Caller(house, runtime, f"{runtime}/sessions/main")
            assert (await caller.run("open('mine', 'w').write('x')")).outcome is Outcome.OK
            with house.open_content(runtime) as content:
                seen.append(content.stat("mine").st_uid)
        assert len({0, *seen}) == 3
    finally:
        await house.delete_runtime(other.name)


@pytest.mark.parametrize(
    "swapped",
    [
        pytest.param("'.dsm_outputs', 'aside'", id="all-outputs"),
        pytest.param("f'.dsm_outputs/{own}', 'aside'", id="its-own", marks=LATER),
        pytest.param("f'.dsm_outputs/{own}/out-000.json', 'aside'", id="one-of-them", marks=LATER),
    ],
)
async def test_bundles_are_written_to_no_link(place: Place, swapped: str) -> None:
    """Where a link stood at that moment, the output says that it could not be written."""
    house = place.caller.house
    before = await place.caller.run("import os; os.listdir('.')")
    assert before.result == "[]"
    result = await place.caller.run(
        f"{RACE}\n"
        "from IPython.display import display, HTML\n"
        "display(HTML('first'))\n"
        "import time\n"
        "own = get_ipython().kernel.get_parent()['header']['msg_id']\n"
        "while not os.path.exists(f'.dsm_outputs/{own}/out-000.json'): time.sleep(0.001)\n"
        f"os.symlink({str(place.secret)!r}, 'aside')\n"
        f"race({swapped})\n"
        f"{SHOW}"
    )
    assert result.outcome is Outcome.OK, result.execution_error
    assert [output.index for output in result.rich_outputs] == list(range(501))
    written = 0
    for output in result.rich_outputs:
        assert (output.file_path is None) is (output.error_info is not None)
        if output.error_info is not None:
            assert output.error_info.reason == "WRITE_FAILED"
            continue
        written += 1
        try:
            shown = await house.get_bundle(result.execution, output.index)
            assert "text/html" in shown["data"]
            await house.get_rich_output(result.execution, output.index)
        except NotFound:
            continue  # at that moment a link stands there
    assert written


@pytest.mark.walls
@pytest.mark.slow
async def test_who_writes_by_path_writes_through_the_link(place: Place, tmp_path: Path) -> None:
    """What is kept from happening: the same race, and a service that goes by names."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    await place.run(
        f"{RACE}\nos.mkdir('.dsm_outputs')\nos.symlink({str(elsewhere)!r}, 'aside')\nrace('.dsm_outputs', 'aside')"
    )

    def write() -> bool:
        with contextlib.suppress(OSError):
            (place.content / ".dsm_outputs" / "out-000.json").write_text("{}")
        return bool(os.listdir(elsewhere))

    await until(write)


async def test_files_that_are_swapped_are_never_somebody_else_s(place: Place) -> None:
    """What is told of the files that an execution made, while each of them is now a file, now a link, now a fifo."""
    await place.run(
        f"{RACE}\nos.symlink({str(place.secret / 'key')!r}, 'link')\nos.mkfifo('fifo')\nopen('file', 'w').write('x')\n"
        f"os.symlink({str(place.secret)!r}, 'out')\nos.mkdir('dir')\n"
        "race('file', 'link', 'file', 'fifo', 'dir', 'out')"
    )
    forbidden = hashlib.sha256(PRECIOUS).hexdigest()
    seen = set()
    for number in range(60):
        result = await place.caller.run(
            f"for name in ('file', 'dir/key', 'new-{number}'):\n    try:\n        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK)\n        os.write(fd, b'{number}')\n        os.close(fd)\n    except OSError: pass"
        )
        assert result.outcome is Outcome.OK
        for artifact in result.artifacts or ():
            assert artifact.sha256 != forbidden
            assert artifact.bytes != len(PRECIOUS)
            seen.add(artifact.name)
    assert f"new-{59}" in seen


async def test_files_are_put_and_read_where_they_belong(place: Place) -> None:
    house, runtime = place.caller.house, place.caller.runtime
    await place.run(
        f"{RACE}\nos.makedirs('dir/below')\nos.symlink({str(place.secret)!r}, 'out')\n"
        f"os.symlink({str(place.secret / 'key')!r}, 'link')\nopen('key', 'w').write('inside')\nos.mkfifo('fifo')\n"
        "race('dir', 'out', 'key', 'link', 'key', 'fifo')"
    )
    done = {"put": 0, "read": 0, "refused": 0}
    async with asyncio.timeout(SECONDS):
        for number in range(100_000):
            if number >= 1_000 and all(done.values()):
                break
            try:
                await house.put_file(runtime, f"dir/below/{number % 20}", [b"put"])
                done["put"] += 1
            except (CellhouseError, FileError, OSError):
                done["refused"] += 1
            try:
                with house.open_content(runtime) as content:
                    assert content.read("key", 1_000) in (b"inside", b"")
                    done["read"] += 1
            except (FileError, OSError):
                done["refused"] += 1
    assert all(done.values()), done


TREE = """
import os, socket
here = os.open(".", os.O_RDONLY)
for _ in range(10_000):
    os.mkdir("d", dir_fd=here)
    below = os.open("d", os.O_RDONLY, dir_fd=here)
    os.close(here)
    here = below
os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=here))
os.close(here)
"""
ODDITIES = f"""
import os, socket
for name in (b"two\\nlines", b"\\xff\\xfe", b"tab\\tand\\x1b[2J", b"-rf", b" ", b"x" * 255, b"..."):
    open(name, "w").write("odd")
os.mkfifo("fifo")
with socket.socket(socket.AF_UNIX) as sock:
    sock.bind("socket")
with open("sparse", "wb") as file:
    file.truncate({60 * MIB})
open("original", "w").write("once")
os.link("original", "hard")
os.symlink("/etc/passwd", "link")
os.symlink("loop", "loop")
os.symlink("/proc/self/root/etc", "magic")
os.mkdir("closed")
open("closed/file", "w").write("x")
os.chmod("closed", 0)
os.mkdir(b"dir\\nwith\\xff")
open(b"dir\\nwith\\xff/file", "w").write("deep")
for path in ("/usr/bin/env", "/etc/passwd", "/proc/self/status"):
    try:
        os.link(path, "stolen")
        print("linked", path)
    except OSError as error:
        pass
"""


async def test_odd_things_are_told_or_left_out_and_all_of_them_go(place: Place) -> None:
    result = await place.caller.run(ODDITIES)
    assert (result.outcome, result.stdout) == (Outcome.OK, "")
    told = {artifact.name: artifact.bytes for artifact in result.artifacts or ()}
    assert {"two\nlines", "-rf", " ", "...", "x" * 255, "original", "hard", "sparse"} <= told.keys()
    assert told["sparse"] == 60 * MIB
    kinds = {
        artifact.name: artifact.error_info.metadata["kind"]
        for artifact in result.artifacts or ()
        if artifact.error_info is not None and artifact.error_info.reason == "NOT_A_FILE"
    }
    assert {"fifo", "link", "loop", "magic"} <= kinds.keys()
    assert {kinds["link"], kinds["loop"], kinds["magic"]} == {"symbolic link"}
    assert [told[name] for name in kinds] == [None] * len(kinds)
    assert not any(name.startswith("magic/") for name in told)


@pytest.mark.walls
@pytest.mark.slow
async def test_a_tree_10000_deep_holds_nobody_up(place: Place) -> None:
    result = await place.caller.run(TREE)
    assert result.outcome is Outcome.OK, result.execution_error
    assert {notice.reason for notice in result.notices or ()} == {"FILES_NOT_LISTED"}
    assert (await place.caller.run("1 + 1")).result == "2"
    with place.caller.house.open_content(place.caller.runtime) as content:
        assert content.scan(20_000).cut == {"depth"}


@pytest.mark.walls
@pytest.mark.slow
async def test_sockets_that_are_swapped_for_links_lead_to_no_socket_of_the_host(
    house: House, short: Path
) -> None:
    """A session watches where kernels of others meet the service, and puts links to a socket of the host there."""
    listener = socket.socket(socket.AF_UNIX)
    with contextlib.closing(listener):
        listener.bind(str(short / "host"))
        listener.listen(64)
        runtime = await house.create_runtime(RuntimeSpec(kernel="python3"))
        main = Caller(house, runtime.name, f"{runtime.name}/sessions/main")
        try:
            code = f"""
import os, stat, threading
swapped = []
def swap():
    while True:
        for place, _, names in os.walk("/run/cellhouse"):
            for name in names:
                path = os.path.join(place, name)
                try:
                    if stat.S_ISSOCK(os.lstat(path).st_mode) and path not in mine:
                        os.symlink({str(short / "host")!r}, path + ".new")
                        os.rename(path + ".new", path)
                        swapped.append(path)
                except OSError:
                    continue
mine = [os.path.join(place, name) for place, _, names in os.walk("/run/cellhouse") for name in names]
threading.Thread(target=swap, daemon=True).start()
"""
            await main.run(code)
            for number in range(4):
                # It starts, or says that it could not; either way it is this runtime's own matter.
                result = await main.in_session(f"other-{number}").run("1 + 1")
                assert result.outcome in (Outcome.OK, Outcome.NEVER_STARTED, Outcome.KERNEL_DIED), result
            assert int((await main.run("len(swapped)")).result) > 0
            assert not select.select([listener], [], [], 0)[0], "a socket of the host was reached"
            # Who connects by name is led there: the links that were planted are the host's to follow.
            await main.run(f"os.symlink({str(short / 'host')!r}, '/run/cellhouse/planted')")
            run = house.state_dir / "runtimes" / runtime.name.rpartition("/")[2] / "run"
            assert os.readlink(run / "planted") == str(short / "host")
            held = os.open(run, os.O_PATH)  # its own name may be too long for a socket's
            with socket.socket(socket.AF_UNIX) as client:
                await asyncio.to_thread(client.connect, f"/proc/self/fd/{held}/planted")
            os.close(held)
            assert select.select([listener], [], [], 0)[0]
        finally:
            await house.delete_runtime(runtime.name)
