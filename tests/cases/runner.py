"""Runs one shared case on a House and gathers what its checks look at."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from cellhouse import CellhouseError, ExecuteCodeRequest, House
from cellhouse.environments import Environment
from cellhouse.model import InputRequestedEvent, RuntimeSpec
from cellhouse.runtime import ExecutionHandle, Settings

WAIT_SECONDS = 100.0
CHECK_GLOBALS = {"json": json, "re": re}


def load_cases() -> list[dict[str, Any]]:
    lines = Path(__file__).with_name("cases.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if line]


async def run_case(
    case: dict[str, Any], kernel: str, environment: Environment, state_dir: Path
) -> list[dict[str, Any]]:
    """The results of the case, in the order in which its steps ask for them."""
    settings = Settings(state_dir=state_dir, environments=(environment.prefix.parent,))
    async with House(settings=settings) as house:
        runtime = await house.create_runtime(RuntimeSpec(kernel=kernel))
        play = Play(house, runtime.name)
        await play.warm()  # the scripts count their seconds from a kernel that is up
        for step in _steps(case):
            await play.step(step)
        return await play.gather()


def holds(expression: str, results: list[dict[str, Any]]) -> bool:
    """Whether a check is true; an exception in it counts as false."""
    try:
        return bool(eval(expression, {**CHECK_GLOBALS, "r": results[0], "rs": results}))
    except Exception as error:
        print(f"the check raised {type(error).__name__}: {error}")
        return False


def _steps(case: dict[str, Any]) -> list[dict[str, Any]]:
    if case["kind"] == "script":
        return list(case["steps"])
    cells = [case["code"]] if case["kind"] == "cell" else case["cells"]
    steps: list[dict[str, Any]] = []
    for number, cell in enumerate(cells):
        cell = {"code": cell} if isinstance(cell, str) else dict(cell)
        code = eval(cell["code_gen"], {}) if "code_gen" in cell else cell["code"]
        if pause := cell.get("pause"):
            steps.append({"do": "sleep", "s": pause})
        name = f"cell{number}"
        execute = {"do": "execute", "as": name, "code": code}
        if "executionTimeout" in cell:
            execute["executionTimeout"] = cell["executionTimeout"]
        steps += [execute, {"do": "result", "as": name}]
    return steps


class Play:
    """The executions of one script, by the names that its steps give them."""

    def __init__(self, house: House, runtime: str) -> None:
        self._house, self._runtime = house, runtime
        self._session, self._sessions = "main", 1
        self._codes: dict[str, str] = {}
        self._handles: dict[str, ExecutionHandle | CellhouseError] = {}
        self._asked: dict[str, int] = {}
        self._wanted: list[str] = []

    async def warm(self) -> None:
        """Have the kernel started, leaving nothing in it."""
        session = f"{self._runtime}/sessions/{self._session}"
        await (
            await self._house.execute(ExecuteCodeRequest(code="None", session=session, store_history=False))
        )

    async def step(self, step: dict[str, Any]) -> None:
        await getattr(self, f"_do_{step['do'].lower()}")(step)

    async def gather(self) -> list[dict[str, Any]]:
        """Read everything after the last step: what came late counts too."""
        results = [await self._gathered(self._handles[name]) for name in self._wanted]
        log = self._house.session_log(f"{self._runtime}/sessions/main")
        if log and results:
            results[-1]["_sessionLog"] = "".join(entry["text"] for entry in log)
        return results

    async def _gathered(self, handle: ExecutionHandle | CellhouseError) -> dict[str, Any]:
        if isinstance(handle, CellhouseError):
            return handle.to_wire()
        name = str(handle.name)
        result = (await self._house.get_execution(name)).to_wire()
        last = await self._last_event(name)
        result["_events"] = [event.to_wire() async for event in self._upto(name, last)]
        result["_bundles"] = {
            str(output.get("index", 0)): await self._house.get_bundle(name, output.get("index", 0))
            for output in result.get("richOutputs", [])
            if "filePath" in output
        }
        return result

    async def _last_event(self, name: str) -> int:
        last = 0
        async for event in self._house.events(name):
            last = getattr(event, "seq", last)
        return last

    async def _upto(self, name: str, last: int):  # type: ignore[no-untyped-def]
        """All events, those after `finished` included, without waiting for more of them."""
        stream = self._house.events(name, late=True)
        try:
            while True:
                async with asyncio.timeout(0.5 if last <= 0 else WAIT_SECONDS):
                    event = await anext(stream)
                last -= 1
                yield event
        except (TimeoutError, StopAsyncIteration):
            return

    async def _do_execute(self, step: dict[str, Any]) -> None:
        code = self._codes[step["sameCodeAs"]] if "sameCodeAs" in step else step["code"]
        self._codes[step["as"]] = code
        request = ExecuteCodeRequest(
            code=code,
            session=f"{self._runtime}/sessions/{self._session}",
            execution_id=step.get("executionId", ""),
            execution_timeout=step.get("executionTimeout"),
            allow_stdin=step.get("allowStdin", False),
            wait_timeout=WAIT_SECONDS,
        )
        try:
            self._handles[step["as"]] = await self._house.execute(request)
        except CellhouseError as error:
            self._handles[step["as"]] = error

    async def _do_sleep(self, step: dict[str, Any]) -> None:
        await asyncio.sleep(step["s"])  # the case's own words: so much time passes between two calls

    async def _do_cancel(self, step: dict[str, Any]) -> None:
        await self._handle(step).cancel()

    async def _do_disconnect(self, step: dict[str, Any]) -> None:
        self._asked.pop(
            step["as"], None
        )  # a caller that lets go of its handle: nothing to be said to the house

    async def _do_attach(self, step: dict[str, Any]) -> None:
        async for event in self._handle(step).events(after=step.get("after", 0)):
            self._asked[step["as"]] = event.seq

    async def _do_waitinput(self, step: dict[str, Any]) -> None:
        after = self._asked.get(step["as"], 0)
        async with asyncio.timeout(WAIT_SECONDS):
            async for event in self._handle(step).events(after=after):
                self._asked[step["as"]] = event.seq
                if isinstance(event, InputRequestedEvent):
                    return
        raise AssertionError("the execution ended without asking for input")

    async def _do_input(self, step: dict[str, Any]) -> None:
        await self._handle(step).provide_input(step["text"])

    async def _do_newsession(self, step: dict[str, Any]) -> None:
        self._sessions += 1
        self._session = f"s{self._sessions}"

    async def _do_result(self, step: dict[str, Any]) -> None:
        handle = self._handles[step["as"]]
        if not isinstance(handle, CellhouseError):
            await handle
        self._wanted.append(step["as"])

    def _handle(self, step: dict[str, Any]) -> ExecutionHandle:
        handle = self._handles[step["as"]]
        if isinstance(handle, CellhouseError):
            raise handle
        return handle
