"""One zygote kept alive, sessions forked ahead, and what becomes of both when they die."""

import asyncio
import functools
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cellhouse.runtime import nursery as nursery_module, zygote as zygote_module
from cellhouse.runtime.nursery import FAILURES, Nursery
from cellhouse.runtime.turns import TURNS_FILE, Turns
from cellhouse.runtime.zygote import Zygote, ZygoteFailed
from cellhouse.sandbox import Sandbox
from tests.runtime.support import until, within
from tests.runtime.zygotes import FakeNative, open_sandbox, stand_in
from tests.sandbox.support import PYTHON


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr(nursery_module, "QUIET_SECONDS", 0.0)
    return stand_in(tmp_path, monkeypatch)


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    async with open_sandbox(tmp_path / "state") as made:
        yield made


def made(sandbox: Sandbox, env: dict[str, str], *preload: str, spares: int = 0) -> Nursery:
    make: Any = FakeNative
    return Nursery(
        sandbox,
        python=str(PYTHON),
        env=env,
        cwd=str(sandbox.content),
        preload=preload,
        spares=spares,
        make_kernel=make,
        turns=Turns(sandbox.content.parent / TURNS_FILE),
    )


async def forked(nursery: Nursery) -> FakeNative:
    kernel = FakeNative(nursery.fork)
    await within(kernel.start())
    return kernel


async def spare(nursery: Nursery) -> FakeNative:
    await until(lambda: nursery._spares)
    kernel: Any = await nursery.take()
    assert isinstance(kernel, FakeNative)
    return kernel


def _replaced(nursery: Nursery, zygote: Zygote) -> bool:
    return nursery._zygote is not zygote


async def test_who_asks_first_waits_for_the_zygote(sandbox: Sandbox, env: dict[str, str]) -> None:
    nursery = made(sandbox, env)
    kernels = await asyncio.gather(*(forked(nursery) for _ in range(5)))
    assert len({kernel.process.pid for kernel in kernels if kernel.process}) == 5
    assert nursery.ready
    for kernel in kernels:
        await kernel.close()
    await nursery.close()


async def test_a_zygote_that_nobody_waits_for_is_started_when_it_is_its_turn(
    sandbox: Sandbox, env: dict[str, str]
) -> None:
    other, waiting, asked = (made(sandbox, env) for _ in range(3))
    path = sandbox.content.parent / TURNS_FILE
    async with Turns(path).turn(asyncio.Event()):
        for nursery in (waiting, asked):
            nursery.begin_soon()
        await (await forked(asked)).close()  # whoever needs one has it at once
        assert not waiting.ready
        await other.close()
    await until(lambda: waiting.ready)
    for nursery in (waiting, asked):
        await nursery.close()


async def test_spares_are_made_handed_out_and_made_again(sandbox: Sandbox, env: dict[str, str]) -> None:
    nursery = made(sandbox, env, "well", spares=2)
    assert await nursery.take() is None
    nursery.begin_soon()
    first = await spare(nursery)
    second = await spare(nursery)
    assert first is not second
    assert "well" in await within(first.ends.modules())  # everything was imported when it was forked
    await until(lambda: nursery.ahead == 2)
    await first.close()
    await second.close()
    await nursery.close()


async def test_a_dead_spare_is_thrown_away(sandbox: Sandbox, env: dict[str, str]) -> None:
    nursery = made(sandbox, env, spares=1)
    nursery.begin()
    await until(lambda: nursery._spares)
    dead: Any = nursery._spares[0].kernel
    dead.process.signal(signal.SIGKILL, True)
    await within(dead.process.exited)
    assert await nursery.take() is None
    alive = await forked(nursery)
    assert alive is not dead
    await alive.close()
    await nursery.close()


async def test_a_dead_zygote_is_replaced(sandbox: Sandbox, env: dict[str, str]) -> None:
    nursery = made(sandbox, env)
    for _ in range(2 * FAILURES):  # each had a session, so none of them counts
        kernel = await forked(nursery)
        await kernel.close()
        zygote = nursery._zygote
        assert zygote is not None
        assert zygote._process is not None
        zygote._process.signal(signal.SIGKILL)
        await within(zygote.ended.wait())
        await until(functools.partial(_replaced, nursery, zygote))
    await nursery.close()


async def test_a_module_that_is_its_end_is_left_out(sandbox: Sandbox, env: dict[str, str]) -> None:
    nursery = made(sandbox, env, "well", "dies", "threads")
    nursery.begin()
    await until(lambda: nursery._zygote is not None and nursery._zygote.settled.is_set())
    assert nursery._zygote is not None
    assert nursery._zygote.modules == ("well",)
    kernel = await forked(nursery)
    await kernel.close()
    await nursery.close()


async def test_one_that_hangs_is_replaced_and_who_asked_is_told(
    sandbox: Sandbox, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nursery = made(sandbox, env, "hangs")
    nursery.begin()
    await until(lambda: nursery._zygote is not None and nursery._zygote._importing)
    monkeypatch.setattr(zygote_module, "FORK_SECONDS", 0.05)
    with pytest.raises(ZygoteFailed, match="hangs"):
        await forked(nursery)
    monkeypatch.setattr(zygote_module, "FORK_SECONDS", 20.0)
    kernel = await forked(nursery)
    assert "hangs" not in await within(kernel.ends.modules())
    await kernel.close()
    await nursery.close()


async def test_where_none_is_good_for_anything_it_stays_at_that(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = stand_in(tmp_path, monkeypatch, program="import sys; sys.exit('never')")
    nursery = made(sandbox, env)
    for _ in range(2):
        with pytest.raises(ZygoteFailed, match=f"{FAILURES} zygotes failed, the last: .*never"):
            await forked(nursery)
    assert not nursery.ready
    await nursery.close()


async def test_who_gives_up_leaves_no_session(sandbox: Sandbox, env: dict[str, str]) -> None:
    nursery = made(sandbox, env)
    starting = [asyncio.ensure_future(forked(nursery)) for _ in range(3)]
    await until(lambda: nursery.ready)
    for task in starting:
        task.cancel()
    await asyncio.wait(starting)
    for task in starting:
        if not task.cancelled() and task.exception() is None:  # it was there already
            await task.result().close()
    await nursery.close()


@pytest.mark.parametrize("when", ["before", "starting", "breeding"])
async def test_it_can_be_closed_at_any_time(sandbox: Sandbox, env: dict[str, str], when: str) -> None:
    nursery = made(sandbox, env, "well", spares=3)
    if when != "before":
        nursery.begin()
    if when == "starting":
        await until(lambda: nursery._zygote is not None)
    if when == "breeding":
        await until(lambda: nursery._spares)
    await within(nursery.close())
    with pytest.raises(ZygoteFailed):
        await forked(nursery)
    assert await nursery.take() is None


async def test_the_end_of_the_sandbox_is_its_own(sandbox: Sandbox, env: dict[str, str]) -> None:
    nursery = made(sandbox, env, spares=1)
    nursery.begin()
    await until(lambda: nursery._spares)
    await sandbox.close()
    await until(lambda: not nursery._spares)
    await within(nursery.close())
