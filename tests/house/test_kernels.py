"""Real kernels in a house: variables of one execution, another language, and that a closed house leaves nothing."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellhouse import ExecuteCodeRequest, House
from cellhouse.environments import Environment
from cellhouse.model import (
    ExecuteCodeResult,
    FailedPrecondition,
    NoticeReason,
    Outcome,
    RuntimeSpec,
    SessionLimits,
    SessionState,
    StreamEvent,
)
from cellhouse.runtime import ExecutionHandle, Settings
from tests.conftest import World
from tests.house.killing import living
from tests.leftovers import left_behind, look
from tests.runtime.support import notices, within


class Session:
    """One session of a house."""

    def __init__(self, house: House, name: str) -> None:
        self.house, self.name = house, name

    async def start(self, code: str, **options: object) -> ExecutionHandle:
        return await self.house.execute(ExecuteCodeRequest(code=code, session=self.name, **options))  # type: ignore[arg-type]

    async def run(self, code: str, **options: object) -> ExecuteCodeResult:
        return await within(await self.start(code, **options))

    async def printing(self, code: str, text: str, **options: object) -> ExecutionHandle:
        """Hand code in, and return once it has printed this."""
        handle = await self.start(code, **options)
        printed = ""
        async with asyncio.timeout(30):
            async for event in handle.events():
                if isinstance(event, StreamEvent):
                    printed += event.text
                    if text in printed:
                        return handle
        raise AssertionError(f"it ended and printed only {printed!r}")


@pytest.fixture
async def bash(bash_environment: Environment, tmp_path: Path) -> AsyncIterator[Session]:
    settings = Settings(
        state_dir=tmp_path / "state",
        environments=(bash_environment.prefix.parent,),
        session=SessionLimits(interrupt_grace=10.0),
    )
    async with House(settings=settings) as house:
        runtime = await house.create_runtime(RuntimeSpec(environment=bash_environment.name, kernel="bash"))
        yield Session(house, f"{runtime.name}/sessions/main")


async def test_another_language(bash: Session) -> None:
    result = await bash.run('x=4; echo "x is $x"; echo oops >&2; echo made > made.txt')
    assert (result.outcome, result.execution_count) == (Outcome.OK, 1)
    assert "x is 4\n" in result.stdout
    assert "oops" in result.stdout + result.stderr
    assert result.artifacts is not None
    assert [artifact.name for artifact in result.artifacts] == ["made.txt"]
    assert "still 4" in (await bash.run('echo "still $x"')).stdout
    session = bash.house.get_session(bash.name)
    assert (session.kernel, session.language) == ("bash", "bash")

    failed = await bash.run("echo before; false")
    assert (failed.outcome, failed.session_state) == (Outcome.ERROR, SessionState.PRESERVED)
    assert "before" in failed.stdout
    assert failed.execution_error is not None

    with pytest.raises(FailedPrecondition, match="Python kernels only, not in 'bash'"):
        await bash.start("echo $A", environment={"A": "1"})

    running = await bash.printing("echo begun; sleep 600; echo never", "begun")
    await running.cancel()
    interrupted = await within(running)
    assert (interrupted.outcome, interrupted.session_state) == (Outcome.INTERRUPTED, SessionState.PRESERVED)
    assert "never" not in interrupted.stdout
    late = await bash.run("sleep 600", execution_timeout=0.2)
    assert (late.outcome, late.session_state) == (Outcome.TIMED_OUT, SessionState.PRESERVED)
    assert "still 4" in (await bash.run('echo "still $x"')).stdout


@pytest.fixture
async def python(environment: Environment, tmp_path: Path) -> AsyncIterator[Session]:
    settings = Settings(state_dir=tmp_path / "state", environments=(environment.prefix.parent,))
    async with House(settings=settings) as house:
        runtime = await house.create_runtime()
        yield Session(house, f"{runtime.name}/sessions/main")


async def test_variables_hold_for_one_execution(python: Session) -> None:
    names = await python.run("import os; os.environ['KEPT'] = 'mine'; before = set(globals()); 1")
    assert names.execution_count == 1
    shown = "os.environ.get('NEW'), os.environ['KEPT'], os.environ['ODD']"
    odd = "'\"\\\n{}%s ä😀"
    result = await python.run(shown, environment={"NEW": "", "KEPT": "theirs", "ODD": odd})
    assert (result.result, result.execution_count) == (repr(("", "theirs", odd)), 2)
    child = (
        "import subprocess; subprocess.run(['sh', '-c', 'echo $KEPT'], capture_output=True, text=True).stdout"
    )
    assert (await python.run(child, environment={"KEPT": "theirs"})).result == "'theirs\\n'"
    after = await python.run("os.environ.get('NEW'), os.environ['KEPT'], os.environ.get('ODD')")
    assert after.result == "(None, 'mine', None)"
    # Restored also where the code raised, or changed them itself; and nothing of ours is in the namespace.
    raised = await python.run(
        "os.environ['NEW'] = 'x'; del os.environ['KEPT']; 1/0", environment={"NEW": "1", "KEPT": "2"}
    )
    assert raised.outcome is Outcome.ERROR
    assert (await python.run("os.environ.get('NEW'), os.environ['KEPT']")).result == "(None, 'mine')"
    left = await python.run("sorted(name for name in set(globals()) - before if not name.startswith('_'))")
    assert left.result == "['before', 'subprocess']"
    assert (
        await python.run("[n for n in __import__('sys').modules if 'cellhouse' in n and 'native' not in n]")
    ).result == "[]"
    history = await python.run("len(In) - 1")
    assert history.result == str(history.execution_count)


async def test_a_fresh_kernel_has_none_of_the_old_one(python: Session) -> None:
    await python.run("x = 1")
    await within(python.house.restart(python.name))
    result = await python.run("'x' in globals()")
    assert (result.result, notices(result)) == ("False", [NoticeReason.FRESH_KERNEL])


@pytest.mark.parametrize("isolation", ["bubblewrap", "none"])
async def test_a_closed_house_leaves_nothing(
    environment: Environment, tmp_path: Path, world: World, isolation: str
) -> None:
    settings = Settings(state_dir=tmp_path / "state", environments=(environment.prefix.parent,))
    before = look(world.directories)
    async with House(settings=settings) as house:
        runtime = await house.create_runtime(RuntimeSpec(isolation=isolation), runtime_id="one")
        session = Session(house, f"{runtime.name}/sessions/main")
        code = (
            "import os, subprocess, threading, time\n"
            "subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
            "threading.Thread(target=time.sleep, args=(600,)).start()\n"
            "print('begun', flush=True)\n"
            "time.sleep(600)"
        )
        running = await session.printing(code, "begun")
        follower = asyncio.ensure_future(_all_events(running))
        record = house._store.read("one")
        assert record is not None
        assert living(record.token)
    result = await within(follower)
    assert result[-1] == "finished"
    assert living(record.token) == []
    # What the loop keeps for itself is not of the house.
    await asyncio.get_running_loop().shutdown_default_executor()
    assert left_behind(before, directories=world.directories, mark=world.mark) == []
    assert sorted(os.listdir(tmp_path / "state" / "runtimes" / "one")) == ["content", "runtime.json"]


async def _all_events(handle: ExecutionHandle) -> list[str]:
    return [event.type async for event in handle.events()]
