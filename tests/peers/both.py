"""One notebook run by us and by nbclient, as what can be compared: a status and outputs in normal form for each cell."""

import asyncio
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from cellhouse.cli.sources import Local
from cellhouse.environments import Environment
from cellhouse.house import House
from cellhouse.model import ExecuteCodeRequest, ExecuteCodeResult
from cellhouse.notebooks import Cell, CellRun, executed, read_notebook, run_cells
from cellhouse.notebooks.text import folded
from tests.kernels.normal import ANSI, Normal

TIMEOUT: Final = 15.0
"""Seconds for a cell, of both."""
_TIME: Final = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?")
_CELL_FILE: Final = re.compile(r"/tmp/ipykernel_\d+/\d+\.py|Cell In\[[^\]]*\]")


@dataclass(frozen=True)
class Ended:
    """How a notebook ended: of each cell its count and outputs, up to where it stopped; and the cell and class of what stopped it."""

    cells: list[Any]
    stopped: str = ""


class Silent:
    def begins(self, number: int, cell: Cell) -> None: ...
    def ended(self, run: CellRun) -> None: ...


async def by_us(house: House, runtime: str, path: Path, *, keep_going: bool) -> Ended:
    given = read_notebook(path.name, path.read_bytes())
    session = (await house.create_session(runtime)).name

    async def execute(code: str) -> ExecuteCodeResult:
        request = ExecuteCodeRequest(code=code, session=session, execution_timeout=TIMEOUT, wait_timeout=60.0)
        return await (await house.execute(request)).result()

    try:
        done = await run_cells(given, execute, Silent(), keep_going=keep_going, stopped=lambda: "")
        made = await executed(Local(house), given, done, session=session)
    finally:
        await house.delete_session(session)
    nbformat.validate(made, version=4, version_minor=made["nbformat_minor"])
    stopped = (
        next((run for run in done if run.status.value in ("FAILED", "EXITED")), None)
        if not keep_going
        else None
    )
    return _ended(
        made["cells"], Path("/content"), stopped.number if stopped is not None else None, _why(stopped)
    )


def _why(run: CellRun | None) -> str:
    if run is None or run.result is None:
        return ""
    error = run.result.execution_error
    return error.name if run.result.outcome == "ERROR" and error is not None else f"{run.result.outcome}"


class _Specs(KernelSpecManager):
    """Knows one kernel: ipykernel of our own environment."""

    python = ""

    def get_kernel_spec(self, kernel_name: str) -> Any:
        from jupyter_client.kernelspec import KernelSpec

        return KernelSpec(
            argv=[self.python, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--log-level=ERROR"],
            display_name="python", language="python",
        )  # fmt: skip


def by_nbclient(environment: Environment, path: Path, directory: Path, *, keep_going: bool) -> Ended:
    notebook: Any = nbformat.read(str(path), 4)  # type: ignore[no-untyped-call]
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # by which is told, afterwards, what was run
        if (
            cell.cell_type == "code"
            and "skip-execution" not in cell.metadata.get("tags", ())
            and cell.source.strip()
        ):
            cell.outputs, cell.execution_count = [], None
    specs = _Specs()
    specs.python = str(environment.python)
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=specs)
    client = NotebookClient(
        notebook, km=manager, timeout=int(TIMEOUT), allow_errors=keep_going,
        resources={"metadata": {"path": str(directory)}},
    )  # fmt: skip
    stopped, why = None, ""
    try:
        client.execute(env={**os.environ, "IPYTHONDIR": str(directory)})
    except CellExecutionError as error:
        why = error.ename
    except CellTimeoutError:
        why = "TIMED_OUT"
    except DeadKernelError:
        why = "KERNEL_DIED"
    if why:
        ran = [at for at, cell in enumerate(notebook.cells, 1) if "execution" in cell.metadata]
        stopped = max(ran, default=1)
    return _ended(notebook.cells, directory, stopped, why)


def stored_in(path: Path) -> Ended:
    """What the notebook's own outputs say that comes of it."""
    notebook: Any = nbformat.read(str(path), 4)  # type: ignore[no-untyped-call]
    return _ended(notebook.cells, Path("/nowhere"), None, "")


def _ended(cells: Iterable[Any], directory: Path, stopped: int | None, why: str) -> Ended:
    normal = Normal(directory)
    made = []
    for number, cell in enumerate(cells, 1):
        if cell["cell_type"] == "code" and (stopped is None or number <= stopped):
            made.append([number, cell.get("execution_count"), *_outputs(normal, cell["outputs"])])
    return Ended(made, f"cell {stopped}: {why}" if stopped else "")


def _outputs(normal: Normal, outputs: Iterable[Any]) -> list[Any]:
    """Without notes; text of each stream in one piece, for in which order two streams come is chance."""
    streams: dict[str, str] = {}
    others: list[Any] = []
    for output in outputs:
        kind = output["output_type"]
        if "cellhouse" in output.get("metadata", {}):
            continue
        if kind == "stream":
            streams[output["name"]] = streams.get(output["name"], "") + output["text"]
        elif kind == "error":
            others.append([kind, output["ename"], _text(normal, output["evalue"])])
        else:
            data = normal.bundle(dict(sorted(output.get("data", {}).items())))
            others.append([kind, json.loads(json.dumps(data))])
    return [[[name, _text(normal, text)] for name, text in sorted(streams.items())], others]


def _text(normal: Normal, text: str) -> str:
    return normal.text(_TIME.sub("<moment>", _CELL_FILE.sub("<cell>", folded(ANSI.sub("", text)))))


def compared(ours: Ended, theirs: Ended) -> list[str]:
    """What differs, cell by cell."""
    found = []
    if ours.stopped != theirs.stopped:
        found.append(f"stopped: {ours.stopped or 'nowhere'} | {theirs.stopped or 'nowhere'}")
    for mine, other in zip(ours.cells, theirs.cells, strict=False):
        if mine != other:
            parts = [f"{a!r} | {b!r}" for a, b in zip(mine, other, strict=True) if a != b]
            found.append(f"cell {mine[0]}: {'; '.join(parts)}")
    if len(ours.cells) != len(theirs.cells):
        found.append(f"cells: {len(ours.cells)} | {len(theirs.cells)}")
    return found


async def run_both(
    house: House, runtime: str, environment: Environment, path: Path, directory: Path, *, keep_going: bool
) -> tuple[Ended, Ended]:
    ours = await by_us(house, runtime, path, keep_going=keep_going)
    theirs = await asyncio.to_thread(by_nbclient, environment, path, directory, keep_going=keep_going)
    return ours, theirs
