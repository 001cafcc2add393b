"""Runtimes and sessions over HTTP: made once, listed by pages, kept, ended."""

import asyncio

from tests.doors.support import Door, ok, refused, within


async def test_made_found_and_deleted(door: Door) -> None:
    made = await ok(door.client.get("/v1/runtimes/here"))
    assert made["name"] == "runtimes/here"
    assert made["status"] == "ACTIVE"
    assert await ok(door.client.delete("/v1/runtimes/here")) == {}
    await refused(door.client.get("/v1/runtimes/here"), 404, "NOT_FOUND", "NO_SUCH_RUNTIME")
    await refused(door.client.delete("/v1/runtimes/here"), 404, "NOT_FOUND", "NO_SUCH_RUNTIME")
    assert await ok(door.client.delete("/v1/runtimes/here", params={"allowMissing": "true"})) == {}


async def test_a_document_is_as_the_model_writes_it(door: Door) -> None:
    """What is empty and was observed is there; what is not known is absent, and never null."""
    response = await within(door.client.get("/v1/runtimes/here"))
    assert response.json()["sessions"] == []
    assert "null" not in response.text
    result = await door.run("print a")
    assert result["artifacts"] == []
    assert "result" not in result


async def test_a_request_id_makes_one_runtime(door: Door) -> None:
    body = {"requestId": "r1", "runtime": {"idleSeconds": 60}}
    calls = [door.client.post("/v1/runtimes", json=body) for _ in range(8)]
    made = [(await within(call)).json()["name"] for call in calls]
    together = await asyncio.gather(*(door.client.post("/v1/runtimes", json=body) for _ in range(8)))
    assert {*made, *(response.json()["name"] for response in together)} == {made[0]}
    assert len(door.fakes.sandboxes) == 2
    await refused(
        door.client.post("/v1/runtimes", json={"requestId": "r1", "runtime": {"idleSeconds": 61}}),
        409,
        "ALREADY_EXISTS",
        "REQUEST_ID_REUSED",
    )
    await ok(door.client.delete(f"/v1/{made[0]}"))
    await refused(door.client.post("/v1/runtimes", json=body), 404, "NOT_FOUND", "NO_SUCH_RUNTIME")


async def test_runtimes_are_listed_by_pages(door: Door) -> None:
    for number in range(5):
        await door.make(runtimeId=f"r{number}")
    seen, token = [], ""
    while True:
        page = await ok(door.client.get("/v1/runtimes", params={"pageSize": 2, "pageToken": token}))
        seen += [runtime["name"] for runtime in page["runtimes"]]
        assert len(page["runtimes"]) <= 2
        if not (token := page.get("nextPageToken", "")):
            break
    assert seen == ["runtimes/here", *(f"runtimes/r{number}" for number in range(5))]
    for params, field in (({"pageToken": "x"}, "pageToken"), ({"pageSize": "-1"}, "pageSize")):
        error = await refused(
            door.client.get("/v1/runtimes", params=params), 400, "INVALID_ARGUMENT", "INVALID_FIELD"
        )
        assert error["details"][0]["metadata"]["field"] == field
        assert error["details"][1]["fieldViolations"][0]["field"] == field


async def test_keep_alive_puts_the_end_off(door: Door) -> None:
    before = (await ok(door.client.get("/v1/runtimes/here")))["expireTime"]
    after = (await ok(door.client.post("/v1/runtimes/here:keepAlive")))["expireTime"]
    assert after >= before


async def test_sessions_are_made_listed_restarted_and_deleted(door: Door) -> None:
    sessions = "/v1/runtimes/here/sessions"
    assert (await ok(door.client.post(sessions, json={"sessionId": "a"})))["name"].endswith("/sessions/a")
    minted = await ok(door.client.post(sessions))
    await refused(door.client.post(sessions, json={"sessionId": "a"}), 409, "ALREADY_EXISTS", "ID_TAKEN")
    listed = await ok(door.client.get(sessions))
    assert [each["name"] for each in listed["sessions"]] == ["runtimes/here/sessions/a", minted["name"]]
    running = await door.start("print so far\nhold", "a")
    assert await ok(door.client.post(f"{sessions}/a:interrupt")) == {"interrupted": True}
    assert (await door.events(running))[-1]["result"]["outcome"] == "INTERRUPTED"
    assert await ok(door.client.post(f"{sessions}/a:interrupt")) == {"interrupted": False}
    running = await door.start("hold", "a")
    assert (await ok(door.client.post(f"{sessions}/a:restart")))["name"].endswith("/a")
    result = (await door.events(running))[-1]["result"]
    assert (result["outcome"], result["sessionState"]) == ("INTERRUPTED", "RESET")
    assert await ok(door.client.delete(f"{sessions}/a")) == {}
    await refused(door.client.get(f"{sessions}/a"), 404, "NOT_FOUND", "NO_SUCH_SESSION")
    assert await ok(door.client.delete(f"{sessions}/a", params={"allowMissing": True})) == {}


async def test_what_may_be_created_is_told(door: Door) -> None:
    specs = await ok(door.client.get("/v1/runtimeSpecs"))
    assert specs["mayCreate"] is True
    assert [each["name"] for each in specs["environments"]] == ["default"]
    assert specs["environments"][0]["kernels"] == ["other", "python3"]
    (default,) = [level for level in specs["isolation"] if level["default"]]
    assert default["available"]
    assert default["networkPolicies"] == ["host"]  # the fake walls have no network of their own
    assert {each["name"] for each in specs["limits"]} >= {"memory", "cpus", "content"}
    assert (specs["runtimes"], specs["maxRuntimes"]) == (1, 64)


async def test_a_wall_that_cannot_be_had_is_refused(door: Door) -> None:
    error = await refused(
        door.client.post("/v1/runtimes", json={"runtime": {"limits": {"memory": 5}}}),
        400,
        "INVALID_ARGUMENT",
        "INVALID_FIELD",
    )
    assert "at least" in error["message"]
