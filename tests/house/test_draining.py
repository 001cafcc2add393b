"""A house that is about to close: nothing new, what was accepted may end, then it is interrupted."""

import asyncio

import pytest

from cellhouse import House
from cellhouse.model import CallReason, NotFound, Outcome, ResourceExhausted, RuntimeSpec, Unavailable
from tests.runtime.support import FakeWorld, Place, new_place, settings, until, within


async def test_nothing_new_is_taken_and_what_was_accepted_ends(place: Place) -> None:
    running = await place.running("hold\nprint done", execution_id="one")
    draining = asyncio.ensure_future(place.house.drain(seconds=20))
    await asyncio.sleep(0)
    for call in (place.start("print new"), place.house.create_runtime()):
        with pytest.raises(Unavailable) as refused:
            await call
        assert refused.value.reason == CallReason.SHUTTING_DOWN
    attached = await place.start("hold\nprint done", execution_id="one")
    assert attached.attached
    place.kernel.release.set()
    await within(draining)
    assert (await within(running)).stdout == "done\n"
    assert (await within(attached)).outcome is Outcome.OK
    assert place.house.unfinished == ()


async def test_what_does_not_end_is_interrupted_the_queued_first(place: Place) -> None:
    running = await place.running("hold")
    waiting = await place.start("print never")
    await within(place.house.drain(seconds=0.01))
    assert (await within(running)).outcome is Outcome.INTERRUPTED
    assert (await within(waiting)).outcome is Outcome.NEVER_STARTED
    assert place.kernel.codes == ["hold"]


async def test_what_resists_is_left_to_the_closing(place: Place) -> None:
    running = await place.running("stubborn")
    await within(place.house.drain(seconds=0.01, grace=0.01))
    assert place.house.unfinished == (str(running.name),)
    waiting = asyncio.ensure_future(running.result())
    await asyncio.sleep(0)
    await within(place.house.close())
    assert (await within(waiting)).outcome is Outcome.RUNTIME_LOST


async def test_executions_have_a_limit_that_no_repeat_meets(fakes: FakeWorld, tmp_path: object) -> None:
    async with House(settings=settings(tmp_path, max_executions=1)) as house:  # type: ignore[arg-type]
        place = await new_place(house, fakes)
        await place.running("hold", execution_id="one")
        with pytest.raises(ResourceExhausted) as refused:
            await place.start("print a", "other")
        assert refused.value.metadata["limit"] == "max_executions"
        assert (await place.start("hold", execution_id="one")).attached
        place.kernel.release.set()
        await until(lambda: house.unfinished == ())
        assert (await place.run("print a", "other")).stdout == "a\n"


async def test_a_request_id_outlives_the_house(fakes: FakeWorld, tmp_path: object) -> None:
    limits = settings(tmp_path)  # type: ignore[arg-type]
    async with House(settings=limits) as house:
        made = await house.create_runtime(request_id="r")
        assert await house.create_runtime(RuntimeSpec(), request_id="r") == house.get_runtime(made.name)
    async with House(settings=limits) as house:
        with pytest.raises(NotFound) as refused:
            await house.create_runtime(request_id="r")
        assert refused.value.reason == CallReason.RUNTIME_DELETED
        assert house.list_runtimes() == []


async def test_what_may_be_created_is_looked_at_once(house: House, fakes: FakeWorld) -> None:
    first, second = await within(asyncio.gather(house.runtime_specs(), house.runtime_specs()))
    assert first == second
    assert [level.level for level in first.isolation] == ["none", "bubblewrap"]
    assert len(fakes.sandboxes) == 2
    assert all(sandbox.closed for sandbox in fakes.sandboxes)
    assert list((house.state_dir / "probe").iterdir()) == []
    await house.create_runtime()
    assert (await house.runtime_specs()).runtimes == 1
    draining = asyncio.ensure_future(house.drain(seconds=1))
    await within(draining)
    assert (await house.runtime_specs()).may_create is False
