"""Connections that are cut at any byte: what a caller gets is what it would have got, and the code runs once."""

import asyncio
import hashlib
import random
from functools import partial
from pathlib import Path

import pytest

from cellhouse.client import AsyncClient, ClientLimits, TransportError
from cellhouse.model import Outcome
from tests.client.proxy import Proxy, cuts, never, proxied
from tests.client.support import Door, client_of, kinds, listed, request, until, within
from tests.doors.support import opened
from tests.runtime.support import FakeWorld

ROUNDS = 40


def program(rng: random.Random, lines: int) -> str:
    """Prints of many lengths, some longer than a cut is far away, a rich output, a value."""
    words = [f"print {'é' * rng.choice((0, 3, 40, 700))} {number}" for number in range(lines)]
    return "\n".join([*words, "display <b>", "value 1"])


async def test_cut_at_any_byte_an_execution_has_the_same_events_and_result_and_runs_once(
    door: Door, client: AsyncClient
) -> None:
    """Hundreds of cuts, in both directions, while the code is handed in and while its events come."""
    rng = random.Random(11)
    code = program(rng, 25)
    straight = await client.execute(request(door, code, "straight"))
    expected = [each.model_copy(update={"time": ""}) for each in await listed(straight.events())]
    plain = (await within(straight.result())).stdout
    async with proxied(
        door.service.url, to_client=cuts(rng, 5_000, 0.8), to_service=cuts(rng, 2_500, 0.2)
    ) as proxy:
        for number in range(ROUNDS):
            async with client_of(proxy.url) as cut:
                handle = await within(cut.execute(request(door, code, "cut")))
                events = await listed(handle.events()) if number % 3 else []
                result = await within(handle.result())
                again = await listed(cut.events(str(handle.name), after=7))
                assert result == await client.get_execution(str(handle.name))
                assert (result.outcome, result.stdout, result.result) == (Outcome.OK, plain, "1")
                whole = await listed(client.events(str(handle.name)))
                assert again == whole[7:]
                if events:
                    assert events == whole
                    assert kinds(events) == kinds(expected)
                    assert [each.seq for each in events] == list(range(1, len(events) + 1))
        assert proxy.cuts > 200
    kernel = door.fakes.launchers[-1].made[1]
    assert kernel.codes == [code] * ROUNDS


async def test_while_it_runs_every_event_comes_as_soon_as_it_is_there(door: Door) -> None:
    rng = random.Random(5)
    code = "\n".join([program(rng, 10), "hold", program(rng, 10)])
    async with (
        proxied(door.service.url, to_client=cuts(rng, 3_000, 0.8)) as proxy,
        client_of(proxy.url) as client,
    ):
        handle = await within(client.execute(request(door, code)))
        seen = []
        async with asyncio.timeout(20):
            async for event in handle.events():
                seen.append(event)
                if event.type == "display":
                    door.kernel.release.set()
        assert seen == await listed(client.events(str(handle.name)))
        assert seen[-1].type == "finished"
        assert proxy.cuts > 5


async def test_calls_without_code_are_repeated_too_and_make_nothing_twice(
    fakes: FakeWorld, tmp_path: Path
) -> None:
    rng = random.Random(2)
    async with (
        opened(fakes, tmp_path / "state") as door,
        proxied(door.service.url, to_client=cuts(rng, 900, 0.7), to_service=cuts(rng, 500, 0.5)) as proxy,
    ):
        names = set()
        for _ in range(20):
            async with client_of(proxy.url) as client:
                made = await within(client.create_runtime())
                names.add(made.name)
                session = await within(client.create_session(made.name))
                assert [each.name for each in await within(client.list_sessions(made.name))] == [session.name]
                assert (await within(client.get_runtime(made.name))).name == made.name
        async with client_of(door.service.url) as client:
            assert {each.name for each in await client.list_runtimes()} == names
        for name in names:
            async with client_of(proxy.url) as client:
                await within(client.delete_runtime(name))
        async with client_of(door.service.url) as client:
            assert await client.list_runtimes() == []
        assert len(names) == 20
        assert proxy.cuts > 40


