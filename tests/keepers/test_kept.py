"""A kept house over real kernels: everything that a house can be asked, through a keeper."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellhouse import ExecuteCodeRequest, RuntimeSpec
from cellhouse.environments import Environment
from cellhouse.keepers import KeptHouse, Template
from cellhouse.model import (
    AlreadyExists,
    CallReason,
    DeadlineExceeded,
    NotFound,
    Outcome,
    ResourceExhausted,
    TailFrame,
    Unavailable,
)
from tests.keepers.support import (
    SESSION,
    all_events,
    dense,
    ended,
    keeper_pid,
    printed,
    recorded,
    run,
    settings,
    start,
    within,
)


async def test_code_runs_and_its_events_are_those_of_a_house(kept: KeptHouse) -> None:
    handle = await start(kept, "print('hello')\n6 * 7")
    result = await within(handle)
    assert (result.stdout, result.result, result.outcome) == ("hello\n", "42", Outcome.OK)
    events = await all_events(handle)
    assert [event.type for event in events] == ["queued", "started", "stream", "result", "finished"]
    assert dense(events)
    assert dense(await all_events(handle, after=2), after=2)
    assert await kept.get_execution(str(handle.name)) == result
    assert await kept.get_code(str(handle.name)) == "print('hello')\n6 * 7"


async def test_the_same_id_is_the_same_execution(kept: KeptHouse) -> None:
    code = "open('ran', 'a').write('once')"
    first = await run(kept, code, execution_id="one")
    again = await start(kept, code, execution_id="one")
    assert again.attached
    assert await within(again) == first
    with pytest.raises(AlreadyExists) as other:
        await start(kept, "1", execution_id="one")
    assert other.value.reason == CallReason.EXECUTION_ID_REUSED
    with kept.open_content("runtimes/here") as content:
        assert content.read("ran", 100) == b"once"


async def test_a_call_that_waits_too_long_says_what_there_is(kept: KeptHouse) -> None:
    handle = await start(kept, "print('so far', flush=True); input()", allow_stdin=True, wait_timeout=0.01)
    with pytest.raises(DeadlineExceeded) as late:
        await handle.result()
    assert late.value.execution == str(handle.name)
    async for event in handle.events():
        if event.type == "inputRequested":
            break
    await kept.provide_input(str(handle.name), "an answer")
    handle.wait_timeout = 60
    assert (await within(handle)).result == "'an answer'"


async def test_cancelling_interrupting_restarting_deleting(kept: KeptHouse) -> None:
    handle = await start(kept, "import time; print('go', flush=True); time.sleep(600)")
    await printed(handle, "go")
    await handle.cancel()
    assert (await within(handle)).outcome is Outcome.INTERRUPTED
    assert await kept.interrupt(SESSION) is False
    await run(kept, "x = 1")
    await kept.restart(SESSION)
    assert (await run(kept, "x")).outcome is Outcome.ERROR
    assert [session.name for session in await kept.list_sessions("runtimes/here")] == [SESSION]
    assert (await kept.page_sessions("runtimes/here")).sessions[0].name == SESSION
    assert len((await kept.list_executions(SESSION)).entries) == 3
    await kept.delete_session(SESSION)
    with pytest.raises(NotFound) as gone:
        await kept.get_session(SESSION)
    assert gone.value.reason == CallReason.NO_SUCH_SESSION


async def test_texts_outputs_and_files(kept: KeptHouse) -> None:
    result = await run(
        kept, "from IPython.display import HTML, display\ndisplay(HTML('<b>b</b>'))\nprint('ä' * 50_000)"
    )
    page = await kept.read_text(result.execution, "stdout", offset=4, limit=10)
    assert (page.text, page.offset, page.total_bytes) == ("ä" * 5, 4, 100_001)
    assert (await kept.get_rich_output(result.execution, 0)).mime_types == ("text/html",)
    assert (await kept.get_bundle(result.execution, 0))["data"]["text/html"] == "<b>b</b>"
    assert (await kept.get_output_data(result.execution, 0, "text/html")).data == b"<b>b</b>"
    assert await kept.put_file("runtimes/here", "in.bin", [b"a" * 700_000, b"b"]) == 700_001

    async def pieces() -> AsyncIterator[bytes]:
        yield b"over"

    with pytest.raises(Exception, match="file_bytes"):
        await kept.receive_file("runtimes/here", "big", pieces(), limit=3)
    assert [file.name for file in (await kept.list_files("runtimes/here")).files] == ["in.bin"]
    with kept.open_file("runtimes/here", "in.bin") as file:
        assert await file.read(699_999, 10) == b"ab"
    await kept.delete_file("runtimes/here", "in.bin")
    assert (await run(kept, "import os; os.listdir()")).result == "['.dsm_outputs']"


async def test_a_stream_that_nobody_reads_slows_nobody(kept: KeptHouse) -> None:
    handle = await start(kept, "for i in range(60_000): print('x' * 100)")
    follower = await kept.follower(str(handle.name))
    assert (await within(handle)).outcome is Outcome.OK
    assert (await run(kept, "'next'")).result == "'next'"
    text, seen = 0, 0
    async with asyncio.timeout(60):
        while (page := follower.take()) is not None:
            for event in page:
                seen += 1
                if event.type == "stream":
                    text += len(event.text)
            if not page:
                await follower.wait()
    assert follower.over
    assert seen == follower.after
    assert text == 60_000 * 101


async def test_a_follower_knows_that_there_is_nothing_more(kept: KeptHouse) -> None:
    result = await run(kept, "1")
    last = [event async for event in kept.events(result.execution)][-1]
    assert not isinstance(last, TailFrame)
    assert (await kept.follower(result.execution)).done is False
    assert (await kept.follower(result.execution, after=last.seq)).done is True
    with pytest.raises(NotFound) as none:
        await kept.follower(f"{SESSION}/executions/none")
    assert none.value.reason == CallReason.NO_SUCH_EXECUTION


async def test_an_id_is_free_again_once_its_runtime_is_deleted_and_its_records_stay(kept: KeptHouse) -> None:
    first = await run(kept, "'first'", execution_id="e")
    pid = keeper_pid(kept)
    with pytest.raises(AlreadyExists):
        await kept.create_runtime(runtime_id="here")
    await kept.delete_runtime("runtimes/here")
    await ended(pid)
    assert await kept.list_runtimes() == []
    assert await kept.get_execution(first.execution) == first
    with pytest.raises(NotFound) as gone:
        await kept.get_runtime("runtimes/here")
    assert gone.value.reason == CallReason.NO_SUCH_RUNTIME
    await kept.create_runtime(runtime_id="here")
    again = await start(kept, "'first'", execution_id="e")
    assert again.attached
    assert await within(again) == first


async def test_a_creation_that_is_repeated_makes_one_runtime(kept: KeptHouse) -> None:
    made = await within(
        asyncio.gather(*(kept.create_runtime(RuntimeSpec(), request_id="r") for _ in range(3)))
    )
    assert len({runtime.name for runtime in made}) == 1
    with pytest.raises(AlreadyExists):
        await kept.create_runtime(RuntimeSpec(kernel="python3"), request_id="r")
    assert len(await kept.list_runtimes()) == 2
    assert (await kept.census()).runtimes == 2


async def test_a_runtime_that_cant_be_had_leaves_nothing(kept: KeptHouse) -> None:
    with pytest.raises(NotFound) as missing:
        await kept.create_runtime(RuntimeSpec(environment="nowhere"), runtime_id="none")
    assert missing.value.reason == CallReason.NO_SUCH_ENVIRONMENT
    assert os.listdir(kept.state_dir / "keepers") == ["here"]


async def test_limits_are_of_all_runtimes_together(
    template: Template, environment: Environment, tmp_path: Path
) -> None:
    few = settings(tmp_path / "state", environment, max_runtimes=2, max_executions=2)
    async with KeptHouse(few, template=template) as house:
        await house.create_runtime(runtime_id="here")
        await house.create_runtime(runtime_id="there")
        with pytest.raises(ResourceExhausted) as third:
            await house.create_runtime()
        assert third.value.metadata["limit"] == "max_runtimes"
        specs = await house.runtime_specs()
        assert (specs.runtimes, specs.max_runtimes, specs.may_create) == (2, 2, False)
        slow = "import time; print('go', flush=True); time.sleep(600)"
        one = await start(house, slow, execution_id="one")
        two = await start(house, slow, "runtimes/there/sessions/s")
        with pytest.raises(ResourceExhausted) as more:
            await start(house, "1")
        assert more.value.metadata["limit"] == "max_executions"
        assert (await start(house, slow, execution_id="one")).attached
        await one.cancel()
        await within(one)
        assert (await run(house, "1")).result == "1"
        await two.cancel()


async def test_draining_lets_what_runs_end_and_takes_nothing_new(kept: KeptHouse) -> None:
    code = "import time; print('go', flush=True); time.sleep(600)"
    running = await start(kept, code, execution_id="r")
    await printed(running, "go")
    waiting = await start(kept, "import time; time.sleep(600)", execution_id="w")
    await within(kept.drain(seconds=0.0, grace=30.0))
    assert (await within(waiting)).outcome is Outcome.NEVER_STARTED
    assert (await within(running)).outcome is Outcome.INTERRUPTED
    for refused in (start(kept, "1"), kept.create_runtime()):
        with pytest.raises(Unavailable) as told:
            await refused
        assert told.value.reason == CallReason.SHUTTING_DOWN
    assert (await start(kept, code, execution_id="r")).attached


async def test_only_this_user_gets_at_a_keeper(kept: KeptHouse) -> None:
    directory = kept.state_dir / "keepers" / "here"
    assert stat.S_IMODE(directory.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(directory.stat().st_mode) == (0o1770 if os.geteuid() == 0 else 0o700)
    assert stat.S_IMODE((directory / "keeper.sock").stat().st_mode) == 0o600
    assert os.getpgid(keeper_pid(kept)) == keeper_pid(kept) != os.getpgid(0)


async def test_after_closing_the_next_house_reads_what_was_recorded(
    template: Template, environment: Environment, tmp_path: Path
) -> None:
    own = settings(tmp_path / "state", environment)
    async with KeptHouse(own, template=template) as house:
        await house.create_runtime(runtime_id="here", request_id="made")
        await run(house, "open('kept', 'w').write('x')")
        running = await start(house, "import time; print('go', flush=True); time.sleep(600)")
        await printed(running, "go")
        pid = keeper_pid(house)
    await ended(pid)
    with pytest.raises(Unavailable):
        await running.snapshot()
    async with KeptHouse(own, template=template) as house:
        assert await house.list_runtimes() == []
        result = await house.get_execution(str(running.name))
        assert (result.outcome, result.stdout) == (Outcome.RUNTIME_LOST, "go\n")
        assert dense(await recorded(house, str(running.name)))
        with house.open_content("runtimes/here") as content:
            assert content.read("kept", 9) == b"x"
        for again in (
            house.create_runtime(runtime_id="here", request_id="made"),
            house.get_runtime("runtimes/here"),
        ):
            with pytest.raises(NotFound) as over:
                await again
            assert over.value.reason == CallReason.RUNTIME_DELETED
        with pytest.raises(NotFound):
            await house.execute(ExecuteCodeRequest(code="1", session=SESSION))
        await house.delete_runtime("runtimes/here")
        with pytest.raises(NotFound):
            house.open_content("runtimes/here")


async def test_inputs_reach_the_code_and_artifacts_are_one_store(kept: KeptHouse, tmp_path: Path) -> None:
    (tmp_path / "local.txt").write_text("local")
    stored = await kept.artifacts.put(b"stored")
    staged = await kept.stage_inputs("runtimes/here", {"a/..": tmp_path / "local.txt", "b": stored.ref})
    assert staged == {"a/..": "/content/inputs/a%2F..", "b": "/content/inputs/b"}
    code = (
        "import json, os, subprocess\n"
        "inputs = json.loads(subprocess.check_output(['printenv', 'CELLHOUSE_INPUTS']))\n"
        "print({name: open(path).read() for name, path in inputs.items()})"
    )
    result = await run(kept, code)
    assert (result.stdout, result.artifacts) == ("{'a/..': 'local', 'b': 'stored'}\n", ())
    with pytest.raises(NotFound):
        await kept.stage_inputs("runtimes/none", {"a": b"x"})
