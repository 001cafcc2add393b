"""A House whose process is killed in the middle of an execution, and the next one on the same directory."""

import os
from pathlib import Path

import pytest

from cellhouse import ExecuteCodeRequest, House
from cellhouse.environments import Environment
from cellhouse.model import (
    CallReason,
    EndReason,
    ExecutionState,
    FailedPrecondition,
    NotFound,
    Outcome,
    SessionState,
)
from cellhouse.runtime import Settings
from tests.house.killing import living, victim
from tests.house.victim import CODE
from tests.runtime.support import kinds, metadata, reason, within


@pytest.mark.parametrize("isolation", ["bubblewrap", "none"])
async def test_killed_in_the_middle(environment: Environment, tmp_path: Path, isolation: str) -> None:
    # So long a path that sockets need a shorter one somewhere else.
    state = tmp_path / ("a long name " * 8) / "state"
    settings = Settings(state_dir=state, environments=(environment.prefix.parent,))
    run = state / "runtimes" / "victim" / "run"
    async with victim(state, environment, isolation) as killed:
        # While it lives, the directory is its own.
        with pytest.raises(FailedPrecondition, match=f"is held by process {killed.process.pid}"):
            async with House(settings=settings):
                pytest.fail("its owner lives")
        token = killed.token()
        assert living(token)
        sockets = run.resolve()
        assert sockets.is_dir()
        assert run.is_symlink() is (isolation == "none")
        await killed.kill()
    async with House(settings=settings) as house:
        # Nothing of it runs any more, and nothing is left but records and content.
        assert living(token) == []
        assert sorted(path.name for path in (state / "runtimes" / "victim").iterdir()) == [
            "content",
            "runtime.json",
        ]
        assert not sockets.exists()

        result = await house.get_execution(killed.running)
        assert (result.state, result.outcome) == (ExecutionState.FINISHED, Outcome.RUNTIME_LOST)
        assert (reason(result), metadata(result)["mayHaveRun"]) == (EndReason.OWNER_DIED, "true")
        assert (result.session_state, result.stdout) == (SessionState.GONE, "100%\nso far\n")
        assert result.execution_error is not None
        assert result.execution_error.name == "RuntimeLost"
        assert (result.execution_count, result.execution_id) == (1, "running")
        assert result.start_time is not None
        assert [output.mime_types for output in result.rich_outputs] == [("text/html",)]
        assert (await house.get_output_data(killed.running, 0, "text/html")).data == b"<b>shown</b>"
        events = [event async for event in house.events(killed.running)]
        assert [event.seq for event in events if event.type != "tail"] == list(range(1, len(events) + 1))
        assert kinds(events)[killed.events :] == ["finished"]  # type: ignore[arg-type]

        queued = await house.get_execution(killed.waiting)
        assert (queued.outcome, reason(queued)) == (Outcome.NEVER_STARTED, EndReason.OWNER_DIED)
        assert metadata(queued)["mayHaveRun"] == "false"

        # The same id is the same execution still; it is not run a second time.
        session = killed.running.rpartition("/executions/")[0]
        request = ExecuteCodeRequest(code=CODE, session=session, execution_id="running")
        again = await house.execute(request)
        assert (again.attached, await within(again)) == (True, result)
        with house.open_content("runtimes/victim") as content:
            assert content.read("ran.txt", 100) == b"once\n"
        with pytest.raises(NotFound) as over:
            house.get_runtime("runtimes/victim")
        assert over.value.reason == CallReason.RUNTIME_DELETED
        await house.delete_runtime("runtimes/victim")
    assert os.listdir(state / "runtimes") == []