async def test_files_go_over_whole_however_often_the_connection_is_cut(door: Door, tmp_path: Path) -> None:
    rng = random.Random(9)
    data = rng.randbytes(3_000_000)
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(data)
    async with (
        proxied(door.service.url, to_service=cuts(rng, 4_000_000, 0.7)) as up,
        client_of(up.url) as client,
    ):
        for number in range(8):
            written = await within(client.upload(door.runtime, f"d/{number}", source))
            assert (written.bytes, written.sha256) == (len(data), hashlib.sha256(data).hexdigest())
        assert up.cuts > 2
    async with proxied(door.service.url, to_client=cuts(rng, 1_500_000, 0.9)) as down:
        for number in range(8):
            told: list[tuple[int, int | None]] = []
            tell = partial(_tell, told)
            async with client_of(down.url) as client:
                got = await within(
                    client.download(
                        door.runtime,
                        f"d/{number}",
                        target,
                        progress=tell,
                    )
                )
                assert (got.bytes, got.sha256) == (len(data), hashlib.sha256(data).hexdigest())
                pieces = await listed(client.open_file(door.runtime, f"d/{number}"))
            assert target.read_bytes() == data == b"".join(pieces)
            # It never begins again from nothing.
            assert [done for done, _ in told] == sorted(done for done, _ in told)
            assert told[-1] == (len(data), len(data))
        assert down.cuts > 10
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "state", "target"]


def _tell(told: list[tuple[int, int | None]], done: int, total: int | None) -> None:
    told.append((done, total))


@pytest.mark.parametrize("call", ["interrupt", "restart", "provide_input", "create_session"])
async def test_what_may_not_be_done_twice_is_sent_once_and_the_error_says_why(door: Door, call: str) -> None:
    async with (
        proxied(door.service.url, to_client=lambda: 0, to_service=never) as proxy,
        client_of(proxy.url) as client,
    ):
        session = f"{door.runtime}/sessions/main"
        calls = {
            "interrupt": lambda: client.interrupt(session),
            "restart": lambda: client.restart(session),
            "provide_input": lambda: client.provide_input(f"{session}/executions/one", "x"),
            "create_session": lambda: client.create_session(door.runtime, session_id="mine"),
        }
        proxy._to_client = iter([0, None, None]).__next__
        with pytest.raises(TransportError) as caught:
            await within(calls[call]())  # type: ignore[no-untyped-call]
        error = caught.value
        assert (proxy.connections, error.may_have_arrived) == (1, True)
        assert error.metadata["attempts"] == "1"
        assert error.metadata["notRepeated"] in error.message


async def test_what_has_not_arrived_is_repeated_whatever_it_is(door: Door) -> None:
    """A service that is not there yet: nothing can have been done twice."""
    proxy = Proxy(door.service.url, never, never)
    await proxy.start()
    url = proxy.url
    await proxy.close()

    async def sleep(seconds: float) -> None:
        if not slept:
            await restarted.start(int(url.rpartition(":")[2]))
        slept.append(seconds)

    slept: list[float] = []
    restarted = Proxy(door.service.url, never, never)
    try:
        async with client_of(url, sleep=sleep) as client:
            with pytest.raises(Exception, match="there is no"):
                await within(client.interrupt(f"{door.runtime}/sessions/none"))
        assert len(slept) == 1
    finally:
        await restarted.close()


async def test_a_handle_that_nobody_reads_holds_no_connection_for_ever(door: Door) -> None:
    async with client_of(door.service.url, limits=ClientLimits(unread_streams=2, connections=4)) as client:
        handles = [await within(client.execute(request(door, "print a", f"s{n}"))) for n in range(12)]
        await until(lambda: door.service.tenants.open[0].streams <= 2)
        for handle in handles:
            assert (await within(handle.result())).stdout == "a\n"
            assert kinds(await listed(handle.events()))[-1] == "finished"
