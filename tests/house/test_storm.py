"""Callers who do anything at any time: whatever was accepted ends, once, on record, with a cause, and nothing is left."""

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings as hypothesis_settings, strategies as st

from cellhouse import CellhouseError, ExecuteCodeRequest, House
from cellhouse.model import ExecuteCodeResult, ExecutionState, Outcome, SessionLimits
from cellhouse.runtime import ExecutionHandle
from tests.runtime.support import FakeWorld, settings, within

MEMORY = Path("/dev/shm")
SESSIONS = st.sampled_from(["a", "b"])
CODES = st.sampled_from(
    ["print x", "raise E v", "hold", "swallow", "stubborn", "exit 1", "signal 11", "vanish", "ask ?", "silence",
     "no-idle", "abort", "display <b>", "write f.txt x"]
)  # fmt: skip
IDS = st.sampled_from(["", "", "one", "two"])
OPS = st.lists(
    st.one_of(
        st.tuples(st.just("execute"), SESSIONS, CODES, IDS),
        st.tuples(st.just("execute"), SESSIONS, CODES, IDS),
        st.tuples(st.just("execute in runtime"), st.just(""), CODES, IDS),
        st.tuples(st.sampled_from(["interrupt", "restart", "delete_session"]), SESSIONS),
        st.tuples(st.just("cancel"), st.integers(0, 20)),
        st.tuples(st.just("die"), st.integers(0, 5)),
        st.tuples(st.just("release")),
        st.tuples(st.just("pause"), st.integers(1, 30)),
        st.tuples(st.just("delete_runtime")),
        st.tuples(st.just("create_runtime")),
    ),
    max_size=25,
)


@dataclass
class Storm:
    """What was asked for, and what came of it."""

    house: House
    world: FakeWorld
    calls: list[asyncio.Task[None]] = field(default_factory=list)
    accepted: list[ExecutionHandle] = field(default_factory=list)
    ends: list[asyncio.Task[ExecuteCodeResult]] = field(default_factory=list)

    def do(self, op: tuple[object, ...]) -> None:
        self.calls.append(asyncio.ensure_future(self._try(op)))

    async def _try(self, op: tuple[object, ...]) -> None:
        try:
            await self._do(op)
        except CellhouseError as error:
            if error.http >= 500 and error.http != 503:
                raise  # not refused: our fault

    async def _do(self, op: tuple[object, ...]) -> None:
        house = self.house
        match op:
            case ("execute", str(session), str(code), str(given)):
                name = f"runtimes/r/sessions/{session}"
                request = ExecuteCodeRequest(code=code, session=name, execution_id=given)
                self._accept(await house.execute(request))
            case ("execute in runtime", _, str(code), str(given)):
                request = ExecuteCodeRequest(code=code, runtime="runtimes/r", execution_id=given)
                self._accept(await house.execute(request))
            case ("interrupt" | "restart" | "delete_session" as what, str(session)):
                await getattr(house, what)(f"runtimes/r/sessions/{session}")
            case ("cancel", int(number)) if number < len(self.accepted):
                await house.cancel(str(self.accepted[number].name))
            case ("die", int(number)):
                kernels = [kernel for launcher in self.world.launchers for kernel in launcher.made]
                if number < len(kernels):
                    kernels[number].die(signal=6)
            case ("release",):
                for launcher in self.world.launchers:
                    for kernel in launcher.made:
                        kernel.release.set()
            case ("delete_runtime",):
                await house.delete_runtime("runtimes/r")
            case ("create_runtime",):
                await house.create_runtime(runtime_id="r")
            case _:
                return

    def _accept(self, handle: ExecutionHandle) -> None:
        self.accepted.append(handle)
        self.ends.append(asyncio.ensure_future(handle.result()))


def check(result: ExecuteCodeResult) -> None:
    assert result.state is ExecutionState.FINISHED
    assert ExecuteCodeResult.from_json(result.to_json()) == result
    if result.outcome is not Outcome.OK:
        assert result.execution_error is not None
        assert result.outcome_info is not None


async def storm(directory: Path, ops: list[tuple[object, ...]]) -> None:
    world = FakeWorld()
    limits = settings(directory, session=SessionLimits(settle_seconds=0.01, exit_seconds=0.01))
    with pytest.MonkeyPatch.context() as patch:
        world.install(patch)
        async with House(settings=limits) as house:
            await house.create_runtime(runtime_id="r")
            made = Storm(house, world)
            for op in ops:
                if op[0] == "pause":
                    for _ in range(int(str(op[1]))):
                        await asyncio.sleep(0)
                else:
                    made.do(op)
            # The storm is over: what it was can be read while everything is brought to its end.
            await asyncio.sleep(0)
            closing = asyncio.ensure_future(house.close())
            await within(asyncio.gather(*made.calls))
            results = [await within(end) for end in made.ends]
            await within(closing)
        assert all(sandbox.closed for sandbox in world.sandboxes)
        assert all(kernel.closed for launcher in world.launchers for kernel in launcher.made)
        async with House(settings=limits) as house:
            for handle, result in zip(made.accepted, results, strict=True):
                check(result)
                name = str(handle.name)
                assert await house.get_execution(name) == result
                events = [event async for event in house.events(name)]
                assert [getattr(event, "seq", 0) for event in events] == list(range(1, len(events) + 1))
                assert [event.type for event in events].count("finished") == 1
            for launcher in world.launchers:
                for kernel in launcher.made:
                    assert kernel.wrong is None
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not others


@pytest.mark.timeout(300)
def test_whatever_callers_do() -> None:
    @hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(ops=OPS)
    def any_of_it(ops: list[tuple[object, ...]]) -> None:
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
            asyncio.run(storm(Path(directory), ops))

    any_of_it()
