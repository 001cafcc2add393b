"""What every request passes: hosts, origins, encodings, sizes, rates; and one shape for every refusal."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cellhouse.doors.bodies import JSON_VALUES
from cellhouse.doors.executions import Executions
from cellhouse.doors.limits import HEAD_BYTES, DoorLimits
from cellhouse.doors.origins import Origins
from cellhouse.doors.server import ServeOptions
from cellhouse.doors.tenants import Tenant
from cellhouse.model import InvalidArgument, PermissionDenied, ResourceExhausted, Unauthenticated
from cellhouse.model.errors import error_from_wire
from tests.doors.support import Door, Names, connect, ok, opened, raw, refused, until, within
from tests.runtime.support import FakeWorld

# One shape


async def test_what_the_router_refuses_has_the_shape_of_all_errors(door: Door) -> None:
    await refused(door.client.get("/v1/nothing"), 404, "NOT_FOUND", "NO_SUCH_PATH")
    response = await within(door.client.patch("/v1/runtimes/here"))
    error = error_from_wire(response.json())
    assert (response.status_code, error.status, error.reason) == (
        405,
        "INVALID_ARGUMENT",
        "METHOD_NOT_ALLOWED",
    )
    assert set(response.headers["allow"].split(", ")) == {"GET", "DELETE"}
    response = await within(door.client.get(door.path(":executeCode")))
    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    for path in ("/v1/runtimes/Not_An_Id", "/v1/runtimes/here/sessions/-"):
        await refused(door.client.get(path), 400, "INVALID_ARGUMENT", "INVALID_NAME")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "no JSON"),
        (b"[]", "JSON object"),
        (b'"x"', "JSON object"),
        (b"\xff{}", "no UTF-8"),
        (b'{"code": "\xc3"}', "no UTF-8"),
        (b'{"code": NaN}', "no JSON"),
        (b'{"code": 5}', "string"),
        (b'{"code": "print a", "waitTimeout": "5"}', "waitTimeout"),
        (b'{"code": "print a", "executionId": "a/b"}', "executionId"),
        (b'{"code": "\\ud800"}', "hex escape"),
        (b"[" * 100_000, "no JSON"),
        (b'{"code": "", "more": [' + b"[]," * JSON_VALUES + b"1]}", "values"),
    ],
)
async def test_a_bad_body_is_refused_and_says_how(door: Door, body: bytes, says: str) -> None:
    response = await within(door.client.post(door.path(":executeCode"), content=body))
    error = error_from_wire(response.json())
    assert isinstance(error, InvalidArgument)
    assert response.status_code == 400
    assert says in error.message
    assert error.violations


async def test_what_separates_values_may_stand_in_code_as_often_as_it_likes(door: Door) -> None:
    code = "print " + ',[{"\\' * JSON_VALUES
    document = await ok(door.client.post(door.path(":executeCode"), json={"code": code}))
    assert document["outcome"] == "OK"


@pytest.mark.parametrize(
    "path", ["/v1/runtimes/%ff", "/v1/runtimes/here/files/%00", "/v1/runtimes?pageToken=%ff"]
)
async def test_an_escape_that_is_no_text_is_refused(door: Door, path: str) -> None:
    head, _, body = (
        await raw(
            door.service, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
    ).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert isinstance(error_from_wire(json.loads(body)), InvalidArgument)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_refused_in_the_same_shape(door: Door, request_bytes: bytes) -> None:
    head, _, body = (await raw(door.service, request_bytes)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert isinstance(error_from_wire(json.loads(body)), InvalidArgument)


async def test_a_head_that_is_too_large_is_refused(door: Door) -> None:
    reader, writer = await connect(door.service)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
    for _ in range(16):
        writer.write(b"X: " + b"a" * HEAD_BYTES + b"\r\n")
    answer = b""
    while b"}" not in answer and (part := await within(reader.read(1 << 16))):
        answer += part
    assert answer.startswith(b"HTTP/1.1 400")
    writer.transport.abort()


async def test_a_failure_of_ours_has_an_id_and_tells_nothing_else(
    door: Door, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise LookupError("a secret")

    monkeypatch.setattr("cellhouse.house.House.get_runtime", broken)
    error = await refused(door.client.get("/v1/runtimes/here"), 500, "INTERNAL", "INTERNAL")
    assert "secret" not in json.dumps(error)
    assert error["details"][0]["metadata"]["errorId"] in caplog.text


# Sizes


async def test_a_body_that_is_too_large_is_refused(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path / "state", body_bytes=1_000) as door:
        await door.make()
        path = door.path(":executeCode")

        async def pieces() -> Any:
            for _ in range(4):
                yield b" " * 300

        for content in (b" " * 1_001, pieces()):
            error = await refused(
                door.client.post(path, content=content), 413, "INVALID_ARGUMENT", "BODY_TOO_LARGE"
            )
            assert error["details"][0]["metadata"]["limit"] == "body_bytes"


async def test_bodies_that_are_too_large_together_are_refused_and_given_back(
    fakes: FakeWorld, tmp_path: Path
) -> None:
    async with opened(fakes, tmp_path / "state", body_bytes=1_000, bodies_bytes=1_500) as door:
        await door.make()
        path = door.path(":executeCode")
        arrived, go_on = asyncio.Event(), asyncio.Event()
        begun = json.dumps({"code": "print first", "executionId": "first"}).encode()

        async def slowly() -> AsyncIterator[bytes]:
            yield begun[:-1] + b" " * 800
            arrived.set()
            await go_on.wait()
            yield b"}"

        first = asyncio.create_task(door.client.post(path, content=slowly()))
        await within(arrived.wait())
        await until(lambda: door.service.tenants.open[0].body_bytes > 800)
        large = begun[:-1] + b" " * 800 + b"}"
        error = await refused(
            door.client.post(path, content=large), 429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"
        )
        assert error["details"][0]["metadata"]["limit"] == "bodies_bytes"
        go_on.set()
        assert (await within(first)).status_code == 200
        assert door.service.tenants.open[0].body_bytes == 0


async def test_code_that_is_too_long_is_refused(door: Door) -> None:
    error = await refused(
        door.client.post(door.path(":executeCode"), json={"code": "x" * (4 * 2**20 + 1)}),
        400,
        "INVALID_ARGUMENT",
        "INVALID_FIELD",
    )
    assert "code_bytes" in error["message"]


async def test_a_body_that_stops_coming_is_given_up(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path / "state", body_seconds=0.1) as door:
        await door.make()
        reader, writer = await connect(door.service)
        writer.write(
            f"POST {door.path(':executeCode')} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{{".encode()
        )
        assert (await within(reader.readline())).startswith(b"HTTP/1.1 503")
        writer.transport.abort()


# Counts and rates


async def test_requests_over_the_rate_are_refused_by_name(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path / "state", requests_per_second=0.001, burst=3) as door:
        for _ in range(3):
            await ok(door.client.get("/v1/runtimes"))
        error = await refused(door.client.get("/v1/runtimes"), 429, "RESOURCE_EXHAUSTED", "RATE_EXCEEDED")
        assert error["details"][0]["metadata"] == {"limit": "requests_per_second", "retryable": "true"}
        assert (await ok(door.client.get("/healthz"))) == {"status": "ok"}


def test_the_rate_fills_up_again() -> None:
    now = [0.0]
    limits = DoorLimits(requests_per_second=10, burst=2)
    tenant = Tenant(None, limits, Executions(), lambda: now[0])  # type: ignore[arg-type]
    tenant.check_rate()
    tenant.check_rate()
    with pytest.raises(ResourceExhausted):
        tenant.check_rate()
    now[0] = 0.1
    tenant.check_rate()
    with pytest.raises(ResourceExhausted):
        tenant.check_rate()


async def test_too_many_at_once_are_refused_by_name(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path / "state", max_requests=2) as door:
        await door.make()
        waiting = [asyncio.ensure_future(door.run("hold", f"s{number}")) for number in range(2)]
        tenant = door.service.tenants.open[0]
        await until(lambda: tenant.requests == 2)
        error = await refused(door.client.get("/v1/runtimes"), 429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED")
        assert error["details"][0]["metadata"]["limit"] == "max_requests"
        await until(lambda: len(door.fakes.launchers[-1].made) == 2)
        for kernel in door.fakes.launchers[-1].made:
            kernel.release.set()
        for call in waiting:
            assert (await within(call))["outcome"] == "OK"


async def test_executions_runtimes_and_queues_have_their_limits(fakes: FakeWorld, tmp_path: Path) -> None:
    changes = {"max_executions": 2, "max_runtimes": 1}
    async with opened(fakes, tmp_path / "state", changes=changes) as door:
        await door.make()
        error = await refused(door.client.post("/v1/runtimes"), 429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED")
        assert error["details"][0]["metadata"]["limit"] == "max_runtimes"
        first = await door.start("hold", "a", executionId="one")
        await door.start("hold", "b")
        body = {"code": "print a"}
        error = await refused(
            door.client.post(door.path(":executeCode", "c"), json=body),
            429,
            "RESOURCE_EXHAUSTED",
            "QUOTA_EXCEEDED",
        )
        assert error["details"][0]["metadata"]["limit"] == "max_executions"
        # What was accepted before can be attached to all the same.
        again = asyncio.ensure_future(door.run("hold", "a", executionId="one"))
        await ok(door.client.post(f"{first}:cancel"))
        assert (await within(again))["outcome"] == "INTERRUPTED"


# Hosts and origins


@pytest.mark.parametrize(
    ("host", "good"),
    [
        ("localhost", True),
        ("LOCALHOST:80", True),
        ("127.0.0.1:9", True),
        ("[::1]:9", True),
        ("10.1.2.3", True),
        ("mine.example", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("", False),
        ("[evil", False),
    ],
)
def test_a_host_is_ours_or_refused(host: str, good: bool) -> None:
    origins = Origins(["127.0.0.1", "mine.example"])
    headers = [(b"host", host.encode())]
    if good:
        assert origins.check(headers, "http") == ""
    else:
        with pytest.raises(PermissionDenied, match="Host"):
            origins.check(headers, "http")


def test_none_and_several_hosts_are_refused_but_not_on_a_unix_socket() -> None:
    for headers in ([], [(b"host", b"localhost"), (b"host", b"localhost")]):
        with pytest.raises(PermissionDenied):
            Origins([]).check(headers, "http")
        assert Origins(None).check(headers, "http") == ""


async def test_a_rebound_name_gets_nothing(door: Door) -> None:
    await refused(
        door.client.get("/v1/runtimes", headers={"host": "evil.example"}),
        403,
        "PERMISSION_DENIED",
        "HOST_NOT_ALLOWED",
    )


async def test_a_page_of_another_origin_can_do_nothing(door: Door) -> None:
    """Not even by a request that a browser sends without asking first."""
    for origin in ("https://evil.example", "null"):
        headers = {"origin": origin, "content-type": "text/plain"}
        call = door.client.post(
            "/v1/runtimes/here:executeCode", content=b'{"code":"print a"}', headers=headers
        )
        await refused(call, 403, "PERMISSION_DENIED", "ORIGIN_NOT_ALLOWED")
        response = await within(door.client.options("/v1/runtimes", headers=headers))
        assert response.status_code == 403
        assert "access-control-allow-origin" not in response.headers
    assert door.fakes.launchers[-1].made == []
    own = {"origin": door.service.url}
    await ok(door.client.get("/v1/runtimes", headers=own))


async def test_an_origin_that_is_allowed_may_ask_and_read(fakes: FakeWorld, tmp_path: Path) -> None:
    options = ServeOptions(cors_origins=("https://app.example",), limits=DoorLimits(drain_seconds=0))
    async with opened(fakes, tmp_path / "state", options=options) as door:
        headers = {"origin": "https://app.example", "access-control-request-method": "POST"}
        asked = await within(door.client.options("/v1/runtimes", headers=headers))
        assert asked.status_code == 204
        assert asked.headers["access-control-allow-origin"] == "https://app.example"
        assert "Authorization" in asked.headers["access-control-allow-headers"]
        told = await within(door.client.get("/v1/runtimes", headers=headers))
        assert told.headers["access-control-allow-origin"] == "https://app.example"
        assert told.headers["vary"] == "Origin"
        missing = await within(door.client.get("/v1/runtimes/none", headers=headers))
        assert missing.headers["access-control-allow-origin"] == "https://app.example"


# Callers


async def test_no_tenant_sees_anything_of_another(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path / "state", authenticator=Names()) as door:
        one, two = ({"authorization": f"Bearer {name}"} for name in ("one", "two"))
        door.client.headers.update(one)
        await door.make(runtimeId="same", requestId="r")
        result = await door.run("print secret", executionId="e")
        await ok(door.client.put("/v1/runtimes/same/files/a.txt", content=b"secret"))
        door.client.headers.update(two)
        for path in (
            "/v1/runtimes/same",
            "/v1/runtimes/none",
            "/v1/runtimes/same/sessions",
            f"/v1/{result['execution']}",
            f"/v1/{result['execution']}/events",
            f"/v1/{result['execution']}/stdout",
            "/v1/runtimes/same/files/a.txt",
        ):
            response = await within(door.client.get(path))
            assert response.status_code == 404
            assert "secret" not in response.text
        known = (await within(door.client.get("/v1/runtimes/same"))).text
        unknown = (await within(door.client.get("/v1/runtimes/none"))).text
        assert known.replace("same", "none") == unknown
        # Neither a name that is taken elsewhere nor an id that was used there is in the way.
        assert (await ok(door.client.get("/v1/runtimes"))) == {"runtimes": []}
        await door.make(runtimeId="same", requestId="r")
        assert (await door.run("print mine", executionId="e"))["stdout"] == "mine\n"
        assert (tmp_path / "state" / "tenants" / "one").is_dir()


async def test_no_token_and_a_scope_that_is_missing(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path / "state", authenticator=Names()) as door:
        response = await within(door.client.get("/v1/runtimes"))
        assert isinstance(error_from_wire(response.json()), Unauthenticated)
        assert response.headers["www-authenticate"] == "Bearer"
        door.client.headers["authorization"] = "Bearer one"
        await door.make(runtimeId="mine")
        door.client.headers["authorization"] = "Bearer one:read"
        await ok(door.client.get("/v1/runtimes/mine"))
        assert (await ok(door.client.get("/v1/runtimeSpecs")))["mayCreate"] is False
        for call in (
            door.client.post("/v1/runtimes"),
            door.client.post("/v1/runtimes/mine:executeCode", json={"code": "print a"}),
            door.client.delete("/v1/runtimes/mine"),
            door.client.put("/v1/runtimes/mine/files/a", content=b""),
            door.client.delete("/v1/runtimes/mine/files/a"),
            door.client.post("/v1/runtimes/mine/sessions/main:restart"),
            door.client.get("/metrics"),
        ):
            await refused(call, 403, "PERMISSION_DENIED", "SCOPE_MISSING")
        for path in ("/healthz", "/readyz", "/openapi.json", "/docs"):
            assert (await within(door.client.get(path, headers={"authorization": ""}))).status_code == 200


# The service about itself


async def test_metrics_count_and_name_nothing_that_a_caller_made_up(door: Door) -> None:
    await within(door.client.get("/v1/secret-path"))
    await door.run("print a")
    text = (await within(door.client.get("/metrics"))).text
    assert "cellhouse_runtimes 1.0" in text
    assert 'route="/v1/runtimes/{runtime}/sessions/{session}:executeCode"' in text
    assert "secret" not in text


async def test_the_document_is_openapi_and_the_page_runs_no_script(door: Door) -> None:
    document = await ok(door.client.get("/openapi.json"))
    assert document["openapi"].startswith("3.1")
    text = json.dumps(document)
    for name in document["components"]["schemas"]:
        assert text.count(f'"#/components/schemas/{name}"') or name in ("TailFrame", "Event", "LateEvent")
    for found in set(text.split('"#/components/schemas/')[1:]):
        assert found.partition('"')[0] in document["components"]["schemas"]
    assert "HTTPValidationError" not in text
    page = await within(door.client.get("/docs"))
    assert "<script" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "/v1/runtimes/{runtime}/sessions/{session}:executeCode" in page.text
