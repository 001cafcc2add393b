"""Promise 2: at most once."""

import asyncio
from pathlib import Path

import pytest

from cellhouse import ExecuteCodeRequest, House
from cellhouse.environments import Environment
from cellhouse.model import AlreadyExists, CallReason, Outcome
from cellhouse.runtime import Settings
from tests.house.killing import victim
from tests.house.victim import CODE
from tests.promises.support import Caller

pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNT = "with open('count.txt', 'a') as file: print('once', file=file)"


async def test_the_same_id_is_the_same_execution_however_often_it_is_asked_for(caller: Caller) -> None:
    calls = await asyncio.gather(*(caller.run(COUNT, execution_id="count") for _ in range(30)))
    assert caller.file("count.txt") == "once\n"
    assert calls == [calls[0]] * 30
    # A repeat after its end gets what was recorded.
    assert await caller.run(COUNT, execution_id="count") == calls[0]
    with pytest.raises(AlreadyExists) as refused:
        await caller.run(COUNT.replace("once", "twice"), execution_id="count")
    assert refused.value.reason == CallReason.EXECUTION_ID_REUSED
    assert caller.file("count.txt") == "once\n"


async def test_with_a_runtime_as_target_the_id_counts_in_that_runtime(caller: Caller) -> None:
    request = ExecuteCodeRequest(code="open('made', 'x')", runtime=caller.runtime, execution_id="made")
    handles = await asyncio.gather(*(caller.house.execute(request) for _ in range(10)))
    results = await asyncio.gather(*(handle.result() for handle in handles))
    assert {(result.outcome, result.session) for result in results} == {(Outcome.OK, results[0].session)}
    await caller.house.delete_session(results[0].session)


async def test_it_holds_through_the_death_of_the_process(environment: Environment, tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path / "state", environments=(environment.prefix.parent,))
    async with victim(tmp_path / "state", environment, "bubblewrap") as killed:
        await killed.kill()
    async with House(settings=settings) as house:
        session = killed.running.rpartition("/executions/")[0]
        request = ExecuteCodeRequest(code=CODE, session=session, execution_id="running")
        result = await (await house.execute(request))
        # It may have run, so it is not run: this says so.
        assert result.outcome is Outcome.RUNTIME_LOST
        assert result.outcome_info is not None
        assert result.outcome_info.metadata["mayHaveRun"] == "true"
        with house.open_content("runtimes/victim") as content:
            assert content.read("ran.txt", 100) == b"once\n"
