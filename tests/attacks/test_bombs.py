"""What uses up everything ends for that cause; meanwhile and afterwards the rest of the house goes on, and nothing is left."""

import asyncio
import resource
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from cellhouse import House
from cellhouse.environments import Environment
from cellhouse.model import ExecuteCodeResult, Outcome, RuntimeLimits, RuntimeSpec
from cellhouse.runtime import Settings
from tests.attacks.bombs import BOMBS, CONTENT, LIMITS, MEMORY, OPEN_FILES, Bomb
from tests.attacks.host import UNSHARE
from tests.promises.conftest import warm_threads
from tests.promises.support import SECONDS, Caller
from tests.sandbox.support import PYTHON

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.native]

LATER = [pytest.mark.walls, pytest.mark.slow]
SERVICE_BYTES = 64 << 20
"""What the service may need for any of this, besides what it has."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    settings = Settings(
        state_dir=tmp_path_factory.mktemp("bombs") / "state", environments=(environment.prefix.parent,)
    )
    await warm_threads()
    async with House(settings=settings) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bystander(house: House) -> Caller:
    runtime = await house.create_runtime(
        RuntimeSpec(start="fresh", limits=RuntimeLimits(open_files=OPEN_FILES))
    )
    made = Caller(house, runtime.name, f"{runtime.name}/sessions/main")
    await made.run("kept = 1")
    return made


async def still_works(bystander: Caller, name: str) -> None:
    """A runtime beside it: a session that is there, and a new one."""
    assert (await bystander.run("kept + 1")).result == "2"
    new = bystander.in_session(f"new-{name}")
    assert (await new.run("1 + 1")).result == "2"
    await bystander.house.delete_session(new.session)


def marked(bomb: Bomb) -> object:
    return pytest.param(bomb, id=bomb.name, marks=[] if bomb.quick else LATER)


class Peak:
    """How much more memory this process had at most than at the beginning."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")
        self._before = _of_itself("VmRSS")

    @property
    def grown(self) -> int:
        return _of_itself("VmHWM") - self._before


def _of_itself(name: str) -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{name}:")) << 10


@pytest.mark.parametrize("bomb", [marked(bomb) for bomb in BOMBS])
async def test_inside(house: House, bystander: Caller, bomb: Bomb) -> None:
    peak = Peak()
    runtime = await house.create_runtime(RuntimeSpec(start="fresh", limits=LIMITS))
    enforcement = next(limit.enforcement for limit in runtime.limits or () if limit.name == bomb.limit)
    directory = house.state_dir / "runtimes" / runtime.name.rpartition("/")[2]
    caller = Caller(house, runtime.name, f"{runtime.name}/sessions/main")
    try:
        await caller.run("None")
        handle = await caller.printing(bomb.cell(bomb.place), bomb.until)
        await still_works(bystander, bomb.name)
        async with asyncio.timeout(SECONDS):
            result = await handle
        assert_stopped(bomb, enforcement, result)
        # Its own session says how it stands with it, and soon; whatever the bomb has left there is its own.
        assert (await caller.run("1 + 1")).outcome is not None
        await still_works(bystander, bomb.name)
    finally:
        await house.delete_runtime(runtime.name)
    assert peak.grown < SERVICE_BYTES
    assert not directory.exists()
    assert str(directory) not in Path("/proc/self/mountinfo").read_text()


def assert_stopped(bomb: Bomb, enforcement: str, result: ExecuteCodeResult) -> None:
    lines = result.stdout.splitlines()
    assert lines[0] == "lit"
    if enforcement != "exact" and bomb.watched is None:
        # Not held, and documented as such; this fails as soon as it is.
        assert lines[1:] == ["reached"]
        return
    if result.outcome is Outcome.OK:
        assert lines[1:] in [[f"refused {name}"] for name in bomb.refusals]
        return
    info = result.outcome_info
    assert info is not None
    assert (result.outcome, info.reason) == (bomb.ended if enforcement == "exact" else bomb.watched)
    assert result.execution_error is not None
    if bomb.ended == bomb.watched:
        assert int(info.metadata["limitBytes"]) == MEMORY


@pytest.mark.walls
@pytest.mark.slow
@pytest.mark.parametrize("bomb", [pytest.param(bomb, id=bomb.name) for bomb in BOMBS])
async def test_without_walls(tmp_path: Path, bomb: Bomb) -> None:
    """Each gets several times what it is allowed above, in a place of its own that is thrown away."""

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (16 * MEMORY, 16 * MEMORY))
        resource.setrlimit(resource.RLIMIT_NOFILE, (16 * OPEN_FILES, 16 * OPEN_FILES))

    script = f"mount -t tmpfs -o size={4 * MEMORY + CONTENT} none '{tmp_path}' && exec \"$@\""
    program = bomb.cell(str(tmp_path), walled=False) + "\nsys.stdout.flush(); os._exit(0)"
    done = subprocess.run(
        [*UNSHARE, "sh", "-c", script, "sh", str(PYTHON), "-I", "-S", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=bounded,
    )
    assert done.stdout.split() == ["lit", "reached"], done.stderr
