"""At most once: an executionId names one execution, however often, wherever and by whomever it is asked for."""

import asyncio
from pathlib import Path

import pytest

from cellhouse import ExecuteCodeRequest, House
from cellhouse.model import (
    AlreadyExists,
    CallReason,
    DeadlineExceeded,
    ExecuteCodeResult,
    ExecutionState,
    NotFound,
    Outcome,
    RetentionLimits,
)
from tests.runtime.support import Clock, FakeWorld, Place, events_of, new_place, settings, within


async def test_many_identical_calls_at_once(place: Place) -> None:
    handles = await asyncio.gather(*(place.start("print once\nhold", execution_id="one") for _ in range(50)))
    assert sum(not handle.attached for handle in handles) == 1
    assert len({handle.name for handle in handles}) == 1
    logs = [asyncio.ensure_future(events_of(handle)) for handle in handles]
    await within(place.launcher.there.wait())
    place.kernel.release.set()
    results = await within(asyncio.gather(*(handle.result() for handle in handles)))
    assert results == [results[0]] * 50
    assert results[0].execution_id == "one"
    first = await logs[0]
    assert [await log for log in logs] == [first] * 50
    assert place.kernel.codes == ["print once\nhold"]
    assert len(place.house.list_executions(place.session()).entries) == 1


async def test_many_identical_calls_for_a_runtime_at_once(place: Place) -> None:
    request = ExecuteCodeRequest(code="print once", runtime=place.runtime, execution_id="one")
    handles = await asyncio.gather(*(place.house.execute(request) for _ in range(50)))
    results = await within(asyncio.gather(*(handle.result() for handle in handles)))
    assert len({result.execution for result in results}) == 1
    assert len(place.house.list_sessions(place.runtime)) == 1
    assert len(place.launcher.made) == 1
    # In that runtime; so it is known under its session, too.
    by_session = ExecuteCodeRequest(code="print once", session=results[0].session, execution_id="one")
    assert (await place.house.execute(by_session)).attached


async def test_while_it_runs_and_after(place: Place) -> None:
    first = await place.running("print once\nhold", execution_id="one")
    second = await place.start("print once\nhold", execution_id="one")
    assert (first.attached, second.attached, first.name) == (False, True, second.name)
    place.kernel.release.set()
    result = await within(first)
    assert await within(second) == result
    third = await place.start("print once\nhold", execution_id="one")
    assert (third.attached, await within(third)) == (True, result)
    assert len(place.kernel.codes) == 1


async def test_while_it_waits(place: Place) -> None:
    running = await place.running("hold")
    first = await place.start("print once", execution_id="one")
    second = await place.start("print once", execution_id="one")
    assert second.attached
    assert (await second.snapshot()).state is ExecutionState.QUEUED
    place.kernel.release.set()
    await within(running)
    assert await within(first) == await within(second)


async def test_other_code_under_the_same_id(place: Place) -> None:
    await place.run("print once", execution_id="one")
    for code in ("print twice", "print once\n", "print once ", ""):
        with pytest.raises(AlreadyExists) as refused:
            await place.start(code, execution_id="one")
        assert (refused.value.reason, refused.value.http) == (CallReason.EXECUTION_ID_REUSED, 409)
    with pytest.raises(AlreadyExists):
        await place.house.execute(
            ExecuteCodeRequest(code="print x", session=place.session(), execution_id="one", wait_timeout=1)
        )
    assert place.kernel.codes == ["print once"]


async def test_only_target_and_code_are_compared(place: Place) -> None:
    first = await place.run("print once", execution_id="one")
    again = await place.start(
        "print once",
        execution_id="one",
        execution_timeout=1.0,
        output_limit=7,
        allow_stdin=True,
        environment={"A": "1"},
    )
    assert (again.attached, await within(again)) == (True, first)


async def test_the_same_id_elsewhere_is_another_execution(place: Place, fakes: FakeWorld) -> None:
    here = await place.run("print once", execution_id="one")
    there = await place.run("print once", "other", execution_id="one")
    elsewhere = await (await new_place(place.house, fakes)).run("print once", execution_id="one")
    assert len({here.execution, there.execution, elsewhere.execution}) == 3


async def test_without_an_id_every_call_runs(place: Place) -> None:
    first, second = await place.run("print x"), await place.run("print x")
    assert first.execution != second.execution
    assert (first.execution_id, second.execution_id) == ("", "")
    # The name that it got instead is no id: it names nothing twice.
    name = first.execution.rpartition("/")[2]
    assert (await place.house.get_execution(first.execution)).stdout == "x\n"
    with pytest.raises(AlreadyExists):
        await place.start("print x", execution_id=name)


