"""Every call of the service by the asynchronous client: results that are typed, errors that are a House's."""

import inspect
from pathlib import Path

import pytest

import cellhouse.client
from cellhouse.client import AsyncClient, AsyncExecutionHandle, Client, ExecutionHandle
from cellhouse.house import House
from cellhouse.model import (
    AlreadyExists,
    CaptureLimits,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    Outcome,
    PermissionDenied,
    RuntimeSpec,
    Unauthenticated,
    Unavailable,
)
from tests.client.support import Door, client_of, request, until, within
from tests.doors.support import Names, opened
from tests.runtime.support import FakeWorld

# What a House has for callers; the rest of its methods only make sense in its own process.
CALLS = {
    "runtime_specs", "create_runtime", "get_runtime", "list_runtimes", "page_runtimes", "keep_alive",
    "delete_runtime", "create_session", "get_session", "list_sessions", "page_sessions", "interrupt", "restart",
    "delete_session", "session_log", "page_session_log", "network_log", "page_network_log", "execute", "get_execution", "get_code", "events", "cancel", "provide_input", "list_executions",
    "read_text", "get_rich_output", "get_bundle", "get_output_data", "put_file", "open_file", "list_files", "stage_inputs",
    "delete_file", "close",
}  # fmt: skip


def public(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


def test_it_has_the_methods_of_a_house() -> None:
    assert public(House) >= CALLS
    assert public(AsyncClient) == CALLS | {"upload", "download", "read_part"}


@pytest.mark.parametrize(
    ("one", "other"),
    [(AsyncClient, Client), (AsyncExecutionHandle, ExecutionHandle)],
    ids=["client", "handle"],
)
def test_both_clients_have_the_same_methods_with_the_same_parameters(one: type, other: type) -> None:
    assert public(one) == public(other)
    for name in public(one):
        if callable(getattr(one, name)):
            ours, theirs = (inspect.signature(getattr(each, name)).parameters for each in (one, other))
            assert list(ours) == list(theirs)
            assert [each.default for each in ours.values()] == [each.default for each in theirs.values()]


def test_parameters_that_a_house_has_too_are_called_the_same() -> None:
    for name in public(AsyncClient) & public(House):
        house = list(inspect.signature(getattr(House, name)).parameters)
        client = list(inspect.signature(getattr(AsyncClient, name)).parameters)
        assert client[: len(house)] == house, name


def test_public_names_are_held() -> None:
    assert cellhouse.client.__all__ == [
        "AsyncClient", "AsyncExecutionHandle", "AsyncSource", "Client", "ClientLimits", "ClientReason",
        "ExecutionHandle", "FilePart", "IncompleteStreamError", "OutputData", "Progress", "ResponseError", "RetryPolicy",
        "Source", "TextName", "Timeouts", "Tls", "TransportError",
    ]  # fmt: skip
    assert all(hasattr(cellhouse.client, name) for name in cellhouse.client.__all__)


async def test_runtimes_are_made_listed_kept_and_deleted(client: AsyncClient) -> None:
    made = await client.create_runtime(RuntimeSpec(idle_seconds=100), runtime_id="mine")
    assert made.name == "runtimes/mine"
    assert await client.get_runtime("runtimes/mine") == made
    assert [each.name for each in await client.list_runtimes()] == ["runtimes/here", "runtimes/mine"]
    page = await client.page_runtimes(page_size=1)
    assert [each.name for each in page.runtimes] == ["runtimes/here"]
    page = await client.page_runtimes(page_size=1, page_token=page.next_page_token)
    assert [each.name for each in page.runtimes] == ["runtimes/mine"]
    assert (await client.keep_alive("runtimes/mine")).name == "runtimes/mine"
    specs = await client.runtime_specs()
    assert (specs.runtimes, specs.may_create) == (2, True)
    await client.delete_runtime("runtimes/mine")
    with pytest.raises(NotFound) as caught:
        await client.get_runtime("runtimes/mine")
    assert caught.value.reason in ("NO_SUCH_RUNTIME", "RUNTIME_DELETED")


async def test_sessions_are_made_listed_interrupted_restarted_and_deleted(
    client: AsyncClient, door: Door
) -> None:
    made = await client.create_session(door.runtime, session_id="mine")
    assert made.name == f"{door.runtime}/sessions/mine"
    other = await client.create_session(door.runtime)
    assert {each.name for each in await client.list_sessions(door.runtime)} == {made.name, other.name}
    assert len((await client.page_sessions(door.runtime, page_size=1)).sessions) == 1
    assert await client.session_log(made.name) == []
    assert await client.interrupt(made.name) is False
    await client.restart(made.name)
    assert (await client.get_session(made.name)).name == made.name
    await client.delete_session(made.name)
    for gone in (client.get_session(made.name), client.session_log(made.name)):
        with pytest.raises(NotFound):
            await gone
    with pytest.raises(AlreadyExists):
        await client.create_session(door.runtime, session_id=other.name.rpartition("/")[2])


async def test_an_execution_gives_its_result_its_texts_and_its_outputs(
    client: AsyncClient, door: Door
) -> None:
    handle = await client.execute(request(door, "print a\ndisplay <b>\nvalue 2", execution_id="."))
    result = await within(handle.result())
    assert (result.outcome, result.stdout, result.result) == (Outcome.OK, "a\n", "2")
    assert await client.get_execution(result.execution) == result == await handle.snapshot()
    assert await client.get_code(result.execution) == "print a\ndisplay <b>\nvalue 2"
    assert (await client.read_text(result.execution, "stdout", offset=1)).text == "\n"
    assert (await client.get_rich_output(result.execution, 0)).mime_types == ("text/html",)
    bundle = await client.get_bundle(result.execution, 0)
    assert bundle["data"]["text/html"] == "<b>"
    data = await client.get_output_data(result.execution, 0, "text/html")
    assert (data.data, data.mime_type, data.modified) == (b"<b>", "text/html", False)
    with pytest.raises(NotFound):
        await client.get_bundle(result.execution, 1)
    (summary,) = (await client.list_executions(result.session)).executions
    assert (summary.execution, summary.execution_id) == (result.execution, ".")


async def test_a_dropped_output_has_no_bundle_and_the_service_says_why(
    fakes: FakeWorld, tmp_path: Path
) -> None:
    small = {"capture": CaptureLimits(bundle_bytes=10)}
    async with (
        opened(fakes, tmp_path / "state", changes=small) as door,
        client_of(door.service.url) as client,
    ):
        await door.make()
        result = await within((await client.execute(request(door, "display <b>"))).result())
        for call in (
            client.get_bundle(result.execution, 0),
            client.get_output_data(result.execution, 0, "text/html"),
        ):
            with pytest.raises(NotFound, match="OUTPUT_TOO_LARGE"):
                await call


async def test_interrupting_cancelling_and_input(client: AsyncClient, door: Door) -> None:
    handle = await client.execute(request(door, "hold"))
    await until(lambda: door.fakes.launchers[-1].made and door.kernel.codes)
    assert await client.interrupt(f"{door.runtime}/sessions/main") is True
    assert (await within(handle.result())).outcome is Outcome.INTERRUPTED
    handle = await client.execute(request(door, "hold"))
    assert await handle.cancel() is True
    assert (await within(handle.result())).outcome in (Outcome.INTERRUPTED, Outcome.NEVER_STARTED)
    handle = await client.execute(request(door, "ask name?", allow_stdin=True))
    async for event in handle.events():
        if event.type == "inputRequested":
            await handle.provide_input("me")
    assert (await within(handle.result())).stdout == "got 'me'\n"
    with pytest.raises(FailedPrecondition) as caught:
        await handle.provide_input("again")
    assert caught.value.reason == "NOT_WAITING_FOR_INPUT"


async def test_cancelling_what_somebody_else_began_only_detaches(client: AsyncClient, door: Door) -> None:
    first = await client.execute(request(door, "hold", execution_id="one"))
    second = await client.execute(request(door, "hold", execution_id="one"))
    assert (first.attached, second.attached) == (False, True)
    assert await second.cancel() is False
    door.kernel.release.set()
    assert (await within(second.result())) == (await within(first.result()))
    assert (await first).outcome is Outcome.OK


async def test_an_error_of_the_service_keeps_its_class_and_everything_it_says(
    client: AsyncClient, door: Door
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await client.page_runtimes(page_token="no such token")
    error = caught.value
    assert (error.status, error.http, error.info.domain) == ("INVALID_ARGUMENT", 400, "cellhouse")
    assert error.metadata["field"]
    assert error.violations
    await client.execute(request(door, "print a", execution_id="one"))
    with pytest.raises(AlreadyExists) as reused:
        await client.execute(request(door, "print b", execution_id="one"))
    assert reused.value.reason == "EXECUTION_ID_REUSED"
    assert error.__cause__ is None


async def test_what_is_malformed_is_refused_before_anything_is_sent(client: AsyncClient, door: Door) -> None:
    requests = door.service.tenants.open[0].requests
    for call in (
        client.get_runtime("runtimes/../x"),
        client.execute(request(door, "print \ud800")),
        client.get_execution("runtimes/a/sessions/b/executions/c/d"),
        client.upload(door.runtime, "", b""),
        client.upload(door.runtime, "a\ud800", b""),
        client.get_rich_output(f"{door.runtime}/sessions/main/executions/one", -1),
    ):
        with pytest.raises(InvalidArgument):
            await call
    with pytest.raises(InvalidArgument):
        client.events(f"{door.runtime}/sessions/main/executions/one", after=-1)
    assert door.service.tenants.open[0].requests == requests


async def test_a_path_with_dots_does_not_step_up(client: AsyncClient, door: Door) -> None:
    for path in ("../../../healthz", "a/../../x", "./x"):
        with pytest.raises(InvalidArgument):
            await client.upload(door.runtime, path, b"x")


async def test_a_token_says_who_calls_and_a_missing_one_is_told(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path / "state", authenticator=Names()) as door:
        async with client_of(door.service.url, token="mine") as client:
            await client.create_runtime(runtime_id="mine")
            assert "mine" not in repr(client)
        async with client_of(door.service.url, token="theirs") as client:
            assert await client.list_runtimes() == []
        async with client_of(door.service.url, token="mine:read") as client:
            with pytest.raises(PermissionDenied):
                await client.create_runtime()
        async with client_of(door.service.url) as client:
            with pytest.raises(Unauthenticated):
                await client.list_runtimes()


async def test_a_closed_client_says_so(door: Door) -> None:
    async with client_of(door.service.url) as client:
        await client.list_runtimes()
    with pytest.raises(Unavailable, match="closed"):
        await client.list_runtimes()
    await client.close()
