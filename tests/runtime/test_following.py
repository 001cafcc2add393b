"""Following an execution: from any number, by any number of readers, slow ones too, and past the end."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from cellhouse import House
from cellhouse.model import (
    CallReason,
    CaptureLimits,
    Event,
    FinishedEvent,
    InvalidArgument,
    LateEvent,
    NotFound,
    StreamEvent,
    TailFrame,
)
from tests.runtime.support import (
    Clock,
    FakeWorld,
    Place,
    event_of,
    events_of,
    kinds,
    new_place,
    settings,
    within,
)


def numbers(events: Sequence[Event]) -> list[int]:
    return [event.seq for event in events]


async def read(events: AsyncIterator[Event | TailFrame]) -> list[Event]:
    async with asyncio.timeout(20):
        return [event async for event in events if not isinstance(event, TailFrame)]


async def test_from_one_on_to_the_end(place: Place) -> None:
    handle = await place.start("print x\nvalue 4")
    events = await events_of(handle)
    assert kinds(events) == ["queued", "started", "stream", "result", "finished"]
    assert numbers(events) == [1, 2, 3, 4, 5]
    assert events[1].to_wire()["executionCount"] == 1
    assert all(event.time.endswith("Z") for event in events)
    assert isinstance(events[-1], FinishedEvent)
    assert events[-1].result == await within(handle)


async def test_from_any_number(place: Place) -> None:
    handle = await place.start("print a\nprint b\nprint c")
    events = await events_of(handle)
    for after in range(len(events) + 3):
        assert await read(handle.events(after=after)) == events[after:]
        assert await read(place.house.events(str(handle.name), after=after)) == events[after:]


@pytest.mark.parametrize("after", [-1, -(2**70)])
async def test_a_negative_number(place: Place, after: int) -> None:
    handle = await place.start("print a")
    with pytest.raises(InvalidArgument) as refused:
        place.house.events(str(handle.name), after=after)
    assert refused.value.metadata["field"] == "after"
    with pytest.raises(InvalidArgument):
        await read(handle.events(after=after))
    await within(handle)


async def test_an_execution_that_is_none(place: Place) -> None:
    for name in (f"{place.session()}/executions/none", "runtimes/none/sessions/s/executions/none"):
        with pytest.raises(NotFound) as refused:
            place.house.events(name)
        assert refused.value.reason == CallReason.NO_SUCH_EXECUTION
    with pytest.raises(InvalidArgument):
        place.house.events("executions/none")


async def test_many_readers_and_slow_ones(place: Place) -> None:
    lines = 3_000
    handle = await place.running("hold\n" + "\n".join(f"print {number}" for number in range(lines)))
    slow = handle.events()
    assert (await anext(slow)).seq == 1
    quick = [asyncio.ensure_future(events_of(handle)) for _ in range(20)]
    await asyncio.sleep(0)
    place.kernel.release.set()
    result = await within(handle)  # nobody waited for the slow one
    events = await quick[0]
    assert numbers(events) == list(range(1, len(events) + 1))
    assert [await reader for reader in quick] == [events] * 20
    assert [events[0], *await read(slow)] == events
    printed = "".join(event.text for event in events if isinstance(event, StreamEvent))
    assert printed == "".join(f"{number}\n" for number in range(lines)) == result.stdout


async def test_one_that_comes_while_it_runs(place: Place) -> None:
    handle = await place.running("print early\nhold\nprint late")
    await event_of(handle, "stream")
    reader = asyncio.ensure_future(read(handle.events(after=2)))
    place.kernel.release.set()
    assert [event.seq for event in await reader] == [3, 4, 5]


async def test_readers_that_go_away(place: Place) -> None:
    handle = await place.running("hold")
    readers = [asyncio.ensure_future(events_of(handle)) for _ in range(5)]
    await asyncio.sleep(0)
    for reader in readers[:4]:
        reader.cancel()
    await asyncio.wait(readers[:4])
    place.kernel.release.set()
    assert (await readers[4])[-1].type == "finished"


# After the end


async def test_late_output_is_numbered_on(place: Place) -> None:
    handle = await place.start("print x")
    frozen = await within(handle)
    uid = place.house._log(handle.name).uid
    reader = asyncio.ensure_future(read(handle.events(late=True)))
    place.kernel.print("late\n", parent=uid)
    place.kernel.print("oh\n", name="stderr", parent=uid)
    place.kernel.say("display_data", {"data": {"text/html": "<b>"}, "metadata": {}}, parent=uid)
    await event_of(handle, "late", after=6)
    snapshot = await place.house.get_execution(str(handle.name))
    assert snapshot.late is not None
    assert snapshot.late.to_wire() == {"stdoutBytes": "5", "stderrBytes": "3", "displays": 1}
    assert snapshot.model_copy(update={"late": None}) == frozen
    # Who does not ask for it sees the end last.
    assert (await events_of(handle))[-1].type == "finished"
    # Who does is let go once nothing late can come any more.
    await within(place.house.restart(place.session()))
    events = await reader
    assert kinds(events) == ["queued", "started", "stream", "finished", "late", "late", "late"]
    assert numbers(events) == [1, 2, 3, 4, 5, 6, 7]
    assert isinstance(events[-1], LateEvent)
    assert events[-1].mime_types == ("text/html",)
    assert (await place.house.get_execution(str(handle.name))).late == snapshot.late


@pytest.mark.parametrize("end", ["delete_session", "delete_runtime", "exit 0"])
async def test_who_follows_late_is_let_go(place: Place, end: str) -> None:
    handle = await place.start("print x")
    await within(handle)
    reader = asyncio.ensure_future(read(handle.events(late=True)))
    await asyncio.sleep(0)
    if end == "exit 0":
        await place.run(end)
    else:
        target = place.session() if end == "delete_session" else place.runtime
        await within(getattr(place.house, end)(target))
    assert (await within(reader))[-1].type == "finished"


async def test_late_output_is_there_in_the_next_house(place: Place) -> None:
    handle = await place.start("print x")
    await within(handle)
    place.kernel.print("late\n", parent=place.house._log(handle.name).uid)
    await event_of(handle, "late")
    await place.house.close()
    async with House(settings=settings(place.house.state_dir)) as house:
        name = str(handle.name)
        assert kinds(await read(house.events(name, late=True)))[-2:] == ["finished", "late"]
        assert kinds(await read(house.events(name)))[-1] == "finished"
        late = (await house.get_execution(name)).late
        assert late is not None
        assert late.stdout_bytes == 5


async def test_late_output_of_nobody_goes_to_the_session(place: Place) -> None:
    handle = await place.start("print x")
    await within(handle)
    for parent in ("nobody", ""):
        place.kernel.print(f"for {parent!r}", parent=parent)
    place.kernel.raw("from C\n")
    result = await place.run("print y")
    assert result.stdout == "y\n"
    texts = [entry["text"] for entry in place.house.session_log(place.session())]
    assert texts == ["for 'nobody'", "for ''", "from C\n"]
    assert (await place.house.get_execution(str(handle.name))).late is None


async def test_late_output_while_another_runs(place: Place) -> None:
    first = await place.start("print x")
    await within(first)
    second = await place.running("hold")
    place.kernel.print("late\n", parent=place.house._log(first.name).uid)
    place.kernel.release.set()
    assert (await within(second)).stdout == ""
    late = (await place.house.get_execution(str(first.name))).late
    assert late is not None
    assert late.stdout_bytes == 5


# Past what is logged


async def test_tail_frames_for_those_who_watch(fakes: FakeWorld, tmp_path: Path) -> None:
    capture = CaptureLimits(event_text_bytes=64, tail_seconds=0.01)
    async with House(settings=settings(tmp_path, capture=capture)) as house:
        place = await new_place(house, fakes)
        handle = await place.running("\n".join(f"print {'x' * 9}{number}" for number in range(50)) + "\nhold")
        live = handle.live()
        frames: list[TailFrame] = []
        async with asyncio.timeout(20):
            while not frames or not frames[-1].text.endswith("49\n"):
                if isinstance(passing := await anext(live), TailFrame):
                    frames.append(passing)
        assert all("seq" not in frame.to_wire() for frame in frames)
        assert len("".join(frame.text for frame in frames)) <= 550
        place.kernel.release.set()
        result = await within(handle)
        assert result.stdout.count("\n") == 50
        events = await events_of(handle)
        assert numbers(events) == list(range(1, len(events) + 1))
        assert "notice" in kinds(events)
        assert not any(isinstance(event, TailFrame) for event in events)
        assert (await within(anext(live))).to_wire()["type"] == "finished"


async def test_a_clock_that_stands_still_stops_nothing(fakes: FakeWorld, tmp_path: Path) -> None:
    """What is due by the house's clock is awaited in the loop's time, which is another one."""
    capture = CaptureLimits(event_text_bytes=16)
    async with House(settings=settings(tmp_path, capture=capture), clock=Clock()) as house:
        place = await new_place(house, fakes)
        handle = await place.running("\n".join(f"print {number}" for number in range(50)) + "\nhold")
        place.kernel.release.set()
        assert (await within(handle)).stdout.count("\n") == 50
