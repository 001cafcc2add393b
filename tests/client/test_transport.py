"""What is not a service, or not for long: each failure has its class, its reason, its bounds, and says what was tried."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from cellhouse.client import (
    AsyncClient,
    ClientLimits,
    IncompleteStreamError,
    ResponseError,
    RetryPolicy,
    Timeouts,
    TransportError,
)
from cellhouse.model import (
    CellhouseError,
    DeadlineExceeded,
    ExecuteCodeRequest,
    Internal,
    Outcome,
    ResourceExhausted,
    Unavailable,
)
from tests.client.scripted import FINISHED, QUEUED, RESULT, STARTED, answer, error, head, scripted, stream
from tests.client.support import Door, Pauses, client_of, kinds, listed, options, request, until, within

NAME = "runtimes/a/sessions/b/executions/c"
CODE = ExecuteCodeRequest(code="1", session="runtimes/a/sessions/b", execution_id="c")
EMPTY = answer({"runtimes": []})


def test_the_errors_are_in_the_tree_of_all_errors() -> None:
    assert issubclass(IncompleteStreamError, TransportError)
    assert issubclass(TransportError, Unavailable)
    assert issubclass(ResponseError, CellhouseError)
    assert not issubclass(ResponseError, Unavailable)


def impatient(pauses: Pauses, **more: Any) -> AsyncClient:
    return AsyncClient(**{**options(pauses), **more})


async def test_nobody_there_is_given_up_soon_and_told_with_what_was_tried() -> None:
    async with scripted(EMPTY) as gone:
        url = gone.url
    pauses = Pauses()
    async with impatient(pauses, url=url) as client:
        with pytest.raises(TransportError) as caught:
            await within(client.list_runtimes())
    failed = caught.value
    assert (failed.reason, failed.may_have_arrived, failed.http) == ("CONNECT_FAILED", False, 503)
    assert url in failed.message
    assert failed.metadata["arrived"] == "no"
    assert int(failed.metadata["attempts"]) == len(pauses.slept) + 1 > 3
    assert sum(pauses.slept) <= RetryPolicy().first_contact
    assert "first_contact" in failed.metadata["notRepeated"]
    assert isinstance(failed.__cause__, httpx.HTTPError)


async def test_a_service_that_has_answered_before_is_waited_for_longer() -> None:
    pauses = Pauses()
    async with scripted(EMPTY) as service:
        client = impatient(pauses, url=service.url)
        await within(client.list_runtimes())
    with pytest.raises(TransportError):
        await within(client.list_runtimes())
    await client.close()
    assert RetryPolicy().first_contact < sum(pauses.slept) <= RetryPolicy().total
    assert max(pauses.slept) <= RetryPolicy().longest
    # Each wait is between half of its step and all of it, and the steps double.
    for number, seconds in enumerate(pauses.slept):
        step = min(RetryPolicy().longest, RetryPolicy().first * 2**number)
        assert step / 2 <= seconds <= step


@pytest.mark.parametrize("limit", [{"attempts": 3}, {"total": 0.25, "first_contact": 5.0}])
async def test_each_bound_of_repeating_is_named_when_it_is_reached(limit: dict[str, Any]) -> None:
    pauses = Pauses()
    async with scripted(b"") as service:
        async with impatient(pauses, url=service.url, retry=RetryPolicy(**limit)) as client:
            with pytest.raises(TransportError) as caught:
                await within(client.list_runtimes())
    assert caught.value.reason == "CONNECTION_LOST"
    assert (
        next(iter(limit)) in caught.value.metadata["notRepeated"] or "first_contact" in caught.value.message
    )
    assert len(service.requests) <= 4


async def test_silence_is_told_by_its_name() -> None:
    async with scripted(b"", hold=True) as service:
        timeouts, retry = Timeouts(read=0.05), RetryPolicy(attempts=1)
        async with impatient(Pauses(), url=service.url, timeouts=timeouts, retry=retry) as client:
            with pytest.raises(TransportError) as caught:
                await within(client.list_runtimes())
    assert (caught.value.reason, caught.value.may_have_arrived) == ("TIMED_OUT", True)


async def test_a_stream_without_a_sign_of_life_is_left_and_read_on() -> None:
    async with scripted(stream(QUEUED, STARTED, end=False), stream(FINISHED), hold=True) as service:
        async with client_of(service.url, timeouts=Timeouts(idle=0.1)) as client:
            assert kinds(await listed(client.events(NAME))) == ["queued", "started", "finished"]
    assert "last-event-id: 2" in service.requests[1]


async def test_a_stream_that_never_finishes_is_incomplete_and_says_where_it_broke_off() -> None:
    pauses = Pauses()
    async with scripted(stream(QUEUED, STARTED), stream()) as service:
        async with impatient(pauses, url=service.url) as client:
            events = client.events(NAME)
            assert [(await within(anext(events))).type for _ in range(2)] == ["queued", "started"]
            with pytest.raises(IncompleteStreamError) as caught:
                await within(anext(events))
            failed = caught.value
    assert (failed.execution, failed.last_seq, failed.reason) == (NAME, 2, "STREAM_INCOMPLETE")
    assert failed.metadata["cause"] == "CONNECTION_LOST"
    assert int(failed.metadata["attempts"]) == RetryPolicy().attempts
    assert sum(pauses.slept) <= RetryPolicy().total
    assert all("last-event-id: 2" in head for head in service.requests[1:])


async def test_a_stream_whose_service_goes_away_for_good_is_incomplete_too() -> None:
    async with scripted(stream(QUEUED, end=False)) as service:
        client = impatient(Pauses(), url=service.url)
        events = client.events(NAME)
        assert (await within(anext(events))).type == "queued"
    with pytest.raises(IncompleteStreamError) as caught:
        await within(anext(events))
    assert (caught.value.last_seq, caught.value.metadata["cause"]) == (1, "CONNECT_FAILED")
    await client.close()


async def test_a_last_line_that_was_cut_is_never_taken_for_an_event() -> None:
    """Also where what is there of it is good JSON."""
    whole = json.dumps(FINISHED).encode()
    async with scripted(stream(QUEUED, STARTED, whole), stream(FINISHED)) as service:
        async with client_of(service.url) as client:
            assert kinds(await listed(client.events(NAME))) == ["queued", "started", "finished"]
    assert len(service.requests) == 2


@pytest.mark.parametrize(
    "lines",
    [
        (QUEUED, FINISHED),
        (STARTED,),
        (QUEUED, QUEUED),
        (b"[]\n",),
        (b"{}\n",),
        (b"{\n",),
        (b'{"type":"newKind"}\n',),
        (b'{"type":"queued"}\n',),
        ({**FINISHED, "seq": 1, "result": {}},),
        (b"[" * 100_000 + b"\n",),
        (b"\xff\n",),
    ],
    ids=[
        "gap",
        "late start",
        "again",
        "list",
        "empty",
        "cut",
        "no number",
        "unnumbered",
        "no result",
        "deep",
        "bytes",
    ],
)
async def test_what_is_no_stream_of_the_contract_is_refused_and_not_repeated(lines: tuple[Any, ...]) -> None:
    async with scripted(stream(*lines)) as service, client_of(service.url) as client:
        with pytest.raises(ResponseError) as caught:
            await listed(client.events(NAME))
    assert caught.value.reason == "MALFORMED_RESPONSE"
    assert len(service.requests) == 1


LATE = {"seq": 4, "time": "2031-01-01T00:00:00.000Z", "type": "late", "name": "stdout", "text": "x"}


async def test_late_output_is_followed_over_cuts_too_until_the_service_ends_it() -> None:
    first, rest = stream(QUEUED, STARTED, FINISHED, end=False), stream(LATE)
    async with scripted(first, rest) as service, client_of(service.url) as client:
        assert kinds(await listed(client.events(NAME, late=True)))[2:] == ["finished", "late"]
    assert "follow=late" in service.requests[1]
    assert "last-event-id: 3" in service.requests[1]
    async with scripted(first, b"") as service:
        async with impatient(Pauses(), url=service.url) as client:
            with pytest.raises(TransportError) as caught:
                await listed(client.events(NAME, late=True))
    assert not isinstance(caught.value, IncompleteStreamError)


async def test_an_event_of_a_newer_service_is_counted_and_left_out() -> None:
    newer = {"seq": 2, "time": "", "type": "brandNew", "x": 1}
    async with scripted(stream(QUEUED, newer, FINISHED)) as service, client_of(service.url) as client:
        assert kinds(await listed(client.events(NAME))) == ["queued", "finished"]


async def test_signs_of_life_and_empty_lines_are_no_events() -> None:
    alive = {"type": "keepAlive"}
    tail = {"type": "tail", "name": "stdout", "text": "x"}
    lines = (QUEUED, alive, b"\n", STARTED, tail, FINISHED)
    async with scripted(stream(*lines)) as service, client_of(service.url) as client:
        assert kinds(await listed(client.events(NAME))) == ["queued", "started", "finished"]
        assert kinds(await listed(client.events(NAME, tails=True))) == [
            "queued",
            "started",
            "tail",
            "finished",
        ]


async def test_an_error_in_a_stream_is_raised_as_what_it_is() -> None:
    frame = {
        "error": {
            "code": 500, "status": "INTERNAL", "message": "no", "execution": NAME,
            "details": [{"reason": "INTERNAL", "metadata": {"errorId": "7"}}],
            "partialResult": {"execution": NAME, "state": "RUNNING"},
        }
    }  # fmt: skip
    async with scripted(stream(QUEUED, frame)) as service, client_of(service.url) as client:
        with pytest.raises(Internal) as caught:
            await listed(client.events(NAME))
    assert (caught.value.error_id, caught.value.execution) == ("7", NAME)
    assert caught.value.partial_result is not None
    assert len(service.requests) == 1


async def test_an_event_above_the_limit_is_refused_and_hardly_more_is_read() -> None:
    long = b'{"type":"stream","seq":1,"name":"stdout","text":"' + b"x" * 40_000_000 + b'"}\n'
    async with scripted(stream(long)) as service:
        async with client_of(service.url, limits=ClientLimits(event_bytes=100_000)) as client:
            with pytest.raises(ResponseError, match="event_bytes") as caught:
                await listed(client.events(NAME))
        await until(lambda: not service._tasks)
    assert caught.value.metadata == {"limit": "event_bytes", "limitBytes": "100000"}
    assert service.sent < 20_000_000


@pytest.mark.parametrize("announced", [True, False])
async def test_a_document_above_the_limit_is_refused(announced: bool) -> None:
    body = b'{"runtimes":[],"x":"' + b"x" * 200_000 + b'"}'
    whole = answer(body) if announced else head() + body
    async with scripted(whole) as service:
        async with client_of(service.url, limits=ClientLimits(document_bytes=100_000)) as client:
            with pytest.raises(ResponseError, match="document_bytes"):
                await within(client.list_runtimes())
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    "whole",
    [
        answer(b"<html>hello</html>", content_type="text/html"),
        answer(b"not here", "404 Not Found"),
        answer(b"", "200 OK", content_encoding="gzip"),
        answer({"runtimes": [{"no": "name"}]}),
        answer(b"[]"),
        answer({"error": {"status": "NEW", "details": []}}, "400 Bad"),
    ],
    ids=["html", "plain 404", "gzip", "no name", "list", "unknown error"],
)
async def test_what_is_no_service_is_told_and_not_repeated(whole: bytes) -> None:
    async with scripted(whole) as service, client_of(service.url) as client:
        with pytest.raises(ResponseError) as caught:
            await within(client.list_runtimes())
    assert caught.value.reason == "MALFORMED_RESPONSE"
    assert len(service.requests) == 1


async def test_a_redirect_is_not_followed_and_no_token_goes_there() -> None:
    async with scripted(EMPTY) as other:
        moved = answer(b"", "307 Temporary Redirect", location=f"{other.url}/v1/runtimes")
        async with scripted(moved) as service, client_of(service.url, token="secret") as client:
            with pytest.raises(ResponseError) as caught:
                await within(client.list_runtimes())
        assert "authorization: Bearer secret" in service.requests[0]
        assert other.requests == []
        assert other.url in caught.value.message
    assert caught.value.reason == "REDIRECTED"
    assert "secret" not in caught.value.message


async def test_a_cookie_is_not_taken() -> None:
    async with scripted(answer({"runtimes": []}, set_cookie="a=b; Path=/")) as service:
        async with client_of(service.url) as client:
            await within(client.list_runtimes())
            await within(client.list_runtimes())
    assert "cookie" not in service.requests[1].lower()


async def test_a_gateway_without_its_service_is_asked_again() -> None:
    down = answer(b"<html>bad gateway</html>", "502 Bad Gateway")
    async with scripted(down, down, EMPTY) as service, client_of(service.url) as client:
        assert await within(client.list_runtimes()) == []
    assert len(service.requests) == 3


async def test_unavailable_and_too_many_a_second_are_repeated_and_a_full_queue_is_not() -> None:
    busy = error(429, "RESOURCE_EXHAUSTED", "RATE_EXCEEDED", limit="requests_per_second", retryable="true")
    away = error(503, "UNAVAILABLE", "SHUTTING_DOWN")
    async with scripted(busy, away, EMPTY) as service, client_of(service.url) as client:
        assert await within(client.list_runtimes()) == []
    full = error(429, "RESOURCE_EXHAUSTED", "QUEUE_FULL", limit="queue", retryable="true")
    async with scripted(full) as service, client_of(service.url) as client:
        with pytest.raises(ResourceExhausted, match="no"):
            await within(client.execute(CODE))
    assert len(service.requests) == 1


async def test_unavailable_for_too_long_is_what_the_service_said_and_what_was_tried() -> None:
    async with scripted(error(503, "UNAVAILABLE", "SHUTTING_DOWN")) as service:
        async with impatient(Pauses(), url=service.url) as client:
            with pytest.raises(Unavailable) as caught:
                await within(client.list_runtimes())
    assert not isinstance(caught.value, TransportError)
    assert caught.value.reason == "SHUTTING_DOWN"
    assert int(caught.value.metadata["attempts"]) == len(service.requests) > 3


async def test_too_many_streams_are_told_by_the_name_of_their_limit() -> None:
    limits, timeouts = ClientLimits(connections=1), Timeouts(pool=0.05)
    async with scripted(stream(QUEUED, end=False), hold=True) as service:
        async with client_of(service.url, limits=limits, timeouts=timeouts) as client:
            events = client.events(NAME)
            await within(anext(events))
            with pytest.raises(TransportError, match="connections") as caught:
                await within(client.list_runtimes())
            await events.aclose()
    assert caught.value.reason == "CONNECTIONS_EXHAUSTED"


async def test_who_waits_long_enough_is_told_so_far_and_may_wait_again(door: Door) -> None:
    async with AsyncClient(door.service.url) as client:
        handle = await client.execute(request(door, "print a\nhold\nprint b", wait_timeout=0.2))
        for _ in range(3):
            with pytest.raises(DeadlineExceeded) as caught:
                await within(handle.result())
            assert (caught.value.reason, caught.value.execution) == ("WAIT_TIMEOUT", str(handle.name))
            assert caught.value.partial_result is not None
            assert caught.value.partial_result.state == "RUNNING"
        seen = []
        async for event in handle.events():  # which no deadline ends
            seen.append(event.type)
            if event.type == "stream":
                door.kernel.release.set()
        assert seen[-1] == "finished"
        assert (await within(handle.result())).stdout == "a\nb\n"
        assert (await handle).outcome is Outcome.OK


async def test_leaving_a_stream_early_gives_its_connection_back(door: Door) -> None:
    async with client_of(door.service.url, limits=ClientLimits(connections=1)) as client:
        handle = await within(client.execute(request(door, "print a\nhold")))
        for _ in range(3):
            events = handle.events()
            async for event in events:
                if event.type == "stream":
                    break
            await events.aclose()
            assert (await within(handle.snapshot())).stdout == "a\n"
        waiting = asyncio.ensure_future(handle.result())
        await until(lambda: door.service.tenants.open[0].streams == 1)
        waiting.cancel()
        await asyncio.wait([waiting])
        await until(lambda: door.service.tenants.open[0].streams == 0)
        assert await handle.cancel()
        assert (await within(handle.result())).outcome is Outcome.INTERRUPTED


async def test_an_execution_that_is_forgotten_meanwhile_is_not_run_again() -> None:
    """A stream goes on by its name, never by handing in the code once more."""
    gone = error(404, "NOT_FOUND", "NO_SUCH_EXECUTION")
    async with scripted(stream(QUEUED, end=False), gone) as service, client_of(service.url) as client:
        handle = await within(client.execute(CODE))
        with pytest.raises(CellhouseError) as caught:
            await within(handle.result())
    assert caught.value.reason == "NO_SUCH_EXECUTION"
    assert [each.split(" ", 1)[0] for each in service.requests] == ["POST", "GET"]


async def test_an_answer_that_names_no_execution_is_refused() -> None:
    async with scripted(answer({"result": RESULT})) as service, client_of(service.url) as client:
        with pytest.raises(ResponseError, match="which execution"):
            await within(client.execute(CODE))
