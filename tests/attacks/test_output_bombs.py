"""Output without end or measure: told for what it is, within bounds, and nobody else is kept waiting."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
import pytest_asyncio

from cellhouse import House
from cellhouse.environments import Environment
from cellhouse.model import ExecuteCodeResult, LateEvent, Outcome, RuntimeSpec, SessionLimits, SessionState
from cellhouse.runtime import Settings
from tests.attacks.output_bombs import BOMBS, CAPTURE, JUPYTER, NATIVE, OutputBomb
from tests.attacks.test_bombs import Peak
from tests.promises.conftest import warm_threads
from tests.promises.support import SECONDS, Caller

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.native]

LATER = [pytest.mark.walls, pytest.mark.slow]
SERVICE_BYTES = 192 << 20
"""What the service may need besides what it has: a message of 100 MiB is in its memory once."""
DISK_BYTES = 64 << 20
MARGIN_CHARS = 1_000
"""What a shortened text may have besides its limit: the line that says what is missing."""


@dataclass(frozen=True)
class Drowning:
    bystander: Caller
    swimmers: dict[str, Caller]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    settings = Settings(
        state_dir=tmp_path_factory.mktemp("output") / "state",
        environments=(environment.prefix.parent,),
        capture=CAPTURE,
        session=SessionLimits(interrupt_grace=3.0),
    )
    await warm_threads()
    async with House(settings=settings) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bystander(house: House) -> Caller:
    runtime = await house.create_runtime(RuntimeSpec(start="fresh"))
    made = Caller(house, runtime.name, f"{runtime.name}/sessions/main")
    await made.run("kept = 1")
    return made


async def talker(house: House, kernel: str) -> Caller:
    start: Literal["fresh"] | None = "fresh" if kernel == NATIVE else None
    runtime = await house.create_runtime(RuntimeSpec(kernel=kernel, start=start))
    made = Caller(house, runtime.name, f"{runtime.name}/sessions/main")
    await made.run("None")
    return made


def cases() -> list[object]:
    return [
        pytest.param(
            bomb, kernel, id=f"{bomb.name}-{kernel}", marks=[] if bomb.quick and kernel == NATIVE else LATER
        )
        for bomb in BOMBS
        for kernel in (NATIVE, JUPYTER)
        if kernel in bomb.counts
    ]


@pytest.mark.parametrize(("bomb", "kernel"), cases())
async def test_drowns_nobody(house: House, bystander: Caller, bomb: OutputBomb, kernel: str) -> None:
    caller = await talker(house, kernel)
    before = disk_use(house.state_dir)
    peak = Peak()
    try:
        handle = await caller.printing(bomb.cell(kernel), "lit", execution_timeout=bomb.seconds or 60.0)
        assert (await bystander.run("kept + 1")).result == "2"
        async with asyncio.timeout(SECONDS):
            result = await handle
        assert result.outcome is bomb.outcome, result.execution_error
        assert_bounded(result)
        assert (result.truncation is not None) >= bomb.truncated
        told = {notice.reason for notice in result.notices or ()}
        told |= {output.error_info.reason for output in result.rich_outputs if output.error_info is not None}
        assert bomb.reasons <= told
        # Slowed, and never ended for talking: the session goes on, but where its kernel was taken over.
        taken_over = bomb.outcome is Outcome.KERNEL_DIED
        assert result.session_state is (SessionState.RESET if taken_over else SessionState.PRESERVED)
        following = await caller.run("print('next'); 1 + 1")
        assert (following.outcome, following.stdout, following.result) == (Outcome.OK, "next\n", "2")
        assert (await bystander.run("kept + 1")).result == "2"
    finally:
        await house.delete_runtime(caller.runtime)
    assert peak.grown < SERVICE_BYTES
    assert disk_use(house.state_dir) - before < DISK_BYTES


def assert_bounded(result: ExecuteCodeResult) -> None:
    for text in (result.stdout, result.stderr, result.result):
        assert len(text) < CAPTURE.inline_chars + MARGIN_CHARS
    if result.execution_error is not None:
        assert len(result.execution_error.name) < CAPTURE.error_value_chars + MARGIN_CHARS
        assert len(result.execution_error.value) < CAPTURE.error_value_chars + MARGIN_CHARS
        assert sum(map(len, result.execution_error.traceback)) < CAPTURE.traceback_chars + MARGIN_CHARS
    assert len(result.notices or ()) <= CAPTURE.notices + 1
    assert len(result.rich_outputs) <= CAPTURE.rich_entries + 1
    assert len(result.artifacts or ()) <= CAPTURE.artifacts
    for part in (result.truncation.stdout, result.truncation.stderr) if result.truncation else ():
        assert part is None or (part.spilled_bytes or 0) <= CAPTURE.spill_bytes


def disk_use(directory: Path) -> int:
    """Bytes of the files below, as far as they are there."""
    total = 0
    for path, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


@pytest.mark.walls
@pytest.mark.slow
@pytest.mark.parametrize("kernel", [NATIVE, JUPYTER])
async def test_a_thread_that_never_stops_talking_is_its_own_execution_s(
    house: House, bystander: Caller, kernel: str
) -> None:
    """It is late output, within a budget; over the native kernel what runs meanwhile has nothing of it."""
    caller = await talker(house, kernel)
    before = disk_use(house.state_dir)
    peak = Peak()
    try:
        first = await caller.start(
            "import threading\n"
            "def talk():\n"
            "    while True: print('SPAM' * 100)\n"
            "threading.Thread(target=talk, daemon=True).start()"
        )
        async with asyncio.timeout(SECONDS):
            assert (await first).outcome is Outcome.OK
            async for event in first.events(late=True):
                if isinstance(event, LateEvent):
                    break
        for number in range(5):
            following = await caller.run(f"print('next'); {number}")
            assert_bounded(following)
            assert following.result == str(number)
            # ipykernel names whatever runs as the parent of what a thread prints; it is taken at its word.
            assert kernel != NATIVE or following.stdout == "next\n"
        assert (await bystander.run("kept + 1")).result == "2"
        assert (await first.snapshot()).late is not None
        assert (await house.get_execution(str(first.name))).outcome is Outcome.OK
    finally:
        await house.delete_runtime(caller.runtime)
    assert peak.grown < SERVICE_BYTES
    assert disk_use(house.state_dir) - before < DISK_BYTES
