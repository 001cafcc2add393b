"""`cellhouse run NOTEBOOK.ipynb`: its cells in one session, one after the other, and the notebook that comes of it."""

import asyncio
import signal
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pydantic_core

from cellhouse.cli.cells import Progress, document_of
from cellhouse.cli.documents import check_document, write_document
from cellhouse.cli.run import OK, OTHER, RAISED, Handle, Open, Opened, RunOptions, follow, with_signals
from cellhouse.cli.signals import Signals
from cellhouse.model import (
    CallReason,
    CellhouseError,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    Outcome,
)
from cellhouse.notebooks import (
    WIDGETS,
    CellRun,
    Given,
    ReadLimits,
    executed,
    failed,
    ipynb_text,
    read_notebook,
    read_parameters,
    run_cells,
    shows_widgets,
    with_parameters,
)
from cellhouse.notebooks.bundles import output_of

WIDGET_SECONDS: Final = 30.0
"""Within which a kernel is to tell the state of its widgets."""
_WIDGETS: Final = (
    f"__import__('IPython').get_ipython().display_pub.publish({{{WIDGETS!r}: "
    "__import__('ipywidgets').Widget.get_manager_state()})"
)


@dataclass(frozen=True, slots=True)
class NotebookOptions:
    """A notebook, where it is run (`run`, whose code is not used) and what becomes of it. `output`: None is no file.

    `named_kernel`: it was asked for by name; else `run` has the one that the notebook names.
    """

    given: Given
    run: RunOptions
    named_kernel: bool = False
    output: str | None = None
    keep_going: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)


def is_notebook(file: str) -> bool:
    return file.lower().endswith(".ipynb")


def notebook_options(
    file: str, run: RunOptions, output: str | None, keep_going: bool, parameters: list[str]
) -> NotebookOptions:
    """What was given, before anything is opened. INVALID_ARGUMENT; BadNotebook."""
    if output is not None:
        if run.json and output == "-":
            raise InvalidArgument.of_field(
                "--output",
                "the notebook and the JSON of --json can't both go to standard output; give a file",
            )
        if not output:
            raise InvalidArgument.of_field("--output", "it is empty; give a file, or - for standard output")
        check_document(output)
    values = read_parameters(parameters)
    path, limit = Path(file), ReadLimits().file_bytes
    try:
        with path.open("rb") as source:
            raw = source.read(limit + 1)
    except OSError as error:
        raise InvalidArgument.of_field(
            file, f"{error.strerror or error}; give a notebook that can be read"
        ) from None
    given = read_notebook(path.name, raw)
    return NotebookOptions(
        given,
        replace(run, kernel=run.kernel or given.kernel),
        named_kernel=run.kernel is not None,
        output=output,
        keep_going=keep_going,
        parameters=values,
    )


async def run_notebook(options: NotebookOptions, open_: Open) -> int:
    """Run it, show it, write what was asked for; the exit status. Raises CellhouseError for the call's errors.

    Whatever ends a cell, the notebook is written with all that was there.
    """
    try:
        return await with_signals(lambda signals: _run(options, open_, signals))
    except NotFound as error:
        if error.reason == CallReason.NO_SUCH_KERNEL and not options.named_kernel:
            raise NotFound(
                f"{options.given.name}: its kernelspec names {options.given.kernel!r}: {error.message}; --kernel takes another",
                reason=error.reason,
                metadata=error.metadata,
            ) from None
        raise


async def _run(options: NotebookOptions, open_: Open, signals: Signals) -> int:
    given = options.given
    async with open_(options.run) as opened:
        language = await _language(options, opened)
        if options.parameters:
            with_parameters(given, options.parameters, language)
        cells = _Cells(options, opened, signals)
        with cells:
            done = await run_cells(
                given, cells.execute, cells.progress, keep_going=options.keep_going, stopped=cells.stopped
            )
            signals.done()
            notebook = await cells.notebook(done, language)
        if options.output is not None:
            await asyncio.to_thread(write_document, ipynb_text(notebook), options.output)
        saved = await _save(opened, options.run.save, done)
        if options.run.json:
            document = document_of(options.given, done, opened, options.output)
            sys.stdout.write(pydantic_core.to_json(document).decode() + "\n")
            sys.stdout.flush()
        else:
            cells.progress.summary(done, opened, options.output, saved)
    return _status(done)


