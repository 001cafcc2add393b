"""Everything dies, in whatever order a seed says; what the contract promises holds all the same.

`CHAOS_SEEDS=17 make test PYTEST_ARGS=tests/chaos` replays one; `make test-chaos` runs a hundred.
"""

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest

from cellhouse.environments import Environment
from cellhouse.keepers import KeptHouse
from cellhouse.keepers.place import SOCKET, places
from cellhouse.model import ExecutionState, FinishedEvent, Outcome, StreamEvent
from tests.chaos.caller import Call
from tests.chaos.schedule import RUNTIMES, SESSIONS, lines, steps
from tests.chaos.world import World
from tests.house.killing import living
from tests.keepers.support import recorded, settings


def _seeds() -> list[int]:
    """`CHAOS_SEEDS`: numbers and ranges, as in `3,10-19`."""
    found: list[int] = []
    for part in os.environ.get("CHAOS_SEEDS", "0-1").split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", _seeds())
async def test_nothing_is_lost_doubled_or_left_whatever_dies(
    environment: Environment, tmp_path: Path, seed: int
) -> None:
    start = "zygote" if seed % 2 else "fresh"
    world = World(tmp_path / "state", environment.prefix.parent, tmp_path / "s", start)
    try:
        async with world.client():
            await world.begin()
            await world.make_runtimes()
            for step in steps(seed):
                await world.do(step)
            async with asyncio.timeout(240):
                await world.settle()
        assert await world.end() == 0
        for runtime in RUNTIMES:
            world.read_ran(runtime)
        told = f"seed {seed}: " + "; ".join(world.log)
        _check_callers(world, told)
        _check_runs(world, told)
        _check_leftovers(world, told)
        await _check_records(world, environment, told)
    except BaseException:
        print(f"seed {seed}:", *world.log, sep="\n  ")
        raise
    finally:
        await world.close()


def _check_callers(world: World, told: str) -> None:
    """Whoever was not refused was given every event once, in order, up to one end."""
    for call in world.calls:
        assert call.ended or call.refused, (call.id, told)
        numbers = [event["seq"] for event in call.seen]
        assert numbers == list(range(1, len(numbers) + 1)), (call.id, call.connections, numbers, told)
        assert sum(event["type"] == "finished" for event in call.seen) == int(call.ended), (call.id, told)


def _check_runs(world: World, told: str) -> None:
    """No code ran twice; what is said to have run to its end did run, what is said never to have started did not."""
    ran = Counter(name for names in world.ran.values() for name in names)
    assert all(count == 1 for count in ran.values()), (ran, told)
    for call in world.calls:
        if call.ended and call.seen[-1]["result"]["outcome"] == Outcome.NEVER_STARTED:
            assert ran[call.id] == 0, (call.id, told)


def _check_leftovers(world: World, told: str) -> None:
    """Nothing of any runtime: no process, socket, mount, group."""
    for token in world.tokens:
        assert living(token) == [], told
    assert str(world.state) not in Path("/proc/self/mountinfo").read_text(), told
    for place in places(world.state):
        assert place.is_over, (place.runtime, told)
        assert not (place.directory / SOCKET).exists(), (place.runtime, told)
        for runtime in (place.directory / "runtimes").iterdir():
            left = {path.name for path in runtime.iterdir()} - {"content", "runtime.json"}
            assert not left, (place.runtime, left, told)


async def _check_records(world: World, environment: Environment, told: str) -> None:
    """Each execution has one end on record, numbers without a gap, and every line that was printed up to there."""
    calls = {call.name: call for call in world.calls if call.name}
    async with KeptHouse(settings(world.state, environment)) as house:
        assert (await house.census()).unfinished == 0, told
        listed: set[str] = set()
        for runtime in RUNTIMES:
            for session in SESSIONS:
                name = f"runtimes/{runtime}/sessions/{session}"
                page = await house.list_executions(name, page_size=1_000)
                assert all(entry.state is ExecutionState.FINISHED for entry in page.entries), told
                listed |= {entry.name for entry in page.entries}
        assert set(calls) <= listed, told
        for name in listed:
            events = await recorded(house, name)
            assert [event.seq for event in events] == list(range(1, len(events) + 1)), (name, told)
            assert [type(event) for event in events].count(FinishedEvent) == 1, (name, told)
            end = events[-1]
            assert isinstance(end, FinishedEvent), (name, told)
            if (call := calls.get(name)) is not None:
                printed = "".join(
                    event.text
                    for event in events
                    if isinstance(event, StreamEvent) and event.name == "stdout"
                )
                _check_text(call, printed, end, told)


def _check_text(call: Call, printed: str, end: FinishedEvent, told: str) -> None:
    whole, result = lines(call.kind, call.id), end.result
    assert whole.startswith(printed), (call.id, printed, told)
    assert result.stdout == printed, (call.id, result.outcome, told)
    if result.outcome in (Outcome.OK, Outcome.ERROR, Outcome.EXITED):
        assert printed == whole, (call.id, result.outcome, told)
    if result.outcome is Outcome.NEVER_STARTED:
        assert printed == "", (call.id, told)
