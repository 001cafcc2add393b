"""`cellhouse run`: one piece of code in a fresh runtime of an embedded house."""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from cellhouse.cli.ask import ask
from cellhouse.cli.save import save_outputs
from cellhouse.cli.show import Show
from cellhouse.cli.signals import Signals
from cellhouse.cli.sources import Local
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
    Session,
    SystemClock,
    TailFrame,
)
from cellhouse.model.result import is_successful_exit
from cellhouse.notebooks.source import Source
from cellhouse.runtime import Settings
from cellhouse.runtime.state import own_state_dir

OK, RAISED, OTHER = 0, 1, 3
MAIN: Final = "main"
"""The session of a runtime that is made for one."""
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

    @property
    def asks(self) -> bool:
        """Whether the code may ask for input: where there is somebody to be asked."""
        return self.interactive and not self.json and sys.stdin.isatty()


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


@dataclass(frozen=True, slots=True)
class Opened:
    """A session to run in, and what is to be had of whoever has it. `ours`: nobody else uses it, so it may be ended."""

    executes: "Executes"
    source: Source
    session: str
    ours: bool
    describe: Callable[[], Awaitable[Session]]
    end: Callable[[], Awaitable[object]]
    save: Callable[[ExecuteCodeResult, Path], Awaitable[list[Path]]]
    state_dir: Path | None
    place: str = ""


Open = Callable[[RunOptions], AbstractAsyncContextManager[Opened]]
"""Has a session ready, with its inputs and arguments; what was made for it is gone afterwards."""


async def run_code(options: RunOptions, open_: Open | None = None) -> int:
    """Run it, show it, export what was asked for; the exit status. Raises CellhouseError for the call's errors.

    Ended by SIGTERM or SIGHUP, the status is 128 and the signal's number; what there is of a result is shown all the same.
    """
    return await with_signals(lambda signals: _run(options, open_ or opened_here, signals))


async def with_signals(work: Callable[[Signals], Awaitable[int]]) -> int:
    """Do the work; the exit status, which is that of the signal that ended it, where one did."""
    with Signals() as signals:
        try:
            status = await work(signals)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if signals.received is None or task is None:
                raise
            task.uncancel()
            sys.stderr.write(f"cellhouse: ended by {signals.received.name}; the runtime was closed\n")
            return 128 + signals.received
        return status if signals.status is None else signals.status


async def _run(options: RunOptions, open_: Open, signals: Signals) -> int:
    show = None if options.json else Show()
    async with open_(options) as opened:
        handle = await opened.executes.execute(
            ExecuteCodeRequest(
                code=options.code,
                session=opened.session,
                execution_timeout=options.timeout,
                allow_stdin=options.asks,
            )
        )
        # A session that others use too is not ended for it.
        signals.watching(handle.cancel, opened.end if opened.ours else handle.cancel)
        result = await watch(handle, show)
        signals.done()
        if show is None:  # before anything that can fail
            sys.stdout.write(result.to_json() + "\n")
            sys.stdout.flush()
        saved = await opened.save(result, options.save) if options.save is not None else []
        if show is not None:
            show.summary(result, saved=saved, state_dir=opened.state_dir, place=opened.place)
    return exit_status(result)


@asynccontextmanager
async def opened_here(options: RunOptions) -> AsyncIterator[Opened]:
    """A session of a house in this process, with a state directory of its own."""
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
        session = f"{runtime.name}/sessions/{MAIN}"
        if options.arguments:
            await give_arguments(house, session, options)
        yield Opened(
            executes=house,
            source=Local(house),
            session=session,
            ours=True,
            describe=lambda: house.create_session(runtime.name, session_id=MAIN),
            end=lambda: house.delete_session(session),
            save=partial(save_outputs, house),
            state_dir=house.state_dir,
        )


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
    """Show it to its end. SIGINT interrupts it; a second one leaves."""
    loop = asyncio.get_running_loop()
    watching = asyncio.current_task()
    asked: list[asyncio.Task[bool]] = []

    def interrupt() -> None:
        if asked and watching is not None:  # the first did not help: leave, and the runtime ends with us
            watching.cancel()
        asked.append(loop.create_task(handle.cancel()))

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        return await follow(handle, show)
    finally:
        loop.remove_signal_handler(signal.SIGINT)


class Shows(Protocol):
    """Who is told of events as they come."""

    def event(self, event: Event | TailFrame) -> None: ...


async def follow(handle: Handle, show: Shows | None) -> ExecuteCodeResult:
    """Show it to its end, and ask for the input that it asks for."""
    loop = asyncio.get_running_loop()
    asking: asyncio.Task[None] | None = None
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
