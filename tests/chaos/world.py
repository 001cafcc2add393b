"""One run: a service that is killed and started again, callers that come again, and steps out of a schedule."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

from cellhouse.keepers import KeptHouse
from cellhouse.keepers.place import Place, holder, places
from cellhouse.model import SystemClock
from cellhouse.runtime import Settings
from cellhouse.runtime.store import RuntimeStore
from tests.chaos.caller import Call
from tests.chaos.schedule import RUNTIMES, Step, code
from tests.house.killing import living
from tests.keepers.support import ended

SCRIPT = Path(__file__).with_name("served.py")
SECONDS = 120.0
FLOOD = 70


@dataclass
class World:
    """Everything of one run. `log` says what was done, in order, for who reads a failure."""

    state: Path
    environments: Path
    uds: Path
    start: str
    calls: list[Call] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    # Marks that code had left in /content, of each runtime by its token; the file goes with the runtime.
    ran: dict[str, list[str]] = field(default_factory=dict)
    up: asyncio.Event = field(default_factory=asyncio.Event)
    process: asyncio.subprocess.Process | None = None
    _http: httpx.AsyncClient = field(init=False)
    tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[httpx.AsyncClient]:
        transport = httpx.AsyncHTTPTransport(uds=str(self.uds), limits=httpx.Limits(max_connections=None))
        async with httpx.AsyncClient(transport=transport, base_url="http://here", timeout=SECONDS) as made:
            self._http = made
            try:
                yield made
            finally:
                await self._stop_calls()

    # The service

    async def begin(self) -> None:
        """Start a service and wait until it serves."""
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(SCRIPT),
            str(self.state),
            str(self.environments),
            str(self.uds),
            self.start,
            stdout=asyncio.subprocess.PIPE,
        )
        assert self.process.stdout is not None
        async with asyncio.timeout(SECONDS):
            assert await self.process.stdout.readline() == b"ready\n", self.log
        self.up.set()

    async def kill_service(self) -> None:
        assert self.process is not None
        self.up.clear()
        self.process.kill()
        await self.process.communicate()
        await self.begin()

    async def end(self) -> int:
        """SIGTERM; its status."""
        assert self.process is not None
        self.process.terminate()
        async with asyncio.timeout(SECONDS):
            await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode

    # Steps

    async def make_runtimes(self) -> None:
        for runtime in RUNTIMES:
            await self.make(runtime)

    async def make(self, runtime: str) -> None:
        """Create it, unless it is there."""
        answer = await self._ask("POST", "/v1/runtimes", json={"runtimeId": runtime})
        assert answer.status_code in (200, 409), (answer.text, self.log)

    def submit(self, step: Step) -> None:
        name = f"e{len(self.calls)}"
        path = f"/v1/runtimes/{step.runtime}/sessions/{step.session}"
        call = Call(path, name, step.kind, code(step.kind, name))
        self.calls.append(call)
        self._follow(call)

    def _follow(self, call: Call) -> None:
        task = asyncio.ensure_future(call.follow(self._http, self.up))
        self.tasks.add(task)

    async def do(self, step: Step) -> None:
        """One step. What is refused because somebody else was faster is no failure."""
        self.log.append(f"{step.act} {step.runtime}/{step.session} {step.kind} {step.number}")
        call = self.calls[step.number % len(self.calls)] if self.calls else None
        match step.act:
            case "submit":
                self.submit(step)
            case "repeat" if call is not None:
                twin = Call(call.path, call.id, call.kind, call.code)
                self.calls.append(twin)
                self._follow(twin)
            case "flood":
                for _ in range(FLOOD):
                    self.submit(step if step.kind != "slow" else replace(step, kind="quick"))
            case "disconnect" if call is not None:
                await call.disconnect()
            case "cancel" if call is not None and call.name:
                await self._cancel(call)
            case "kill service":
                await self.kill_service()
            case "kill keeper":
                await self.kill_keeper(step.runtime)
            case "kill inside":
                self.kill_inside(step)
            case "delete session":
                await self._delete(f"/v1/runtimes/{step.runtime}/sessions/{step.session}")
            case "delete runtime":
                self.read_ran(step.runtime)
                await self._delete(f"/v1/runtimes/{step.runtime}")
                await self.make(step.runtime)
            case _:
                pass
        await asyncio.sleep(step.pause)

    async def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Again as long as the connection that is taken is one of a service that is dead."""
        for _ in range(500):
            await self.up.wait()
            with contextlib.suppress(httpx.TransportError):
                return await self._http.request(method, path, **more)
        raise AssertionError(f"{method} {path}: no answer; {self.log}")

    async def _do(self, method: str, path: str, **more: Any) -> None:
        answer = await self._ask(method, path, **more)
        assert answer.status_code in (200, 404, 503), (method, path, answer.text, self.log)

    async def _cancel(self, call: Call) -> None:
        await self._do("POST", f"/v1/{call.name}:cancel")

    async def _delete(self, path: str) -> None:
        await self._do("DELETE", path, params={"allowMissing": "true"})

    async def kill_keeper(self, runtime: str) -> None:
        """Its records stay; the runtime is deleted and made anew under the same id."""
        place = Place(self.state, runtime)
        pid = holder(place.directory)
        if pid is not None and place.is_held():
            self.remember(runtime)
            os.kill(pid, signal.SIGKILL)
        self.read_ran(runtime)
        await self._delete(f"/v1/runtimes/{runtime}")
        await self.make(runtime)

    def remember(self, runtime: str) -> str | None:
        record = RuntimeStore(Place(self.state, runtime).directory / "runtimes", SystemClock()).read(runtime)
        if record is not None:
            self.tokens.add(record.token)
        return record.token if record is not None else None

    def kill_inside(self, step: Step) -> None:
        """A kernel, the zygote, the supervisor or a bwrap, whichever the number says."""
        token = self.remember(step.runtime)
        pids = sorted(living(token)) if token is not None else []
        if pids:
            pid = pids[step.number % len(pids)]
            with contextlib.suppress(OSError):
                self.log.append(f"  kill -9 of {Path(f'/proc/{pid}/comm').read_text().strip()}")
                os.kill(pid, signal.SIGKILL)

    def read_ran(self, runtime: str) -> None:
        """Who has left its mark there by now."""
        token = self.remember(runtime)
        if token is not None:
            with contextlib.suppress(FileNotFoundError):
                path = Place(self.state, runtime).directory / "runtimes" / runtime / "content" / "ran"
                self.ran[token] = path.read_text().split()

    # The end

    async def settle(self) -> None:
        """Cancel what would go on for long, and wait until every caller has been told the end."""
        while pending := {task for task in self.tasks if not task.done()}:
            for call in self.calls:
                if call.name and not call.ended and call.kind == "slow":
                    await self._cancel(call)
            await asyncio.wait(pending, timeout=0.2)
        for task in self.tasks:
            task.result()
        for place in places(self.state):
            self.remember(place.runtime)

    async def _stop_calls(self) -> None:
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)

    async def close(self) -> None:
        """Whatever has gone wrong: nothing of it goes on."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.communicate()
        for place in places(self.state):
            pid = holder(place.directory)
            if pid is not None and place.is_held():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                await ended(pid)
        if not all(place.is_over for place in places(self.state)):
            async with KeptHouse(Settings(state_dir=self.state)):
                pass  # the next one puts it in order