@pytest.mark.parametrize("end", ["delete_session", "delete_runtime", "close"])
async def test_after_its_session_is_gone(place: Place, end: str) -> None:
    result = await place.run("print once", execution_id="one")
    house = place.house
    if end == "delete_session":
        await house.delete_session(place.session())
    elif end == "delete_runtime":
        await house.delete_runtime(place.runtime)
    else:
        await house.close()
        house = House(settings=settings(house.state_dir))
        await house.__aenter__()
    try:
        request = ExecuteCodeRequest(code="print once", session=place.session(), execution_id="one")
        again = await house.execute(request)
        assert (again.attached, await within(again)) == (True, result)
        with pytest.raises(AlreadyExists):
            await house.execute(request.model_copy(update={"code": "print other"}))
        # A new id is a new execution, and needs a session that lives.
        if end != "delete_session":
            with pytest.raises(NotFound):
                await house.execute(request.model_copy(update={"execution_id": "two"}))
    finally:
        await house.close()


async def test_what_never_started_is_not_run_by_a_repeat(place: Place) -> None:
    await place.running("hold")
    waiting = await place.start("print never", execution_id="one")
    await place.house.restart(place.session())
    result = await within(waiting)
    assert result.outcome is Outcome.NEVER_STARTED
    assert await place.run("print never", execution_id="one") == result


async def test_an_evicted_one_is_never_run_again(fakes: FakeWorld, tmp_path: Path) -> None:
    clock = Clock()
    limits = settings(tmp_path, retention=RetentionLimits(age_seconds=60.0))

    async def reopened() -> House:
        return await House(settings=limits, clock=clock).__aenter__()

    house = await reopened()
    place = await new_place(house, fakes)
    await place.run("print once", execution_id="one")
    target = ExecuteCodeRequest(code="print once", runtime=place.runtime, execution_id="two")
    by_runtime = await within(await house.execute(target))
    await house.close()
    clock.time += 3_600
    house = await reopened()
    try:
        place_request = ExecuteCodeRequest(code="print once", session=place.session(), execution_id="one")
        gone = f"{place.session()}/executions/one"
        await evicted(house, gone)
        for request in (place_request, target):
            with pytest.raises(NotFound) as refused:
                await house.execute(request)
            assert refused.value.reason == CallReason.EVICTED
        with pytest.raises(AlreadyExists):
            await house.execute(place_request.model_copy(update={"code": "print other"}))
        for name in (gone, by_runtime.execution):
            with pytest.raises(NotFound) as refused:
                await house.get_execution(name)
            assert refused.value.reason == CallReason.EVICTED
            with pytest.raises(NotFound):
                house.events(name)
        with pytest.raises(NotFound) as refused:
            await house.get_execution(f"{place.session()}/executions/never")
        assert refused.value.reason == CallReason.NO_SUCH_EXECUTION
    finally:
        await house.close()


async def evicted(house: House, name: str) -> ExecuteCodeResult | None:
    """Wait until the record is gone; a house looks for what is too old as soon as it is open."""
    async with asyncio.timeout(20):
        while True:
            try:
                result = await house.get_execution(name)
            except NotFound:
                return None
            assert result.state is ExecutionState.FINISHED
            await asyncio.sleep(0)


# Waiting for it


async def test_a_call_that_waited_long_enough(place: Place) -> None:
    handle = await place.running("print so far\nhold", execution_id="one", wait_timeout=0.02)
    waiting = await place.start("print next", wait_timeout=0.02)
    with pytest.raises(DeadlineExceeded) as over:
        await handle
    error = over.value
    assert (error.http, error.reason, error.execution) == (504, CallReason.WAIT_TIMEOUT, str(handle.name))
    assert error.partial_result is not None
    assert (error.partial_result.state, error.partial_result.stdout) == (ExecutionState.RUNNING, "so far\n")
    assert error.partial_result.outcome is None
    body = error.to_wire()["error"]
    assert (body["execution"], body["partialResult"]["state"]) == (str(handle.name), "RUNNING")
    with pytest.raises(DeadlineExceeded) as over:
        await waiting
    assert over.value.partial_result is not None
    assert over.value.partial_result.state is ExecutionState.QUEUED
    # The code runs on, and the same call waits again.
    again = await place.start("print so far\nhold", execution_id="one")
    assert again.attached
    place.kernel.release.set()
    assert (await within(again)).outcome is Outcome.OK
    assert (await within(handle)).outcome is Outcome.OK
    assert len(place.kernel.codes) == 2 or (await within(waiting)).outcome is Outcome.OK


async def test_a_call_that_goes_away_interrupts_nothing(place: Place) -> None:
    handle = await place.running("hold\nprint done")
    call = asyncio.ensure_future(handle.result())
    stream = asyncio.ensure_future(events_of(handle))
    await asyncio.sleep(0)
    call.cancel()
    stream.cancel()
    await asyncio.wait([call, stream])
    assert place.kernel.interrupts == 0
    place.kernel.release.set()
    assert (await place.house.get_execution(str(handle.name))).state is not ExecutionState.QUEUED
    assert (await within(handle)).stdout == "done\n"
