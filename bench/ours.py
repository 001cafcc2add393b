"""Cellhouse as anyone would use it: `House.execute` with its journal, bubblewrap walls and the default environment."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.workloads import Workload
from cellhouse import ExecuteCodeRequest, ExecuteCodeResult, House, Settings
from cellhouse.model import Outcome, RuntimeSpec, StreamEvent

ISOLATION = "bubblewrap"
NATIVE = "native"
IPYKERNEL = "python3"
SETTLE_SECONDS = 60.0
LOOK_SECONDS = 0.05
REST_SECONDS = 0.5
"""So long nothing is measured after something was set going that nobody waits for: a session forked ahead, say."""
_TAIL_BYTES = 1_000


class Cellhouse:
    """One session of one runtime in an open house; and further sessions of that runtime."""

    def __init__(self, house: House, runtime: str) -> None:
        self._house, self._runtime = house, runtime
        self._session = f"{runtime}/sessions/bench"

    async def execute(self, code: str) -> ExecuteCodeResult:
        return await (await self._house.execute(ExecuteCodeRequest(code=code, session=self._session)))

    async def first_text(self, code: str) -> float:
        """Seconds from the call to the first event with text; the execution is awaited to its end."""
        start = time.perf_counter()
        took = 0.0
        handle = await self._house.execute(ExecuteCodeRequest(code=code, session=self._session))
        async for event in handle:
            if isinstance(event, StreamEvent) and not took:
                took = time.perf_counter() - start
        return took

    async def new_session(self, code: str) -> ExecuteCodeResult:
        """Run it in a new session of the runtime, which the result names."""
        return await (await self._house.execute(ExecuteCodeRequest(code=code, runtime=self._runtime)))

    async def execute_in(self, session: str, code: str) -> ExecuteCodeResult:
        return await (await self._house.execute(ExecuteCodeRequest(code=code, session=session)))

    async def delete_session(self, session: str) -> None:
        await self._house.delete_session(session)

    async def settle(self, modules: tuple[str, ...]) -> None:
        """Wait until sessions come from a zygote that has imported all of these, and nothing more is going on."""
        code = f"import sys\n[name for name in {modules!r} if name not in sys.modules]"
        missing = ""
        try:
            async with asyncio.timeout(SETTLE_SECONDS):
                while missing != "[]":
                    result = await self.new_session(code)
                    await self.delete_session(result.session)
                    missing = result.result
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise RuntimeError(
                f"after {SETTLE_SECONDS:g} s new sessions still lack {missing}; does the environment have them?"
            ) from None
        await asyncio.sleep(REST_SECONDS)

    def read_file(self, name: str) -> str:
        """A small file that the code wrote."""
        with self._house.open_content(self._runtime) as content:
            return content.read(name, 65_536).decode()

    async def faults(self, workload: Workload, result: ExecuteCodeResult) -> list[str]:
        """What the result does not account for; nothing, where it tells the truth."""
        found = []
        if result.outcome is not Outcome.OK:
            found.append(f"outcome {result.outcome}")
        found += [f"notice {notice.reason}" for notice in result.notices or () if _is_loss(notice.reason)]
        if workload.text_bytes:
            found += self._text_faults(workload, result)
        if workload.displays:
            found += await self._display_faults(workload, result)
        return found

    def _text_faults(self, workload: Workload, result: ExecuteCodeResult) -> list[str]:
        cut = result.truncation.stdout if result.truncation is not None else None
        if cut is None:
            return ["stdout is said to be whole"]
        told = (cut.total_bytes, cut.total_lines, cut.spilled_bytes)
        sent = (workload.text_bytes, workload.text_lines, workload.text_bytes)
        end = self._house.read_text(result.execution, "stdout", offset=workload.text_bytes - _TAIL_BYTES)
        faults = [] if told == sent else [f"bytes, lines, bytes kept: {told}, of {sent}"]
        if not end.eof or len(end.text) != _TAIL_BYTES or not end.text.endswith("x\n"):
            faults.append("the end of stdout can't be read again")
        return faults

    async def _display_faults(self, workload: Workload, result: ExecuteCodeResult) -> list[str]:
        outputs = result.rich_outputs
        if len(outputs) != workload.displays:
            return [f"{len(outputs)} of {workload.displays} displays"]
        dropped = sum(output.dropped for output in outputs)
        faults = [f"{dropped} displays declared as dropped"] if dropped else []
        sizes = [len(file) for file in workload.files()]
        if [output.size_bytes for output in outputs] != sizes:
            faults.append("sizes of bundles are not those of what was displayed")
        with self._house.open_content(self._runtime) as content:
            path = (outputs[-1].file_path or "").removeprefix("/content/")
            last = json.loads(content.read(path, max(sizes)))
        if last["data"]["text/html"] != workload.html:
            faults.append("the last bundle does not show the final state")
        return faults


def _is_loss(reason: str) -> bool:
    """The log's limit is no loss of output: the text is kept beside it, and counted."""
    return reason != "EVENT_TEXT_LIMIT"


@asynccontextmanager
async def cellhouse(
    directory: Path, *, kernel: str = NATIVE, spares: int | None = None
) -> AsyncIterator[Cellhouse]:
    """A house with one live runtime. Native sessions come from a zygote, which is up and has imported everything."""
    settings = Settings(directory) if spares is None else Settings(directory, spares=spares)
    native = kernel == NATIVE
    spec = RuntimeSpec(isolation=ISOLATION, kernel=kernel, start="zygote" if native else None)
    async with House(settings=settings) as house:
        side = Cellhouse(house, (await house.create_runtime(spec)).name)
        if native:
            await side.settle(settings.preload)
        yield side
