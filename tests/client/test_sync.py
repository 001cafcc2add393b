"""The plain client: the same flows in the thread that calls, with iterators that are nothing but iterators."""

import asyncio
import hashlib
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from cellhouse.client import AsyncClient, Client, ClientLimits, IncompleteStreamError, TransportError
from cellhouse.model import (
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    Outcome,
    Unavailable,
)
from tests.client.proxy import cuts, proxied
from tests.client.scripted import QUEUED, STARTED, scripted, stream
from tests.client.support import PATIENT, Door, Pauses, kinds, listed, options, request, until, within

T = TypeVar("T")
NAME = "runtimes/a/sessions/b/executions/c"


def client_of(url: str, **more: Any) -> Client:
    pauses = Pauses()
    made = {**options(pauses, retry=PATIENT), "sleep": pauses.sleep_now, **more}
    return Client(url, **made)


async def apart(work: Callable[[], T]) -> T:
    """In a thread, for the service lives on the loop of this one."""
    return await within(asyncio.to_thread(work))


async def test_everything_that_a_house_does_it_does(door: Door, tmp_path: Path) -> None:
    def work() -> None:
        with client_of(door.service.url) as client:
            made = client.create_runtime(runtime_id="mine")
            assert [each.name for each in client.list_runtimes()] == ["runtimes/here", "runtimes/mine"]
            session = client.create_session(made.name)
            assert client.list_sessions(made.name) == [client.get_session(session.name)]
            assert client.interrupt(session.name) is False
            client.restart(session.name)
            handle = client.execute(request(door, "print a\ndisplay <b>\nvalue 2"))
            events = list(handle)
            result = handle.result()
            assert kinds(events)[-1] == "finished"
            assert events == list(client.events(str(handle.name))) == list(handle.events())
            assert (result.outcome, result.stdout, result.result) == (Outcome.OK, "a\n", "2")
            assert handle.snapshot() == result == client.get_execution(result.execution)
            assert client.get_bundle(result.execution, 0)["data"]["text/html"] == "<b>"
            assert client.get_output_data(result.execution, 0, "text/html").data == b"<b>"
            assert client.read_text(result.execution, "stdout").text == "a\n"
            assert len(client.list_executions(result.session).executions) == 1
            assert client.put_file(made.name, "d/x", [b"one", b"two"]) == 6
            assert [each.name for each in client.list_files(made.name, "d").files] == ["d/x"]
            assert b"".join(client.open_file(made.name, "d/x")) == b"onetwo"
            told = client.download(made.name, "d/x", tmp_path / "x")
            assert (tmp_path / "x").read_bytes() == b"onetwo"
            assert told.sha256 == hashlib.sha256(b"onetwo").hexdigest()
            client.delete_file(made.name, "d/x")
            client.delete_session(session.name)
            client.delete_runtime(made.name)
            with pytest.raises(NotFound):
                client.get_runtime(made.name)
        with pytest.raises(Unavailable, match="closed"):
            client.list_runtimes()
        client.close()

    await apart(work)


async def test_cut_at_any_byte_it_gets_the_same_and_the_code_runs_once(
    door: Door, client: AsyncClient
) -> None:
    rng = random.Random(21)
    code = "\n".join([*(f"print {'é' * rng.choice((1, 90))} {n}" for n in range(25)), "value 1"])

    def work(url: str) -> tuple[list[Any], Any, str]:
        with client_of(url) as cut:
            handle = cut.execute(request(door, code))
            return list(handle.events()), handle.result(), str(handle.name)

    async with proxied(
        door.service.url, to_client=cuts(rng, 4_000, 0.8), to_service=cuts(rng, 2_000, 0.2)
    ) as proxy:
        for _ in range(15):
            events, result, name = await apart(lambda: work(proxy.url))
            assert events == await listed(client.events(name))
            assert result == await client.get_execution(name)
        assert proxy.cuts > 40
    assert door.kernel.codes == [code] * 15


