"""Deaths: of the service, of keepers, of the template, and of all of them; nothing runs twice and nothing is lost."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cellhouse.environments import Environment
from cellhouse.keepers import KeptHouse, Template
from cellhouse.keepers.frames import Kind, encode
from cellhouse.keepers.keeper import Keeper
from cellhouse.keepers.place import Place, holder
from cellhouse.keepers.rights import Rights
from cellhouse.model import (
    CallReason,
    EndReason,
    FailedPrecondition,
    NotFound,
    Outcome,
    SessionState,
    SystemClock,
    Unavailable,
)
from cellhouse.runtime.store import RuntimeStore
from tests.house.killing import living
from tests.keepers.support import (
    SESSION,
    all_events,
    dense,
    ended,
    keeper_pid,
    kill,
    printed,
    recorded,
    run,
    settings,
    start,
    within,
)

SCRIPT = Path(__file__).with_name("service.py")
STREAMING = """
import time
with open('ran-{n}', 'a') as file:
    file.write('once\\n')
for line in range(40):
    print(line, flush=True)
    while line == 20 and not __import__('os').path.exists('go'):
        time.sleep(0.005)
"""


class Service:
    """A process with a kept house, which is spoken to in lines."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.runtimes: list[str] = []

    async def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = await within(self.process.stdout.readline())
        assert line, "the service has ended"
        heard: dict[str, Any] = json.loads(line)
        return heard

    async def ask(self, **asked: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked).encode() + b"\n")
        return await self.hear()

    async def kill(self) -> None:
        self.process.kill()
        await within(self.process.wait())


@asynccontextmanager
async def service(
    state: Path, environment: Environment, durability: str = "normal"
) -> AsyncIterator[Service]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(SCRIPT),
        str(state),
        str(environment.prefix.parent),
        durability,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    made = Service(process)
    try:
        made.runtimes = (await made.hear())["runtimes"]
        yield made
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_executions_go_on_while_the_service_is_killed_and_started_again(
    template: Template, environment: Environment, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    count = 20
    async with service(state, environment) as first:
        await first.ask(make="here")
        names = [
            (
                await first.ask(
                    run=STREAMING.format(n=n), session=f"runtimes/here/sessions/s{n % 4}", id=f"e{n}"
                )
            )["name"]
            for n in range(count)
        ]
        pid = holder(Place(state, "here").directory)
        assert pid is not None
        await first.kill()
    async with KeptHouse(settings(state, environment), template=template) as house:
        assert [runtime.name for runtime in await house.list_runtimes()] == ["runtimes/here"]
        assert keeper_pid(house) == pid
        # Resumed calls attach to what runs; nothing is run a second time.
        handles = [
            await start(
                house, STREAMING.format(n=n), f"runtimes/here/sessions/s{n % 4}", execution_id=f"e{n}"
            )
            for n in range(count)
        ]
        assert [str(handle.name) for handle in handles] == names
        assert all(handle.attached for handle in handles)
        await house.put_file("runtimes/here", "go", [b""])
        results = await within(asyncio.gather(*(handle.result() for handle in handles)))
        lines = "".join(f"{line}\n" for line in range(40))
        assert {(result.outcome, result.stdout) for result in results} == {(Outcome.OK, lines)}
        for handle in handles:
            assert dense(await all_events(handle))
        with house.open_content("runtimes/here") as content:
            assert [content.read(f"ran-{n}", 100) for n in range(count)] == [b"once\n"] * count


async def test_a_keeper_that_is_killed_takes_its_runtime_with_it_and_nothing_else(
    kept: KeptHouse, template: Template
) -> None:
    await kept.create_runtime(runtime_id="other")
    state = kept.state_dir
    record = RuntimeStore(Place(state, "here").directory / "runtimes", SystemClock()).read("here")
    assert record is not None
    running = await start(kept, "import time; print('so far', flush=True); time.sleep(600)", execution_id="r")
    waiting = await start(kept, "1", execution_id="w")
    await printed(running, "so far")
    following = asyncio.ensure_future(all_events(running))
    awaited = asyncio.ensure_future(running.result())
    before = (await running.snapshot()).stdout
    kill(keeper_pid(kept))
    result = await within(awaited)
    assert (result.outcome, result.stdout, before) == (Outcome.RUNTIME_LOST, "so far\n", "so far\n")
    assert result.session_state is SessionState.GONE
    assert result.outcome_info is not None
    assert result.outcome_info.reason == EndReason.OWNER_DIED
    assert dense(await within(following))
    assert (await within(waiting.result())).outcome is Outcome.NEVER_STARTED
    assert living(record.token) == []
    for lost in (kept.get_runtime("runtimes/here"), kept.get_session(SESSION), start(kept, "1")):
        with pytest.raises(NotFound) as gone:
            await lost
        assert gone.value.reason == CallReason.RUNTIME_DELETED
    assert (await start(kept, "1", execution_id="w")).attached
    assert (await run(kept, "'alive'", "runtimes/other/sessions/s")).result == "'alive'"
    assert [runtime.name for runtime in await kept.list_runtimes()] == ["runtimes/other"]


async def test_a_service_and_its_keepers_are_killed_together(
    template: Template, environment: Environment, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    slow = "import time; print('go', flush=True); time.sleep(600)"
    async with service(state, environment) as first:
        names = []
        for runtime in ("one", "two"):
            await first.ask(make=runtime)
            names.append(
                (await first.ask(run=slow, session=f"runtimes/{runtime}/sessions/s", id="e"))["name"]
            )
        pids = [holder(Place(state, runtime).directory) for runtime in ("one", "two")]
        kill(pids[0] or 0)
        await first.kill()
        kill(pids[1] or 0)
    async with KeptHouse(settings(state, environment), template=template) as house:
        for name in names:
            assert dense(await recorded(house, name))
            assert (await house.get_execution(name)).outcome in (Outcome.RUNTIME_LOST, Outcome.NEVER_STARTED)
        assert await house.list_runtimes() == []
        assert (await house.census()).unfinished == 0
        assert all(Place(state, runtime).is_over for runtime in ("one", "two"))


async def test_a_second_service_is_refused_and_told_who_has_the_directory(
    kept: KeptHouse, template: Template, environment: Environment
) -> None:
    with pytest.raises(FailedPrecondition, match=f"is held by process {os.getpid()}"):
        async with KeptHouse(settings(kept.state_dir, environment), template=template):
            pytest.fail("its owner lives")
    assert (await run(kept, "1")).result == "1"


async def test_who_does_not_own_the_state_directory_is_not_spoken_to(kept: KeptHouse) -> None:
    script = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "s.sendall(bytes.fromhex(sys.argv[2])); print(s.recv(100))"
    )
    os.symlink(kept.state_dir / "keepers" / "here", link := f"/tmp/cellhouse-test-{os.getpid()}")
    try:
        hello = encode(Kind.HELLO, 0, b'{"protocol": 1}').hex()
        stranger = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, f"{link}/keeper.sock", hello, stdout=asyncio.subprocess.PIPE
        )
        told, _ = await within(stranger.communicate())
    finally:
        os.unlink(link)
    assert told == b"b''\n"


