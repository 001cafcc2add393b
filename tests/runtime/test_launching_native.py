"""Native kernels in a house, however they come to be: fresh, forked, forked ahead; with real walls and a real IPython."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cellhouse import House
from cellhouse.environments import find_environment
from cellhouse.model import (
    MIB,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    FailedPrecondition,
    Outcome,
    Runtime,
    RuntimeLimits,
    RuntimeSpec,
)
from cellhouse.runtime import Settings, native, nursery as nursery_module
from cellhouse.runtime.native import NativeLauncher
from tests.runtime.support import until, within

ASK = "import json, os, random, sys; print(json.dumps({'modules': 'wave' in sys.modules, 'path': sys.path[0], 'argv': len(sys.argv), 'backend': os.environ['MPLBACKEND'], 'mark': os.environ['CELLHOUSE_PROCESS'], 'cwd': os.getcwd(), 'random': random.random(), 'command': open('/proc/self/cmdline').read().split(chr(0))[2], 'signals': open('/proc/self/status').read().split('SigBlk:')[1].split()[0], 'descriptors': sorted(map(int, os.listdir('/proc/self/fd')))[:3]}))"


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    settings = Settings(state_dir=tmp_path / "state", preload=("wave",))  # which no start imports by itself
    async with House(settings=settings) as made:
        yield made


async def run(house: House, session: str, code: str) -> ExecuteCodeResult:
    return await within(await house.execute(ExecuteCodeRequest(code=code, session=session)))


async def ask(house: House, session: str) -> dict[str, Any]:
    result = await run(house, session, ASK)
    assert result.outcome is Outcome.OK, result
    found: dict[str, Any] = json.loads(str(result.stdout))
    return found


def launcher(house: House, runtime: Runtime) -> NativeLauncher:
    made = house._runtimes.hosts[str(runtime.name).removeprefix("runtimes/")]._native  # type: ignore[attr-defined]
    assert isinstance(made, NativeLauncher)
    return made


def importing(house: House, runtime: Runtime, module: str, code: str) -> None:
    """Have the zygotes of a runtime import this module too."""
    nursery = launcher(house, runtime)._nursery
    assert nursery is not None
    content = house.state_dir / "runtimes" / str(runtime.name).removeprefix("runtimes/") / "content"
    (content / f"{module}.py").write_text(code)
    nursery._env = {**nursery._env, "PYTHONPATH": "/content"}
    nursery._preload.append(module)


def landlock(runtime: Runtime) -> tuple[str, str]:
    assert runtime.isolation is not None
    return next(
        (layer.status, layer.detail) for layer in runtime.isolation.layers if layer.name == "landlock"
    )


async def test_the_first_is_fresh_and_the_next_are_forked(house: House) -> None:
    runtime = await house.create_runtime(RuntimeSpec(kernel="native"))
    found = [await ask(house, f"{runtime.name}/sessions/s0")]
    nursery = launcher(house, runtime)._nursery
    assert nursery is not None
    await until(lambda: nursery._spares)
    found += [await ask(house, f"{runtime.name}/sessions/s{number}") for number in (1, 2, 3)]
    fresh, *forked = found
    assert fresh["command"].endswith("kernel.py")
    assert not fresh["modules"]
    for each in forked:
        assert each["command"].endswith("zygote.py")
        assert each["modules"]
        assert {
            name: each[name] for name in ("path", "argv", "backend", "cwd", "signals", "descriptors")
        } == {name: fresh[name] for name in ("path", "argv", "backend", "cwd", "signals", "descriptors")}
    assert len({each["mark"] for each in found}) == len({each["random"] for each in found}) == 4


async def test_fresh_is_never_forked(house: House) -> None:
    runtime = await house.create_runtime(RuntimeSpec(kernel="native", start="fresh"))
    for number in (1, 2):
        found = await ask(house, f"{runtime.name}/sessions/s{number}")
        assert found["command"].endswith("kernel.py")
    assert launcher(house, runtime)._nursery is None
    assert landlock(runtime)[0] == "in force"


async def test_sessions_of_one_runtime_are_out_of_each_others_reach(house: House) -> None:
    runtime = await house.create_runtime(RuntimeSpec(kernel="native"))
    if landlock(runtime)[0] != "in force":
        pytest.skip(landlock(runtime)[1])
    names = [f"{runtime.name}/sessions/s{number}" for number in range(3)]
    pids = [int(str((await run(house, name, "import os; os.getpid()")).result)) for name in names]
    code = """
import os, signal
for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
    if pid not in (1, os.getpid()):
        for what in (lambda: os.kill(pid, signal.SIGKILL), lambda: open(f"/proc/{pid}/mem", "rb")):
            try:
                what()
            except PermissionError:
                print("refused")
            else:
                print("done to", pid)
