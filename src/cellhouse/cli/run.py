"""`cellhouse run`: one piece of code in a fresh runtime of an embedded house."""

import asyncio
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cellhouse.cli.ask import ask
from cellhouse.cli.save import save_outputs
from cellhouse.cli.show import Show
from cellhouse.house import House
from cellhouse.model import (
    ExecuteCodeRequest,
    ExecuteCodeResult,
    FailedPrecondition,
    FinishedEvent,
    InputRequestedEvent,
    Outcome,
    RuntimeSpec,
    TailFrame,
)
from cellhouse.runtime import ExecutionHandle

OK, RAISED, OTHER = 0, 1, 3
_BLOCK = 1 << 20
SUCCESSFUL_EXITS = frozenset({"", "0", "None", "False"})


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line asked for. `inputs` maps names in /content to files of the host."""

    code: str
    json: bool = False
    timeout: float | None = None
    isolation: str | None = None
    kernel: str | None = None
    environment: str = "default"
    inputs: dict[str, Path] = field(default_factory=dict)
    save: Path | None = None
    interactive: bool = True


async def run_code(options: RunOptions) -> int:
    """Run it, show it, export what was asked for; the exit status. Raises CellhouseError for the call's errors."""
    show = None if options.json else Show()
    async with House() as house:
        spec = RuntimeSpec(
            environment=options.environment,
            kernel=options.kernel,
            isolation=options.isolation,
            start="fresh",  # there is one session only: a zygote would get warm beside it for nothing
        )
        runtime = await house.create_runtime(spec)
        for name, path in options.inputs.items():
            await house.put_file(runtime.name, name, _blocks(path))
        request = ExecuteCodeRequest(
            code=options.code,
            session=f"{runtime.name}/sessions/main",
            execution_timeout=options.timeout,
            allow_stdin=options.interactive and not options.json and sys.stdin.isatty(),
        )
        handle = await house.execute(request)
        result = await _watch(handle, show)
        if show is None:  # before anything that can fail
            sys.stdout.write(result.to_json() + "\n")
            sys.stdout.flush()
        saved = await save_outputs(house, result, options.save) if options.save is not None else []
        if show is not None:
            show.summary(result, saved=saved, state_dir=house.state_dir)
    return exit_status(result)


def exit_status(result: ExecuteCodeResult) -> int:
    """0 it ran (also by an exit without an error), 1 the code raised, 3 any other outcome."""
    if result.outcome is Outcome.OK:
        return OK
    error = result.execution_error
    if result.outcome is Outcome.ERROR and error is not None:
        if error.name == "SystemExit" and error.value in SUCCESSFUL_EXITS:
            return OK
        return RAISED
    return OTHER


async def _watch(handle: ExecutionHandle, show: Show | None) -> ExecuteCodeResult:
    loop = asyncio.get_running_loop()
    watching = asyncio.current_task()
    asked: list[asyncio.Task[bool]] = []
    asking: asyncio.Task[None] | None = None

    def interrupt() -> None:
        if asked and watching is not None:  # the first did not help: leave, and the runtime ends with us
            watching.cancel()
        asked.append(loop.create_task(handle.cancel()))

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        async for event in handle.live():
            if show is not None:
                show.event(event)
            if isinstance(event, InputRequestedEvent):
                asking = loop.create_task(_answer(handle, event))
            elif isinstance(event, FinishedEvent):
                return event.result
            elif isinstance(event, TailFrame):
                continue
        raise RuntimeError(f"{handle.name}: the events ended without `finished`")
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        if asking is not None:
            asking.cancel()


async def _answer(handle: ExecutionHandle, asked: InputRequestedEvent) -> None:
    try:
        await handle.provide_input(await ask(asked.prompt, asked.password))
    except FailedPrecondition as error:  # it came too late; the code has got EOFError and said so
        sys.stderr.write(f"cellhouse: {error.message}\n")


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block