async def test_leaving_hands_the_runtimes_to_the_next_service(
    template: Template, environment: Environment, tmp_path: Path
) -> None:
    own = settings(tmp_path / "state", environment)
    async with KeptHouse(own, template=template) as house:
        await house.create_runtime(runtime_id="here", request_id="r")
        await run(house, "x = 'still here'")
        running = await start(house, "import os, time\nwhile not os.path.exists('go'): time.sleep(0.005)")
        pid = keeper_pid(house)
        assert await house.leave() is True
    async with KeptHouse(own, template=template) as house:
        assert keeper_pid(house) == pid
        assert (await house.create_runtime(request_id="r", runtime_id="here")).name == "runtimes/here"
        await house.put_file("runtimes/here", "go", [b""])
        assert dense(await recorded(house, str(running.name)))
        assert (await run(house, "x")).result == "'still here'"
    await ended(pid)


async def test_a_template_that_is_killed_is_replaced_and_keepers_stay(
    environment: Environment, tmp_path: Path
) -> None:
    template = Template()
    try:
        async with KeptHouse(settings(tmp_path / "state", environment), template=template) as house:
            await house.create_runtime(runtime_id="here")
            old = template.pid
            assert old is not None
            kill(old)
            await house.create_runtime(runtime_id="second")
            assert template.pid not in (None, old)
            assert (await run(house, "1")).result == "1"
    finally:
        template.close()


async def test_sigterm_ends_a_keeper_in_order(kept: KeptHouse) -> None:
    running = await start(kept, "import time; print('go', flush=True); time.sleep(600)")
    await printed(running, "go")
    pid = keeper_pid(kept)
    os.kill(pid, signal.SIGTERM)
    result = await within(running.result())
    assert (result.outcome, result.stdout) == (Outcome.RUNTIME_LOST, "go\n")
    await ended(pid)
    assert Place(kept.state_dir, "here").is_over


async def test_a_keeper_that_nobody_asked_for_a_runtime_ends_by_itself(
    template: Template, environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, "left")
    place.make()
    place.tell(settings(tmp_path, environment))
    listener = place.bind()
    listener.listen()
    monkeypatch.setattr("cellhouse.keepers.keeper.ALONE_SECONDS", 0.01)
    with listener:
        await within(Keeper(place, listener, place.settings(), Rights()).run())
    assert place.is_over


async def test_a_keeper_that_is_stopped_keeps_nobody_waiting_and_is_well_again(
    kept: KeptHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cellhouse.keepers.living.LOOK_SECONDS", 0.02)
    await kept.create_runtime(runtime_id="other")
    running = await start(kept, "print('go', flush=True); input()", execution_id="r", allow_stdin=True)
    await printed(running, "go")
    pid = keeper_pid(kept)
    os.kill(pid, signal.SIGSTOP)
    try:
        asked = (
            running.result(),
            all_events(running, after=1),
            kept.get_runtime("runtimes/here"),
            kept.interrupt(SESSION),
            kept.receive_file("runtimes/here", "file", endless(), limit=1 << 30),
            start(kept, "1", execution_id="once"),
        )
        for told in await within(asyncio.gather(*asked, return_exceptions=True)):
            assert isinstance(told, Unavailable), told
            assert f"process {pid}) is stopped" in told.message
        assert (await run(kept, "1", session="runtimes/other/sessions/main")).result == "1"
    finally:
        os.kill(pid, signal.SIGCONT)
    again = await start(kept, "1", execution_id="once")
    await kept.cancel(str(running.name))
    assert (await within(again.result())).result == "1"
    assert (await within(running.result())).outcome in (Outcome.INTERRUPTED, Outcome.ERROR)
    assert dense(await all_events(running))


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield bytes(1 << 16)
        await asyncio.sleep(0)
