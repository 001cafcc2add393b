"""Cellhouse as a service: `cellhouse serve` in a process of its own, spoken to over HTTP on the loopback."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from bench.lean import lean_client
from cellhouse.client import AsyncClient
from cellhouse.model import ExecuteCodeRequest, ExecuteCodeResult

START_SECONDS = 60.0
ANSWER_SECONDS = 120.0
SETTLE_SECONDS = 60.0
LOOK_SECONDS = 0.05
REST_SECONDS = 0.5
_LISTENING = "listening on "
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=256)

Execute = Callable[[str], Awaitable[Any]]


class ServedSession:
    """One session of a runtime of the service."""

    def __init__(self, service: "Service", name: str) -> None:
        self._service, self.name = service, name

    async def execute(self, code: str) -> dict[str, Any]:
        """The result, waited for in one request."""
        return await self._service.post(f"{self.name}:executeCode", {"code": code})

    async def delete(self) -> None:
        await self._service.delete(self.name)


class Service:
    """The service, listening; `pid` is its process."""

    def __init__(self, url: str, client: httpx.AsyncClient, pid: int) -> None:
        self.url, self.client, self.pid = url, client, pid

    @property
    def authorization(self) -> str:
        return str(self.client.headers["Authorization"])

    @asynccontextmanager
    async def lean(self, session: str) -> AsyncIterator[Execute]:
        """Executes in a session by a client that does as little as one can, on a connection of its own."""
        async with lean_client(f"{self.url}/v1/", self.authorization) as client:
            yield lambda code: client.post(f"{session}:executeCode", {"code": code})

    @asynccontextmanager
    async def own(self, session: str) -> AsyncIterator[Execute]:
        """Executes in a session by Cellhouse's own client, as its users do."""
        token = self.authorization.removeprefix("Bearer ")
        async with AsyncClient(self.url, token=token) as client:

            async def execute(code: str) -> ExecuteCodeResult:
                return await (await client.execute(ExecuteCodeRequest(code=code, session=session)))

            yield execute

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await self.client.post(path, json=body)
        found: dict[str, Any] = _checked(answer).json()
        return found

    async def delete(self, path: str) -> None:
        _checked(await self.client.delete(path))

    async def runtime(self, **spec: Any) -> str:
        """A new runtime's name."""
        return str((await self.post("runtimes", {"runtime": spec}))["name"])

    async def session(self, runtime: str) -> ServedSession:
        """A new session's; its kernel is there with the first execution."""
        return ServedSession(self, str((await self.post(f"{runtime}/sessions", {}))["name"]))

    async def settle(self, runtime: str, modules: tuple[str, ...]) -> None:
        """Wait until sessions come from a zygote that has imported all of these, and nothing more is going on."""
        code = f"import sys\n[name for name in {modules!r} if name not in sys.modules]"
        async with asyncio.timeout(SETTLE_SECONDS):
            missing = ""
            while missing != "[]":
                session = await self.session(runtime)
                missing = (await session.execute(code)).get("result", "")
                await session.delete()
                await asyncio.sleep(LOOK_SECONDS)
        await asyncio.sleep(REST_SECONDS)


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_error:
        raise RuntimeError(f"{answer.request.method} {answer.request.url.path}: {answer.text[:500]}")
    return answer


@asynccontextmanager
async def service(directory: Path, *options: str) -> AsyncIterator[Service]:
    """Start it on a free port with a state directory of its own; and its end, which is awaited."""
    directory.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "cellhouse", "serve", "--port", "0", *options],
        env={**os.environ, "CELLHOUSE_STATE_DIR": str(directory / "state"), "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=(directory / "log").open("wb"),
        text=True,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            line = await asyncio.to_thread(process.stdout.readline)
        _, found, url = line.strip().partition(_LISTENING)
        if not found:
            said = (directory / "log").read_text(errors="replace")[-2000:]
            raise RuntimeError(f"the service did not start: {line!r}; it said:\n{said}")
        async with httpx.AsyncClient(
            base_url=f"{url}/v1/",
            headers=_authorization(directory / "state"),
            timeout=ANSWER_SECONDS,
            limits=_LIMITS,
            trust_env=False,
        ) as client:
            yield Service(url, client, process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.wait)
        assert process.stdout is not None
        process.stdout.close()


def _authorization(state: Path) -> dict[str, str]:
    """By the token that the service made for this account."""
    return {"Authorization": f"Bearer {(state / 'tokens' / 'local').read_text().strip()}"}