def _status(done: list[CellRun]) -> int:
    """0 all ran; 1 a cell raised, 3 anything else: by the first cell that failed."""
    run = failed(done)
    if run is None:
        return OK
    return RAISED if run.result is not None and run.result.outcome is Outcome.ERROR else OTHER


async def _language(options: NotebookOptions, opened: Opened) -> str:
    """That of the session. FAILED_PRECONDITION where the notebook is in another one and nobody said that this is meant."""
    session = await opened.describe()
    language, wanted = (session.language or "").lower(), options.given.language
    if options.given.kernel is not None and not options.named_kernel and language and language != wanted:
        raise FailedPrecondition(
            f"{options.given.name}: it is in {wanted or options.given.kernel}, and {opened.session} runs {language}; "
            "name a kernel with --kernel, or another session",
            reason=CallReason.POLICY_UNAVAILABLE,
        )
    return language


async def _save(opened: Opened, directory: Path | None, done: list[CellRun]) -> list[Path]:
    """What each cell displayed and made, in a directory of its own."""
    if directory is None:
        return []
    saved: list[Path] = []
    for run in done:
        if run.result is not None and (run.result.rich_outputs or run.result.artifacts):
            saved += await opened.save(run.result, directory / f"cell-{run.number:03}")
    return saved


class _Cells:
    """The executions of the cells, and what SIGINT does to them: interrupt, then end the session, then leave."""

    def __init__(self, options: NotebookOptions, opened: Opened, signals: Signals) -> None:
        self._options, self._opened, self._signals = options, opened, signals
        self.progress = Progress(options.given, options.run, options.output)
        self._handle: Handle | None = None
        self._interrupts = 0
        self._asked: set[asyncio.Task[object]] = set()
        self._task = asyncio.current_task()

    def __enter__(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._on_interrupt)
        self._signals.watching(self._cancel, self._end)
        for remark in self._options.given.remarks:
            self.progress.remark(remark)

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)

    def stopped(self) -> str:
        """Why no further cell is to be run."""
        if self._signals.received is not None:
            return f"{self._signals.received.name} ended the run"
        return "the run was interrupted" if self._interrupts else ""

    async def execute(self, code: str) -> ExecuteCodeResult:
        run = self._options.run
        self._handle = await self._opened.executes.execute(
            ExecuteCodeRequest(
                code=code, session=self._opened.session, execution_timeout=run.timeout, allow_stdin=run.asks
            )
        )
        try:
            if self.stopped():  # it was asked for in the moment before
                await self._handle.cancel()
            return await follow(self._handle, self.progress)
        finally:
            self._handle = None

    async def notebook(self, done: list[CellRun], language: str) -> dict[str, Any]:
        """The executed notebook; with the state of its widgets, where it shows some and its kernel can tell it."""
        notebook = await executed(
            self._opened.source,
            self._options.given,
            done,
            session=self._opened.session,
            language=language,
            parameters=self._options.parameters,
        )
        if language == "python" and shows_widgets(notebook) and not self.stopped():
            state = await self._widgets()
            if state is not None:
                notebook["metadata"]["widgets"] = {WIDGETS: state}
        return notebook

    async def _widgets(self) -> dict[str, Any] | None:
        """By an execution of its own, once all cells have run."""
        request = ExecuteCodeRequest(
            code=_WIDGETS,
            session=self._opened.session,
            store_history=False,
            execution_timeout=WIDGET_SECONDS,
        )
        try:
            result = await (await self._opened.executes.execute(request)).result()
            if result.rich_outputs and not result.rich_outputs[0].dropped:
                bundle = await self._opened.source.get_bundle(result.execution, 0)
                output, _ = output_of(bundle, None)
                state = output["data"].get(WIDGETS) if output is not None else None
                if isinstance(state, dict):
                    return state
            why = result.execution_error.value if result.execution_error else "it was not shown"
        except CellhouseError as error:
            why = error.message
        self.progress.remark(f"the state of the widgets is not in the notebook: {why}")
        return None

    def _on_interrupt(self) -> None:
        self._interrupts += 1
        if self._interrupts == 1:
            self._ask(self._cancel())
        elif self._interrupts == 2:
            self._ask(self._end())
        elif self._task is not None:
            self._task.cancel()

    def _ask(self, what: Any) -> None:
        task = asyncio.ensure_future(what)
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)

    async def _cancel(self) -> None:
        if self._handle is not None:
            await self._handle.cancel()

    async def _end(self) -> None:
        """A session that others use too is not ended for it."""
        if self._opened.ours:
            await self._opened.end()
        else:
            await self._cancel()
