"""`cellhouse run`: one piece of code in a fresh runtime of an embedded house."""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from cellhouse.cli.ask import ask
from cellhouse.cli.save import save_outputs
from cellhouse.cli.show import Show, is_successful_exit
from cellhouse.cli.signals import Signals
from cellhouse.environments import find_environment
from cellhouse.house import House
from cellhouse.model import (
    CallReason,
    Event,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    ExecutionName,
    FailedPrecondition,
    FinishedEvent,
    InputRequestedEvent,
    NetworkPolicy,
    Outcome,
    RuntimeLimits,
    RuntimeSpec,
    SystemClock,
    TailFrame,
)
from cellhouse.runtime import Settings
from cellhouse.runtime.state import own_state_dir

OK, RAISED, OTHER = 0, 1, 3
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line asked for. `inputs` maps names in /content to files of the host.

    `name` and `arguments` are what the code gets as `sys.argv`, where there are arguments. `settings` are those of an
    embedded house, which has its state in a new directory below theirs.
    """

    code: str
    json: bool = False
    timeout: float | None = None
    isolation: str | None = None
    kernel: str | None = None
    environment: str = "default"
    inputs: dict[str, Path] = field(default_factory=dict)
    save: Path | None = None
    interactive: bool = True
    limits: RuntimeLimits | None = None
    network: NetworkPolicy | None = None
    name: str = "-c"
    arguments: tuple[str, ...] = ()
    settings: Settings | None = None


class Handle(Protocol):
    """One execution that is watched: a house's handle, or a client's."""

    @property
    def name(self) -> ExecutionName: ...

    def live(self) -> AsyncGenerator[Event | TailFrame, None]: ...
    async def result(self) -> ExecuteCodeResult: ...
    async def cancel(self) -> bool: ...
    async def provide_input(self, value: str) -> None: ...


class Executes(Protocol):
    """A house, or a client of one."""

    async def execute(self, request: ExecuteCodeRequest) -> Handle: ...


async def run_code(options: RunOptions, run: "Run | None" = None) -> int:
    """Run it, show it, export what was asked for; the exit status. Raises CellhouseError for the call's errors.

    Ended by SIGTERM or SIGHUP, the status is 128 and the signal's number; what there is of a result is shown all the same.
    """
    with Signals() as signals:
        try:
            status = await (run or _run)(options, signals)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if signals.received is None or task is None:
                raise
            task.uncancel()
            sys.stderr.write(f"cellhouse: ended by {signals.received.name}; the runtime was closed\n")
            return 128 + signals.received
        return status if signals.status is None else signals.status


Run = Callable[[RunOptions, Signals], Awaitable[int]]
"""Runs the code somewhere; the exit status."""


async def _run(options: RunOptions, signals: Signals) -> int:
    show = None if options.json else Show()
    check_arguments(options)
    settings = options.settings and replace(
        options.settings, state_dir=own_state_dir(SystemClock(), options.settings.state_dir)
    )
    async with House(settings=settings) as house:
        spec = RuntimeSpec(
            environment=options.environment,
            kernel=options.kernel,
            isolation=options.isolation,
            limits=options.limits,
            network=options.network,
            start="fresh",  # there is one session only: a zygote would get warm beside it for nothing
        )
        runtime = await house.create_runtime(spec)
        for name, path in options.inputs.items():
            await house.put_file(runtime.name, name, _blocks(path))
        session = f"{runtime.name}/sessions/main"
        if options.arguments:
            await give_arguments(house, session, options)
        request = ExecuteCodeRequest(
            code=options.code,
            session=session,
            execution_timeout=options.timeout,
            allow_stdin=options.interactive and not options.json and sys.stdin.isatty(),
        )
        handle = await house.execute(request)
        signals.watching(handle.cancel, lambda: house.delete_session(session))
        result = await watch(handle, show)
        signals.done()
        if show is None:  # before anything that can fail
            sys.stdout.write(result.to_json() + "\n")
            sys.stdout.flush()
        saved = await save_outputs(house, result, options.save) if options.save is not None else []
        if show is not None:
            show.summary(result, saved=saved, state_dir=house.state_dir)
    return exit_status(result)


def check_arguments(options: RunOptions) -> None:
    """FailedPrecondition where there are arguments for a kernel that takes none."""
    if not options.arguments:
        return
    search = options.settings.environments if options.settings else None
    kernel = find_environment(options.environment, search).kernel(options.kernel)
    if kernel.language != "python":
        raise FailedPrecondition(
            f"arguments after -- become sys.argv, which kernel {kernel.name!r} ({kernel.language or 'no language'}) "
            "does not have; put them into the code, or into a file given with --input",
            reason=CallReason.POLICY_UNAVAILABLE,
        )


async def give_arguments(house: Executes, session: str, options: RunOptions) -> None:
    """By an execution of its own, so that the code stays what it is, line for line."""
    argv = [options.name, *options.arguments]
    request = ExecuteCodeRequest(
        code=f"__import__('sys').argv = {argv!r}", session=session, store_history=False
    )
    result = await (await house.execute(request)).result()
    if result.outcome is not Outcome.OK:
        error = result.execution_error
        why = f": {error.name}: {error.value}" if error is not None else ""
        raise FailedPrecondition(
            f"the arguments could not be given to the code: {result.outcome}{why}",
            reason=CallReason.POLICY_UNAVAILABLE,
        )


def exit_status(result: ExecuteCodeResult) -> int:
    """0 it ran (also by an exit without an error), 1 the code raised, 3 any other outcome."""
    if result.outcome is Outcome.OK:
        return OK
    error = result.execution_error
    if result.outcome is Outcome.ERROR and error is not None:
        return OK if is_successful_exit(error.name, error.value) else RAISED
    return OTHER


async def watch(handle: Handle, show: Show | None) -> ExecuteCodeResult:
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
        async with aclosing(handle.live()) as events:
            async for event in events:
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


async def _answer(handle: Handle, asked: InputRequestedEvent) -> None:
    try:
        await handle.provide_input(await ask(asked.prompt, asked.password))
    except FailedPrecondition as error:  # it came too late; the code has got EOFError and said so
        sys.stderr.write(f"cellhouse: {error.message}\n")


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block
