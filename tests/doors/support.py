"""A service of its own for each test: the real server on a socket, over houses with fake kernels."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from cellhouse.doors.callers import ALL_SCOPES, Authenticator, Caller, Scope
from cellhouse.doors.limits import DoorLimits
from cellhouse.doors.server import ServeOptions, Service
from cellhouse.house import House
from cellhouse.keepers import DirectHouse
from cellhouse.model import CallReason, Unauthenticated
from tests.runtime.kernels import FakeKernel
from tests.runtime.support import FakeWorld, settings, until, within

SSE = {"accept": "text/event-stream"}
NDJSON = {"accept": "application/x-ndjson"}


class Names:
    """An authenticator of tests: a bearer's token is `tenant` or `tenant:scope`."""

    def authenticate(self, authorization: str | None) -> Caller:
        word, _, token = (authorization or "").partition(" ")
        if word != "Bearer" or not token:
            raise Unauthenticated("Authorization: a bearer token is needed", reason=CallReason.NO_TOKEN)
        tenant, _, scope = token.partition(":")
        return Caller(tenant, token, frozenset({Scope(scope)}) if scope else ALL_SCOPES)


@dataclass
class Door:
    """A running service, a client of it, and short words for what tests do there."""

    service: Service
    client: httpx.AsyncClient
    fakes: FakeWorld
    runtime: str = ""
    opened: list[httpx.AsyncClient] = field(default_factory=list)

    @property
    def kernel(self) -> FakeKernel:
        return self.fakes.launchers[-1].kernel

    def path(self, rest: str = "", session: str = "main") -> str:
        return f"/v1/{self.runtime}/sessions/{session}{rest}"

    async def make(self, **body: Any) -> dict[str, Any]:
        """A runtime; the tests' paths are of the one that was made first."""
        made: dict[str, Any] = await ok(self.client.post("/v1/runtimes", json=body))
        self.runtime = self.runtime or made["name"]
        return made

    async def run(self, code: str, session: str = "main", **options: Any) -> dict[str, Any]:
        body = {"code": code, **options}
        result: dict[str, Any] = await ok(self.client.post(self.path(":executeCode", session), json=body))
        return result

    async def start(self, code: str, session: str = "main", **options: Any) -> str:
        """Hand code in, and go away once it runs; the path of its execution."""
        streams = sum(tenant.streams for tenant in self.service.tenants.open)
        async with self.client.stream(
            "POST", self.path(":executeCode", session), json={"code": code, **options}, headers=NDJSON
        ) as response:
            assert response.status_code == 200, await response.aread()
            async for line in response.aiter_lines():
                if json.loads(line)["type"] == "started":
                    break
            path = f"/v1/{response.headers['cellhouse-execution']}"
        await until(lambda: sum(tenant.streams for tenant in self.service.tenants.open) <= streams)
        return path

    async def events(self, path: str, **options: Any) -> list[dict[str, Any]]:
        """All events of an execution, by its path."""
        response = await within(self.client.get(f"{path}/events", params=options, headers=NDJSON))
        return [json.loads(line) for line in response.text.splitlines()]


async def ok(call: Any) -> Any:
    """The JSON of a call that worked."""
    response = await within(call)
    assert response.status_code == 200, response.text
    return response.json()


async def refused(call: Any, code: int, status: str, reason: str) -> dict[str, Any]:
    """The error of a call that did not, in the one shape of all of them."""
    response = await within(call)
    assert response.status_code == code, response.text
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    info = error["details"][0]
    assert (error["code"], error["status"], info["reason"]) == (code, status, reason), error
    assert info["domain"] == "cellhouse"
    assert error["message"]
    return dict(error)


def frames(text: str) -> list[tuple[str, str, Any]]:
    """(id, event, data) of a server-sent stream; comments are left out. The last frame has to be whole."""
    found = []
    *whole, rest = text.split("\n\n")
    assert rest == ""
    for frame in whole:
        lines = dict(line.split(": ", 1) for line in frame.split("\n") if not line.startswith(":"))
        if lines:
            found.append((lines.get("id", ""), lines["event"], json.loads(lines["data"])))
    return found


@asynccontextmanager
async def opened(
    fakes: FakeWorld,
    directory: Path,
    *,
    authenticator: Authenticator | None = None,
    changes: dict[str, Any] | None = None,
    options: ServeOptions | None = None,
    **limits: Any,
) -> AsyncIterator[Door]:
    """A service on a port that the system chose. `limits` are the door's, `changes` the house's settings."""
    limits = {"drain_seconds": 0.0, "grace_seconds": 2.0, **limits}
    options = options or ServeOptions(limits=DoorLimits(**limits))
    service = Service(settings(directory, **(changes or {})), options, authenticator=authenticator)
    async with service:
        async with client_of(service) as client:
            yield Door(service, client, fakes)


def house_of(service: Service) -> House:
    """The house behind it, which is in this process."""
    house = service.tenants.open[0].house
    assert isinstance(house, DirectHouse)
    return house.house


def client_of(service: Service, **options: Any) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    return httpx.AsyncClient(base_url=service.url, timeout=20, limits=limits, trust_env=False, **options)


async def connect(service: Service) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A bare connection, for what no client library would send."""
    host, _, port = service.url.removeprefix("http://").rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def raw(service: Service, request: bytes) -> bytes:
    """Everything that is answered to these bytes, until the other side closes."""
    reader, writer = await connect(service)
    try:
        writer.write(request)
        return await within(reader.read())
    finally:
        writer.close()
        await writer.wait_closed()


__all__ = [
    "NDJSON", "SSE", "Door", "Names", "client_of", "connect", "frames", "house_of", "ok", "opened", "raw", "refused", "until", "within",
]  # fmt: skip