async def test_many_threads_share_one_client(door: Door) -> None:
    names = [f"s{number}" for number in range(8)]
    with client_of(door.service.url, limits=ClientLimits(unread_streams=3)) as client:

        def work(name: str) -> str:
            handle = client.execute(request(door, f"print {name}", name))
            assert [each.seq for each in handle] == list(range(1, 5))
            return handle.result().stdout

        with ThreadPoolExecutor(8) as pool:
            loop = asyncio.get_running_loop()
            found = await within(asyncio.gather(*(loop.run_in_executor(pool, work, name) for name in names)))
    assert found == [f"{name}\n" for name in names]


async def test_another_thread_interrupts_what_one_is_waiting_for(door: Door) -> None:
    with client_of(door.service.url) as client:
        handle = await apart(lambda: client.execute(request(door, "hold")))
        waiting = asyncio.ensure_future(apart(handle.result))
        await until(lambda: door.fakes.launchers[-1].made and door.kernel.codes)
        assert await apart(handle.cancel)
        assert (await waiting).outcome is Outcome.INTERRUPTED


async def test_who_waits_long_enough_is_told_so_far_and_may_wait_again(door: Door) -> None:
    def work() -> None:
        with Client(door.service.url) as client:
            handle = client.execute(request(door, "print a\nhold", wait_timeout=0.2))
            for _ in range(2):
                with pytest.raises(DeadlineExceeded) as caught:
                    handle.result()
                assert caught.value.partial_result is not None
                assert caught.value.partial_result.stdout == "a\n"
            handle.cancel()
            assert handle.result().outcome is Outcome.INTERRUPTED

    await apart(work)


async def test_leaving_a_loop_gives_the_connection_back_at_once(door: Door) -> None:
    def work() -> None:
        with client_of(door.service.url, limits=ClientLimits(connections=1)) as client:
            handle = client.execute(request(door, "print a\nhold"))
            for _ in range(3):
                for event in handle.live():
                    if event.type == "stream":
                        break
                assert handle.snapshot().stdout == "a\n"
            handle.cancel()

    await apart(work)
    await until(lambda: door.service.tenants.open[0].streams == 0)


async def test_input_is_given_from_the_loop_that_is_told_of_it(door: Door) -> None:
    def work() -> str:
        with client_of(door.service.url) as client:
            handle = client.execute(request(door, "ask name?", allow_stdin=True))
            for event in handle:
                if event.type == "inputRequested":
                    handle.provide_input("me")
            with pytest.raises(FailedPrecondition):
                client.provide_input(str(handle.name), "me")
            return handle.result().stdout

    assert await apart(work) == "got 'me'\n"


async def test_failures_are_the_same_as_those_of_the_other_client(door: Door) -> None:
    async with scripted(stream(QUEUED, STARTED), stream()) as service:

        def incomplete() -> None:
            pauses = Pauses()
            with Client(service.url, clock=pauses.clock, sleep=pauses.sleep_now) as client:
                with pytest.raises(IncompleteStreamError) as caught:
                    list(client.events(NAME))
                assert caught.value.last_seq == 2
                assert pauses.slept

        await apart(incomplete)
        gone = service.url

    def unreachable() -> None:
        pauses = Pauses()
        with Client(gone, clock=pauses.clock, sleep=pauses.sleep_now) as client:
            with pytest.raises(TransportError) as caught:
                client.list_runtimes()
            assert caught.value.reason == "CONNECT_FAILED"
            with pytest.raises(TransportError):
                client.put_file("runtimes/here", "x", iter([b"x"]))

    await apart(unreachable)

    async def pieces() -> Any:
        yield b"x"

    def awaited() -> None:
        with client_of(door.service.url) as client:
            with pytest.raises(InvalidArgument, match="AsyncClient"):
                client.upload(door.runtime, "x", pieces())

    await apart(awaited)


async def test_it_starts_no_thread_and_no_loop(door: Door) -> None:
    def work() -> None:
        before = threading.active_count()
        with client_of(door.service.url) as client:
            client.execute(request(door, "print a")).result()
            assert threading.active_count() == before
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()

    await apart(work)
