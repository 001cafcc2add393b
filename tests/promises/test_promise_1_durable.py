"""Promise 1: an execution is a durable object."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from cellhouse import House
from cellhouse.model import CallReason, Event, ExecutionState, FinishedEvent, NotFound, Outcome, TailFrame
from tests.promises.support import Caller

pytestmark = pytest.mark.asyncio(loop_scope="module")

CODE = """
import os, time
from IPython.display import HTML, display
print('begun', flush=True)
while not os.path.exists('go'):
    time.sleep(0.01)
display(HTML('<b>shown</b>'))
print('done')
6 * 7
"""


async def numbered(house: House, name: str, after: int = 0) -> list[Event]:
    return [event async for event in house.events(name, after=after) if not isinstance(event, TailFrame)]


async def test_a_caller_that_goes_away_interrupts_nothing_and_reads_on_from_its_number(
    caller: Caller,
) -> None:
    house = caller.house
    handle = await caller.printing(CODE, "begun")
    name = str(handle.name)
    # It has a name, a state and a log while it runs.
    assert name.startswith(f"{caller.session}/executions/")
    assert (await house.get_execution(name)).state is ExecutionState.RUNNING

    seen: list[Event] = []

    async def watch(events: AsyncIterator[Event]) -> None:
        async for event in events:
            seen.append(event)  # noqa: PERF401 - it is broken off

    call, stream = asyncio.ensure_future(handle.result()), asyncio.ensure_future(watch(handle.events()))
    while len(seen) < 3:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    for gone in (call, stream):
        gone.cancel()
    await asyncio.wait([call, stream])
    del handle

    await house.put_file(caller.runtime, "go", [b""])
    rest = await numbered(house, name, after=seen[-1].seq)
    events = [*seen, *rest]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events == await numbered(house, name)

    # One `finished`, and it freezes the result.
    ends = [event for event in events if isinstance(event, FinishedEvent)]
    assert ends == [events[-1]]
    result = await house.get_execution(name)
    assert ends[0].result == result
    assert (result.outcome, result.stdout, result.result) == (Outcome.OK, "begun\ndone\n", "42")


async def test_the_record_outlives_session_and_runtime_and_the_files_do_not(caller: Caller) -> None:
    house = caller.house
    runtime = await house.create_runtime()
    other = Caller(house, runtime.name, f"{runtime.name}/sessions/main")
    result = await other.run(
        "from IPython.display import HTML\nopen('made.txt', 'w').write('x')\nHTML('<b>')"
    )
    events = await numbered(house, result.execution)
    assert "<b>" in str(await house.get_bundle(result.execution, 0))

    await house.delete_session(other.session)
    assert await house.get_execution(result.execution) == result
    assert "<b>" in str(await house.get_bundle(result.execution, 0))  # files are the runtime's

    await house.delete_runtime(runtime.name)
    assert await house.get_execution(result.execution) == result
    assert await numbered(house, result.execution) == events
    assert [entry.name for entry in house.list_executions(other.session).entries] == [result.execution]
    with pytest.raises(NotFound) as gone:
        await house.get_bundle(result.execution, 0)
    assert gone.value.reason == CallReason.RUNTIME_DELETED
    with pytest.raises(NotFound) as gone:
        house.open_content(runtime.name)
    assert gone.value.reason == CallReason.RUNTIME_DELETED