"""
    result = await run(house, names[1], code)
    assert set(str(result.stdout).split()) == {"refused"}
    for name, pid in zip(names, pids, strict=True):
        assert (await run(house, name, "os.getpid()")).result == str(pid)


@pytest.mark.parametrize("isolation", ["bubblewrap", "none"])
async def test_a_session_that_is_killed_or_restarted_comes_from_the_zygote_again(
    house: House, isolation: str
) -> None:
    runtime = await house.create_runtime(RuntimeSpec(kernel="native", isolation=isolation))
    nursery = launcher(house, runtime)._nursery
    assert nursery is not None
    nursery.begin()
    await until(lambda: nursery.ready)
    name = f"{runtime.name}/sessions/s"
    assert (await ask(house, name))["command"].endswith("zygote.py")
    died = await run(house, name, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert died.outcome is not Outcome.OK
    assert (await ask(house, name))["command"].endswith("zygote.py")
    await house.restart(name)
    assert (await ask(house, name))["command"].endswith("zygote.py")


async def test_where_no_zygote_is_to_be_had_sessions_are_fresh(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = await house.create_runtime(RuntimeSpec(kernel="native"))
    nursery = launcher(house, runtime)._nursery
    assert nursery is not None
    nursery._python = "/bin/false"
    for number in (1, 2):
        assert (await ask(house, f"{runtime.name}/sessions/s{number}"))["command"].endswith("kernel.py")


async def test_a_zygote_that_hangs_costs_nobody_a_session(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = await house.create_runtime(RuntimeSpec(kernel="native"))
    nursery = launcher(house, runtime)._nursery
    assert nursery is not None
    nursery._wanted = 0
    importing(house, runtime, "hangs", "import signal; signal.pause()")
    nursery.begin()
    await until(lambda: nursery._zygote is not None and nursery._zygote._importing == "hangs")
    monkeypatch.setattr("cellhouse.runtime.zygote.FORK_SECONDS", 0.1)
    assert (await ask(house, f"{runtime.name}/sessions/s"))["command"].endswith("kernel.py")


async def test_a_zygote_that_takes_all_memory_is_replaced_and_disturbs_nobody(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(nursery_module._logger, "warning", lambda text, **more: told.append(more["error"]))
    runtime = await house.create_runtime(RuntimeSpec(kernel="native", limits=RuntimeLimits(memory=192 * MIB)))
    if next(each for each in runtime.limits or () if each.name == "memory").enforcement != "exact":
        pytest.skip("without a group there is nobody who ends it at once")
    nursery = launcher(house, runtime)._nursery
    assert nursery is not None
    nursery.put_off()
    name = f"{runtime.name}/sessions/first"
    assert (await ask(house, name))["command"].endswith("kernel.py")
    await run(house, name, "kept = 1; import os")
    nursery.put_off()
    importing(house, runtime, "hog", "x = bytearray(1 << 30)")
    nursery.begin()
    await until(lambda: told)
    assert "while it imported hog" in told[0]
    assert told[0].endswith(f"; it was ended by the runtime's memory limit of {192 * MIB}")
    await until(lambda: nursery.ready and nursery._zygote is not None and nursery._zygote.settled.is_set())
    # Without what it died of; and sessions come from it.
    assert nursery._preload == ["wave"]
    found = await ask(house, f"{runtime.name}/sessions/second")
    assert (found["command"].endswith("zygote.py"), found["modules"]) == (True, True)
    kept = await run(house, name, "kept")
    assert (kept.outcome, kept.result, kept.notices) == (Outcome.OK, "1", None)
    assert len(told) == 1


async def test_a_session_that_stops_itself_goes_on(house: House) -> None:
    runtime = await house.create_runtime(RuntimeSpec(kernel="native"))
    nursery = launcher(house, runtime)._nursery
    assert nursery is not None
    for session, begin in (("fresh", nursery.put_off), ("forked", nursery.begin)):
        begin()
        name = f"{runtime.name}/sessions/{session}"
        assert session == "fresh" or (await ask(house, name))["command"].endswith("zygote.py")
        result = await run(
            house, name, "import os, signal; os.kill(os.getpid(), signal.SIGSTOP); print('on')"
        )
        assert (result.outcome, result.stdout) == (Outcome.OK, "on\n")


async def test_without_landlock_sessions_are_fresh_and_that_is_told(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "landlock_abi", lambda: 4)
    runtime = await house.create_runtime(RuntimeSpec(kernel="native"))
    status, detail = landlock(runtime)
    assert status == "absent"
    assert "ABI 4" in detail
    assert "started fresh" in detail
    assert launcher(house, runtime)._nursery is None
    with pytest.raises(FailedPrecondition, match="ABI 6"):
        await house.create_runtime(RuntimeSpec(kernel="native", start="zygote"))
    unwalled = await house.create_runtime(RuntimeSpec(kernel="native", start="zygote", isolation="none"))
    assert launcher(house, unwalled)._nursery is not None


async def test_other_kernels_are_never_forked(house: House) -> None:
    with pytest.raises(FailedPrecondition, match=r"'python3' can't be started from a zygote"):
        await house.create_runtime(RuntimeSpec(kernel="python3", start="zygote"))
    runtime = await house.create_runtime(RuntimeSpec(kernel="python3", start="fresh"))
    assert runtime.kernel == "python3"
    assert landlock(runtime)[0] == "absent"


async def test_a_runtime_that_ends_takes_everything_with_it(house: House) -> None:
    runtime = await house.create_runtime(RuntimeSpec(kernel="native", isolation="none"))
    names = [f"{runtime.name}/sessions/s{number}" for number in range(3)]
    await asyncio.gather(*(ask(house, name) for name in names))
    pids = [int(str((await run(house, name, "import os; os.getpid()")).result)) for name in names]
    await house.delete_runtime(str(runtime.name))
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_the_default_environment_has_it() -> None:
    assert find_environment().kernel("native").language == "python"
