"""Executing code over HTTP: the three forms of an answer, repeats, waiting, cancelling, input."""

import asyncio
import json

import pytest

from cellhouse.messages import RawText
from cellhouse.model import SystemClock
from cellhouse.runtime.network import LOG_NAME
from cellhouse.runtime.session_log import SessionLog
from tests.doors.support import NDJSON, SSE, Door, frames, house_of, ok, refused, until, within


async def test_json_waits_for_the_result(door: Door) -> None:
    response = await within(
        door.client.post(door.path(":executeCode"), json={"code": "print a\nvalue 2", "executionId": "one"})
    )
    result = response.json()
    assert (result["outcome"], result["stdout"], result["result"]) == ("OK", "a\n", "2")
    assert response.headers["cellhouse-execution"] == result["execution"]
    assert await ok(door.client.get(f"/v1/{result['execution']}")) == result


async def test_an_exception_is_a_result(door: Door) -> None:
    result = await door.run("raise ValueError no")
    assert result["outcome"] == "ERROR"
    assert result["executionError"]["name"] == "ValueError"


async def test_a_runtime_as_target_gets_a_session_that_stays(door: Door) -> None:
    result = await ok(door.client.post("/v1/runtimes/here:executeCode", json={"code": "set x 1"}))
    again = await ok(door.client.post(f"/v1/{result['session']}:executeCode", json={"code": "get x"}))
    assert again["result"] == "1"


@pytest.mark.parametrize("headers", [SSE, NDJSON], ids=["sse", "ndjson"])
async def test_a_stream_is_the_log_and_ends_with_finished(door: Door, headers: dict[str, str]) -> None:
    code = {"code": "print a\ndisplay <b>\nerr b\nvalue 2"}
    response = await within(door.client.post(door.path(":executeCode"), json=code, headers=headers))
    assert response.headers["content-type"].startswith(headers["accept"])
    if headers is SSE:
        found = frames(response.text)
        assert [(seq, kind) for seq, kind, _ in found] == [
            (str(event["seq"]), event["type"]) for _, _, event in found
        ]
        events = [event for _, _, event in found]
    else:
        events = [json.loads(line) for line in response.text.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["type"] for event in events][:2] == ["queued", "started"]
    assert events[-1]["type"] == "finished"
    path = f"/v1/{response.headers['cellhouse-execution']}"
    assert events[-1]["result"] == await ok(door.client.get(path))
    assert await door.events(path) == events


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "application/json"),
        ("text/html, application/*;q=0.8", "application/json"),
        ("application/json;q=0.5, text/event-stream", "text/event-stream"),
        ("text/event-stream;q=0, application/x-ndjson", "application/x-ndjson"),
    ],
)
async def test_the_form_is_what_is_preferred(door: Door, accept: str, kind: str) -> None:
    response = await within(
        door.client.post(door.path(":executeCode"), json={"code": "print a"}, headers={"accept": accept})
    )
    assert response.headers["content-type"].partition(";")[0] == kind


async def test_a_form_that_nobody_has_is_refused_and_nothing_runs(door: Door) -> None:
    call = door.client.post(
        door.path(":executeCode"), json={"code": "print a"}, headers={"accept": "image/png"}
    )
    await refused(call, 406, "INVALID_ARGUMENT", "NOT_ACCEPTABLE")
    assert house_of(door.service).unfinished == ()
    assert door.fakes.launchers[-1].made == []


async def test_a_target_that_the_path_does_not_name_is_refused(door: Door) -> None:
    await refused(
        door.client.post(door.path(":executeCode"), json={"code": "print a", "runtime": "runtimes/here"}),
        400,
        "INVALID_ARGUMENT",
        "INVALID_TARGET",
    )
    same = "runtimes/here/sessions/main"
    await ok(door.client.post(door.path(":executeCode"), json={"code": "print a", "session": same}))


async def test_fifty_identical_calls_run_the_code_once(door: Door) -> None:
    body = {"code": "print a\nhold", "executionId": "same"}
    forms = [{}, SSE, NDJSON]
    calls = [
        asyncio.ensure_future(
            door.client.post(door.path(":executeCode"), json=body, headers=forms[number % 3])
        )
        for number in range(50)
    ]
    tenant = door.service.tenants.open[0]
    await until(lambda: tenant.requests == 50)
    await until(lambda: door.fakes.launchers[-1].made and door.kernel.codes)
    door.kernel.release.set()
    results = []
    for call in calls:
        response = await within(call)
        kind = response.headers["content-type"].partition(";")[0]
        if kind == "application/json":
            results.append(response.json())
        elif kind == "text/event-stream":
            results.append(frames(response.text)[-1][2]["result"])
        else:
            results.append(json.loads(response.text.splitlines()[-1])["result"])
    assert all(result == results[0] for result in results)
    assert results[0]["stdout"] == "a\n"
    assert door.kernel.codes == ["print a\nhold"]


