"""Turns: one at a time, whoever dies; nobody waits who need not."""

import asyncio
import os
from pathlib import Path

from cellhouse.runtime.turns import Turns
from tests.runtime.support import within


async def test_there_is_one_turn_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "turns"
    never = asyncio.Event()
    at_work = 0
    most = 0

    async def work() -> None:
        nonlocal at_work, most
        async with Turns(path).turn(never):
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(0)
            at_work -= 1

    await within(asyncio.gather(*(work() for _ in range(4))))
    assert most == 1
    assert path.stat().st_mode & 0o777 == 0o600


async def test_who_is_waited_for_waits_for_no_turn(tmp_path: Path) -> None:
    path = tmp_path / "turns"
    asked = asyncio.Event()

    async def second() -> str:
        async with Turns(path).turn(asked):
            return "done"

    async with Turns(path).turn(asyncio.Event()):
        waiting = asyncio.create_task(second())
        await asyncio.sleep(0)
        assert not waiting.done()
        asked.set()
        assert await within(waiting) == "done"


async def test_a_turn_ends_with_the_process_that_has_it(tmp_path: Path) -> None:
    path = tmp_path / "turns"
    ready, theirs = os.pipe()
    child = os.fork()
    if not child:
        import fcntl

        fcntl.flock(os.open(path, os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
        os.write(theirs, b"x")
        os.read(os.pipe()[0], 1)
        os._exit(1)
    os.read(ready, 1)
    os.close(ready)
    os.close(theirs)

    async def after() -> None:
        async with Turns(path).turn(asyncio.Event()):
            pass

    waiting = asyncio.create_task(after())
    await asyncio.sleep(0)
    assert not waiting.done()
    os.kill(child, 9)
    os.waitpid(child, 0)
    await within(waiting)
