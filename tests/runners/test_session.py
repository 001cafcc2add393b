"""SessionCodeRunner over a house with fake kernels: what becomes of sessions, and what the next result says of it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cellhouse import House, RuntimeSpec
from cellhouse.client import AsyncClient
from cellhouse.keepers import KeptHouse
from cellhouse.model import (
    CallReason,
    CodeResult,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    NoticeReason,
    Outcome,
    SessionState,
)
from cellhouse.runners import Eviction, EvictionReason, Input, PoolLimits, SessionCodeRunner
from cellhouse.runners.houses import AnyHouse
from cellhouse.runners.session import runtime_id_of
from cellhouse.sandbox import SandboxLoss
from tests.runtime.conftest import fakes, house
from tests.runtime.support import Clock, FakeWorld, settings, until, within

__all__ = ["fakes", "house"]


@pytest.fixture
async def runner(house: House) -> AsyncIterator[SessionCodeRunner]:
    async with SessionCodeRunner(house) as made:
        yield made


def reasons(result: CodeResult) -> list[str]:
    return [notice.reason for notice in result.notices or ()]


def every_kind_of_house_will_do(kept: KeptHouse, client: AsyncClient, house: House) -> tuple[AnyHouse, ...]:
    """For the type checker."""
    return kept, client, house


async def test_a_key_has_a_runtime_of_its_own_and_keeps_it(runner: SessionCodeRunner, house: House) -> None:
    one, other = await runner.start(key="User 1"), await runner.start(key="user-1")
    assert one.runtime != other.runtime
    assert one.runtime.startswith("runtimes/key-user-1-")
    assert await runner.start(key="User 1") is one
    await one.execute("set x 5")
    assert (await one.execute("get x")).stdout == "5\n"
    assert len(house.list_runtimes()) == 2
    await one.stop()
    assert [runtime.name for runtime in house.list_runtimes()] == [other.runtime]


@pytest.mark.parametrize("key", ["a", "../../etc", "é", "-", "x" * 1_000, "UPPER", "a\nb", "runtimes/x"])
def test_any_key_gives_a_good_id_and_never_the_same_twice(key: str) -> None:
    ids = {runtime_id_of(key) for _ in range(10)}
    assert len(ids) == 10
    for made in ids:
        RuntimeSpec()  # ids are checked by the house
        assert len(made) <= 63
        assert made.replace("-", "").isalnum()
        assert made.islower()


async def test_a_death_is_a_result_and_the_next_says_that_its_kernel_is_fresh(
    runner: SessionCodeRunner,
) -> None:
    session = await runner.start(key="k")
    died = await session.execute("print before\nsignal 11")
    assert (died.ok, died.stdout, died.outcome) == (False, "before\n", Outcome.KERNEL_DIED)
    assert died.session_state is SessionState.RESET
    assert reasons(await session.execute("print after")) == [NoticeReason.FRESH_KERNEL]


async def test_a_lost_runtime_is_a_result_and_the_key_gets_another_that_says_so(
    runner: SessionCodeRunner, fakes: FakeWorld
) -> None:
    session = await runner.start(key="k")
    running = asyncio.ensure_future(session.execute("print before\nhold"))
    await until(lambda: fakes.launchers and fakes.launchers[0].made)
    await until(lambda: fakes.launchers[0].kernel.codes)
    fakes.sandboxes[0].lost.set_result(SandboxLoss("the sandbox was lost: for the test"))
    lost = await within(running)
    assert (lost.ok, lost.outcome) == (False, Outcome.RUNTIME_LOST)
    with pytest.raises(FailedPrecondition, match="is gone") as gone:
        await session.execute("print x")
    assert gone.value.reason == CallReason.SESSION_GONE
    again = await runner.run("print x", key="k")
    assert again.stdout == "x\n"
    assert reasons(again) == [NoticeReason.SESSION_EVICTED]
    assert reasons(await runner.run("print x", key="k")) == []


async def test_a_runtime_that_somebody_deleted_is_found_out_and_told(
    runner: SessionCodeRunner, house: House
) -> None:
    session = await runner.start(key="k")
    await house.delete_runtime(session.runtime)
    result = await runner.run("print x", key="k")
    assert result.stdout == "x\n"
    assert reasons(result) == [NoticeReason.SESSION_EVICTED]
    assert result.notices is not None
    assert "LOST" in result.notices[0].text


async def test_evictions_are_reported_and_the_next_result_tells_of_them(house: House) -> None:
    clock, evictions = Clock(), list[Eviction]()
    limits = PoolLimits(max_sessions=2, idle_seconds=60)
    async with SessionCodeRunner(house, limits=limits, clock=clock, on_evict=evictions.append) as runner:
        await runner.run("set x 1", key="a")
        await runner.run("set x 1", key="b")
        await runner.run("set x 1", key="c")
        clock.time += 61
        await runner.evict_idle()
        assert [(each.key, each.reason) for each in evictions] == [
            ("a", EvictionReason.LEAST_RECENTLY_USED),
            ("b", EvictionReason.IDLE),
            ("c", EvictionReason.IDLE),
        ]
        assert house.list_runtimes() == []
        assert reasons(await runner.run("print x", key="a")) == [NoticeReason.SESSION_EVICTED]


async def test_a_caller_that_goes_away_ends_its_code_and_no_other(
    runner: SessionCodeRunner, fakes: FakeWorld
) -> None:
    session = await runner.start(key="k")
    first = asyncio.ensure_future(session.execute("hold"))
    await until(lambda: fakes.launchers and fakes.launchers[0].made)
    await until(lambda: fakes.launchers[0].kernel.codes)
    second = asyncio.ensure_future(session.execute("print next"))
    first.cancel()
    assert (await within(second)).stdout == "next\n"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_stop_while_code_runs_keeps_its_output(runner: SessionCodeRunner, fakes: FakeWorld) -> None:
    session = await runner.start(key="k")
    running = asyncio.ensure_future(session.execute("print before\nhold"))
    await until(lambda: fakes.launchers and fakes.launchers[0].made)
    await until(lambda: fakes.launchers[0].kernel.codes)
    await within(asyncio.gather(session.stop(), runner.stop(key="k")))
    result = await within(running)
    assert (result.ok, result.outcome) == (False, Outcome.SESSION_DELETED)


async def test_a_reset_is_told_to_the_next_call(runner: SessionCodeRunner) -> None:
    session = await runner.start(key="k")
    await session.execute("set x 1")
    await session.reset()
    assert reasons(await session.execute("print x")) == [NoticeReason.FRESH_KERNEL]


async def test_small_files_come_with_their_bytes_and_all_with_a_ref(house: House) -> None:
    async with SessionCodeRunner(house, data_bytes=4) as runner:
        result = await runner.run("write small.txt abcd\nwrite large.txt abcdef", key="k")
    data = {artifact.name: (artifact.bytes, artifact.data) for artifact in result.artifacts or ()}
    assert data == {"small.txt": (4, b"abcd"), "large.txt": (6, None)}
    large = next(artifact for artifact in result.artifacts or () if artifact.name == "large.txt")
    assert large.ref is not None
    async with await house.artifacts.get(large.ref) as reading:
        assert await reading.read() == b"abcdef"


async def test_inputs_are_staged_also_by_a_runner_that_has_to_start_anew(
    runner: SessionCodeRunner, house: House, tmp_path: Path
) -> None:
    (tmp_path / "local.txt").write_text("local")
    stored = await house.artifacts.put(b"stored", kind="input", media_type="text/plain")
    session = await runner.start(key="k")
    await house.delete_runtime(session.runtime)
    inputs: dict[str, Input] = {"a": b"bytes", "b": tmp_path / "local.txt", "c": stored.ref}
    result = await runner.run("print x", key="k", inputs=inputs)
    assert reasons(result) == [NoticeReason.SESSION_EVICTED]
    session = await runner.start(key="k")
    paths = await session.stage({"d": b"more"})
    assert paths["d"].endswith("/inputs/d")
    files = await house.list_files(session.runtime, "inputs")
    assert {each.name: each.bytes for each in files.files} == {
        "inputs/a": 5, "inputs/b": 5, "inputs/c": 6, "inputs/d": 4,
    }  # fmt: skip
    with pytest.raises(NotFound, match="art_"):
        await session.stage({"e": "art_" + "x" * 22})
    assert await runner.start(key="k") is session


async def test_a_kernel_of_another_language_is_refused_and_leaves_no_runtime(house: House) -> None:
    async with SessionCodeRunner(house, spec=RuntimeSpec(kernel="other")) as runner:
        with pytest.raises(FailedPrecondition, match="runs other and not python"):
            await runner.start(key="k")
        assert house.list_runtimes() == []
    async with SessionCodeRunner(house, spec=RuntimeSpec(kernel="other"), language="other") as runner:
        assert (await runner.run("print x", key="k")).ok


async def test_a_house_that_was_given_stays_open(house: House) -> None:
    async with SessionCodeRunner(house) as runner:
        await runner.start(key="k")
    assert house.list_runtimes() == []
    assert (await house.create_runtime()).name


async def test_a_runner_that_is_not_open_says_how(tmp_path: Path) -> None:
    with pytest.raises(FailedPrecondition, match="async with SessionCodeRunner"):
        await SessionCodeRunner().start(key="k")


async def test_the_house_closes_what_a_runner_that_is_gone_left(house: House) -> None:
    runner = SessionCodeRunner(house, limits=PoolLimits(idle_seconds=60))
    assert runner._spec.idle_seconds == 360
    given = SessionCodeRunner(house, spec=RuntimeSpec(idle_seconds=5, start="zygote"))
    assert (given._spec.idle_seconds, given._spec.start) == (5, "zygote")


@pytest.mark.parametrize("options", [{"data_bytes": -1}, {"data_bytes": "1"}, {"max_output_chars": 0}])
def test_limits_that_can_not_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        SessionCodeRunner(**options)


async def test_in_three_lines(fakes: FakeWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        "cellhouse.runners.session.House", lambda: House(settings=settings(tmp_path / "state"))
    )
    async with SessionCodeRunner() as runner:
        session = await runner.start(key="user-1")
        result = await session.execute("value 2")
    assert (result.ok, result.stdout, result.result) == (True, "2\n", "2")