async def test_other_code_under_the_same_id_is_refused(door: Door) -> None:
    await door.run("print a", executionId="one")
    call = door.client.post(door.path(":executeCode"), json={"code": "print b", "executionId": "one"})
    await refused(call, 409, "ALREADY_EXISTS", "EXECUTION_ID_REUSED")


async def test_who_waits_too_long_is_told_so_far_and_can_repeat(door: Door) -> None:
    body = {"code": "print a\nhold", "executionId": "one", "waitTimeout": 0.2}
    path = await door.start("print a\nhold", executionId="one")
    await until(lambda: "a\n" in house_of(door.service).read_text(path[4:], "stdout").text)
    error = await refused(
        door.client.post(door.path(":executeCode"), json=body), 504, "DEADLINE_EXCEEDED", "WAIT_TIMEOUT"
    )
    assert error["execution"] == path.removeprefix("/v1/")
    assert (error["partialResult"]["state"], error["partialResult"]["stdout"]) == ("RUNNING", "a\n")
    response = await within(door.client.post(door.path(":executeCode"), json=body, headers=SSE))
    *events, (number, kind, last) = frames(response.text)
    assert [event["type"] for _, _, event in events] == ["queued", "started", "stream"]
    assert (number, kind) == ("", "error")
    assert last["error"]["status"] == "DEADLINE_EXCEEDED"
    assert last["error"]["partialResult"]["stdout"] == "a\n"
    door.kernel.release.set()
    assert (await door.run("print a\nhold", executionId="one"))["outcome"] == "OK"
    assert door.kernel.codes == ["print a\nhold"]


async def test_who_goes_away_interrupts_nothing(door: Door) -> None:
    """Neither a closed stream nor a closed call that waits."""
    path = await door.start("hold\nprint done", executionId="one")
    waiting = asyncio.ensure_future(
        door.client.post(door.path(":executeCode"), json={"code": "hold\nprint done", "executionId": "one"})
    )
    tenant = door.service.tenants.open[0]
    await until(lambda: tenant.requests == 1)
    waiting.cancel()
    await until(lambda: tenant.requests == 0)
    door.kernel.release.set()
    assert (await door.events(path))[-1]["result"]["stdout"] == "done\n"


async def test_cancelling_one_that_waits_and_one_that_runs(door: Door) -> None:
    running = await door.start("hold")
    queued = asyncio.ensure_future(
        door.client.post(door.path(":executeCode"), json={"code": "print b", "executionId": "two"})
    )
    path = door.path("/executions/two")
    await until(lambda: len(house_of(door.service).unfinished) == 2)
    assert (await ok(door.client.get(path)))["state"] == "QUEUED"
    assert await ok(door.client.post(f"{path}:cancel")) == {}
    assert (await within(queued)).json()["outcome"] == "NEVER_STARTED"
    assert await ok(door.client.post(f"{running}:cancel")) == {}
    assert (await door.events(running))[-1]["result"]["outcome"] == "INTERRUPTED"
    assert await ok(door.client.post(f"{running}:cancel")) == {}
    await refused(
        door.client.post(door.path("/executions/none:cancel")), 404, "NOT_FOUND", "NO_SUCH_EXECUTION"
    )


async def test_input_is_asked_for_and_given(door: Door) -> None:
    async with door.client.stream(
        "POST", door.path(":executeCode"), json={"code": "ask name?", "allowStdin": True}, headers=NDJSON
    ) as response:
        path = f"/v1/{response.headers['cellhouse-execution']}"
        events = []
        async for line in response.aiter_lines():
            events.append(json.loads(line))
            if events[-1]["type"] == "inputRequested":
                await refused(
                    door.client.post(f"{path}:provideInput", json={}),
                    400,
                    "INVALID_ARGUMENT",
                    "INVALID_FIELD",
                )
                await ok(door.client.post(f"{path}:provideInput", json={"value": "é"}))
    assert events[-1]["result"]["stdout"].endswith("got 'é'\n")
    await refused(
        door.client.post(f"{path}:provideInput", json={"value": "late"}),
        400,
        "FAILED_PRECONDITION",
        "NOT_WAITING_FOR_INPUT",
    )


