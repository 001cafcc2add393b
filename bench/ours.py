"""Cellhouse as anyone would use it: `House.execute` with its journal, bubblewrap walls and the default environment."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.workloads import Workload
from cellhouse import ExecuteCodeRequest, ExecuteCodeResult, House
from cellhouse.model import Outcome, RuntimeSpec

ISOLATION = "bubblewrap"
_TAIL_BYTES = 1_000


class Cellhouse:
    """One session of one runtime in an open house."""

    def __init__(self, house: House, session: str) -> None:
        self._house, self._session = house, session

    async def execute(self, code: str) -> ExecuteCodeResult:
        return await (await self._house.execute(ExecuteCodeRequest(code=code, session=self._session)))

    def read_file(self, name: str) -> str:
        """A small file that the code wrote."""
        with self._house.open_content(self._session.partition("/sessions/")[0]) as content:
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
        with self._house.open_content(self._session.partition("/sessions/")[0]) as content:
            path = (outputs[-1].file_path or "").removeprefix("/content/")
            last = json.loads(content.read(path, max(sizes)))
        if last["data"]["text/html"] != workload.html:
            faults.append("the last bundle does not show the final state")
        return faults


def _is_loss(reason: str) -> bool:
    """The log's limit is no loss of output: the text is kept beside it, and counted."""
    return reason != "EVENT_TEXT_LIMIT"


@asynccontextmanager
async def cellhouse(directory: Path) -> AsyncIterator[Cellhouse]:
    async with House(directory) as house:
        runtime = await house.create_runtime(RuntimeSpec(isolation=ISOLATION))
        yield Cellhouse(house, f"{runtime.name}/sessions/bench")
