"""Houses with keepers, and short words for what tests do there."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

from cellhouse import ExecuteCodeRequest
from cellhouse.environments import Environment
from cellhouse.keepers import AnyHouse, KeptHouse, Template
from cellhouse.keepers.place import Place, holder
from cellhouse.model import Event, ExecuteCodeResult, TailFrame
from cellhouse.runtime import ExecutionHandle, Settings
from cellhouse.sandbox.pidfd import pidfd_open

SECONDS = 60.0
SESSION = "runtimes/here/sessions/main"

T = TypeVar("T")


async def within(awaitable: Awaitable[T]) -> T:
    async with asyncio.timeout(SECONDS):
        return await awaitable


def settings(state: Path, environment: Environment, **changes: Any) -> Settings:
    """Real kernels behind real walls, and nothing that is forked ahead."""
    base: dict[str, Any] = {"environments": (environment.prefix.parent,), "preload": (), "spares": 0}
    return Settings(state_dir=state, **{**base, "start": "fresh", **changes})


def ready(template: Template) -> None:
    """Until it has imported all: tests before and after that would differ."""
    template.start()
    template.wait()


def keeper_pid(house: KeptHouse, runtime: str = "here") -> int:
    pid = holder(Place(house.state_dir, runtime).directory)
    assert pid is not None
    return pid


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


async def ended(pid: int) -> None:
    """Until the process has; also one that is no child of ours."""
    try:
        pidfd = pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    loop.add_reader(pidfd, gone.set)
    try:
        await within(gone.wait())
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


async def start(house: AnyHouse, code: str, session: str = SESSION, **options: Any) -> ExecutionHandle:
    return await within(house.execute(ExecuteCodeRequest(code=code, session=session, **options)))


async def run(house: AnyHouse, code: str, session: str = SESSION, **options: Any) -> ExecuteCodeResult:
    return await within((await start(house, code, session, **options)).result())


async def printed(handle: ExecutionHandle, text: str) -> None:
    """Until the code has printed it."""
    seen = ""
    async with asyncio.timeout(SECONDS):
        async with contextlib.aclosing(handle.events()) as events:
            async for event in events:
                if event.type == "stream":
                    seen += event.text
                    if text in seen:
                        return
    raise AssertionError(f"{handle.name} ended without {text!r}: {seen!r}")


async def all_events(handle: ExecutionHandle, after: int = 0) -> list[Event]:
    async with asyncio.timeout(SECONDS):
        return [event async for event in handle.events(after=after)]


async def recorded(house: AnyHouse, name: str, after: int = 0) -> list[Event]:
    """The numbered events of an execution, by its name, up to its end."""
    async with asyncio.timeout(SECONDS):
        return [event async for event in house.events(name, after=after) if not isinstance(event, TailFrame)]


def dense(events: list[Event], after: int = 0) -> bool:
    """Numbered on without a gap, with one end, which is the last."""
    kinds = [event.type for event in events]
    return (
        [event.seq for event in events] == list(range(after + 1, after + 1 + len(events)))
        and kinds.count("finished") == 1
        and kinds[-1] == "finished"
    )