async def test_executions_are_listed_by_pages(door: Door) -> None:
    for number in range(3):
        await door.run(f"print {number}", executionId=f"e{number}")
    first = await ok(door.client.get(door.path("/executions"), params={"pageSize": 2}))
    assert [each["executionId"] for each in first["executions"]] == ["e0", "e1"]
    assert {each["outcome"] for each in first["executions"]} == {"OK"}
    rest = await ok(door.client.get(door.path("/executions"), params={"pageToken": first["nextPageToken"]}))
    assert [each["executionId"] for each in rest["executions"]] == ["e2"]
    assert "nextPageToken" not in rest
    for token in ("enp6eg==", "x" * 12):
        error = await refused(
            door.client.get(door.path("/executions"), params={"pageToken": token}),
            400,
            "INVALID_ARGUMENT",
            "INVALID_FIELD",
        )
        assert error["details"][0]["metadata"]["field"] == "pageToken"
    await refused(door.client.get(door.path("/executions", "none")), 404, "NOT_FOUND", "NO_SUCH_SESSION")


async def test_records_outlive_their_runtime(door: Door) -> None:
    result = await door.run("print a\nvalue 1", executionId="one")
    await ok(door.client.delete("/v1/runtimes/here"))
    path = f"/v1/{result['execution']}"
    assert await ok(door.client.get(path)) == result
    assert (await door.events(path))[-1]["result"] == result
    again = door.client.post(
        door.path(":executeCode"), json={"code": "print a\nvalue 1", "executionId": "one"}
    )
    assert await ok(again) == result
    assert await ok(door.client.get(f"{path}/stdout", params={"limit": 10})) == {
        "text": "a\n",
        "offset": "0",
        "nextOffset": "2",
        "totalBytes": "2",
        "eof": True,
    }


async def test_what_belongs_to_no_execution_is_in_the_session_s_own_log(door: Door) -> None:
    await refused(door.client.get(door.path("/log")), 404, "NOT_FOUND", "NO_SUCH_SESSION")
    await door.run("print a")
    assert await ok(door.client.get(door.path("/log"))) == {"entries": []}
    for number in range(3):
        door.kernel.put(RawText("stdout", f"{number}\n".encode(), parent_id="nobody", printed=True))
    await until(lambda: len(house_of(door.service).session_log(f"{door.runtime}/sessions/main")) == 3)
    first = await ok(door.client.get(door.path("/log"), params={"pageSize": 2}))
    assert [(each["kind"], each["text"]) for each in first["entries"]] == [
        ("stdout", "0\n"),
        ("stdout", "1\n"),
    ]
    rest = await ok(door.client.get(door.path("/log"), params={"pageToken": first["nextPageToken"]}))
    assert [each["text"] for each in rest["entries"]] == ["2\n"]
    assert "nextPageToken" not in rest
    await refused(
        door.client.get(door.path("/log"), params={"pageToken": "eA=="}),
        400,
        "INVALID_ARGUMENT",
        "INVALID_FIELD",
    )
    await ok(door.client.delete("/v1/runtimes/here"))
    assert len((await ok(door.client.get(door.path("/log"))))["entries"]) == 3


async def test_the_log_of_a_network_is_the_runtime_s(door: Door) -> None:
    path = "/v1/runtimes/here/networkLog"
    assert await ok(door.client.get(path)) == {"entries": []}
    directory = house_of(door.service).state_dir / "sessions" / "here"
    log = SessionLog(directory / LOG_NAME, SystemClock())
    for number in range(3):
        log.write("network", f"allowed {number}.example:443: CONNECT")
    first = await ok(door.client.get(path, params={"pageSize": 2}))
    assert [each["text"][:9] for each in first["entries"]] == ["allowed 0", "allowed 1"]
    rest = await ok(door.client.get(path, params={"pageToken": first["nextPageToken"]}))
    assert [(each["kind"], each["text"][:9]) for each in rest["entries"]] == [("network", "allowed 2")]
    await ok(door.client.delete("/v1/runtimes/here"))
    assert len((await ok(door.client.get(path)))["entries"]) == 3
    await refused(door.client.get("/v1/runtimes/none/networkLog"), 404, "NOT_FOUND", "NO_SUCH_RUNTIME")
