"""Runtimes of a house: made, found, described, deleted, lost, and what becomes of what runs in them."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from cellhouse import ExecuteCodeRequest, House
from cellhouse.model import (
    AlreadyExists,
    CallReason,
    EndReason,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    NoticeReason,
    Outcome,
    ResourceExhausted,
    RuntimeSpec,
    RuntimeStatus,
    SessionState,
    SessionStatus,
    Unavailable,
)
from cellhouse.runtime import ExecutionHandle
from cellhouse.sandbox import SandboxLoss
from tests.runtime.support import (
    FakeWorld,
    Place,
    event_of,
    metadata,
    new_place,
    notices,
    reason,
    settings,
    until,
    within,
)


async def test_made_found_and_deleted(house: House, fakes: FakeWorld) -> None:
    made = await house.create_runtime(runtime_id="mine")
    assert made.name == "runtimes/mine"
    assert (made.status, made.environment, made.kernel) == (RuntimeStatus.ACTIVE, "default", "python3")
    assert made.isolation is not None
    assert made.isolation.level == "fake"
    assert made.expire_time is not None
    assert made.expire_time > (made.create_time or "")
    assert [runtime.name for runtime in house.list_runtimes()] == ["runtimes/mine"]
    assert house.get_runtime("runtimes/mine").name == made.name
    await house.delete_runtime("runtimes/mine")
    assert house.list_runtimes() == []
    assert fakes.sandboxes[0].closed
    for call in (house.get_runtime, house.list_sessions):
        with pytest.raises(NotFound) as gone:
            call("runtimes/mine")
        assert gone.value.reason == CallReason.NO_SUCH_RUNTIME
    with pytest.raises(NotFound):
        await house.delete_runtime("runtimes/mine")
    assert list((house.state_dir / "runtimes").iterdir()) == []


async def test_an_id_of_ones_own_or_one_that_is_minted(house: House) -> None:
    first, second = await house.create_runtime(), await house.create_runtime()
    assert first.name != second.name
    await house.create_runtime(runtime_id="mine")
    with pytest.raises(AlreadyExists) as taken:
        await house.create_runtime(runtime_id="mine")
    assert (taken.value.reason, taken.value.http) == (CallReason.ID_TAKEN, 409)


@pytest.mark.parametrize("bad", ["", "A", "1a", "a-", "a" * 64, "a/b", "..", "a\n"])
async def test_a_bad_id_is_named(house: House, bad: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await house.create_runtime(runtime_id=bad)
    assert refused.value.metadata["field"] == "runtimeId"
    runtime = await house.create_runtime()
    with pytest.raises(InvalidArgument) as refused:
        await house.create_session(runtime.name, session_id=bad)
    assert refused.value.metadata["field"] == "sessionId"


async def test_a_kernel_that_is_not_there(house: House) -> None:
    with pytest.raises(
        NotFound, match=r"kernel 'fortran' is not in environment 'default'.*has other, python3"
    ) as refused:
        await house.create_runtime(RuntimeSpec(kernel="fortran"), runtime_id="mine")
    assert refused.value.reason == CallReason.NO_SUCH_KERNEL
    assert list((house.state_dir / "runtimes").iterdir()) == []
    await house.create_runtime(RuntimeSpec(kernel="other"), runtime_id="mine")


async def test_walls_that_do_not_stand_leave_nothing(
    house: House, fakes: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(self: object) -> None:
        raise FailedPrecondition("no such walls", reason=CallReason.ISOLATION_UNAVAILABLE)

    with monkeypatch.context() as patch:
        patch.setattr("tests.runtime.support.FakeSandbox.start", refuse)
        with pytest.raises(FailedPrecondition):
            await house.create_runtime(runtime_id="mine")
    assert house.list_runtimes() == []
    assert list((house.state_dir / "runtimes").iterdir()) == []
    await house.create_runtime(runtime_id="mine")


async def test_one_that_is_deleted_while_it_is_made(
    house: House, fakes: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_stand = asyncio.Event(), asyncio.Event()

    async def slowly(self: object) -> None:
        begun.set()
        await may_stand.wait()
        fakes.sandboxes[-1].content.mkdir()

    monkeypatch.setattr("tests.runtime.support.FakeSandbox.start", slowly)
    making = asyncio.ensure_future(house.create_runtime(runtime_id="mine"))
    await within(begun.wait())
    deletion = asyncio.ensure_future(house.delete_runtime("runtimes/mine"))
    await asyncio.sleep(0)
    assert not deletion.done()
    may_stand.set()
    assert (await within(making)).name == "runtimes/mine"
    await within(deletion)
    assert house.list_runtimes() == []
    assert fakes.sandboxes[-1].closed
    assert list((house.state_dir / "runtimes").iterdir()) == []


@pytest.mark.parametrize("missing", ["/content", "the launcher"])
async def test_one_that_fails_behind_its_walls_leaves_none(
    house: House, fakes: FakeWorld, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    async def without_content(self: object) -> None:
        pass

    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    if missing == "/content":
        monkeypatch.setattr("tests.runtime.support.FakeSandbox.start", without_content)
    else:
        monkeypatch.setattr("cellhouse.runtime.in_process.KernelLauncher", broken)
    with pytest.raises(Internal):
        await house.create_runtime(runtime_id="mine")
    assert fakes.sandboxes[-1].closed
    assert list((house.state_dir / "runtimes").iterdir()) == []


async def test_so_many_runtimes_and_no_more(fakes: FakeWorld, tmp_path: Path) -> None:
    async with House(settings=settings(tmp_path, max_runtimes=2)) as house:
        first = await house.create_runtime()
        await house.create_runtime()
        with pytest.raises(ResourceExhausted) as refused:
            await house.create_runtime()
        assert refused.value.metadata["limit"] == "max_runtimes"
        await house.delete_runtime(first.name)
        await house.create_runtime()


async def test_so_many_sessions_and_no_more(fakes: FakeWorld, tmp_path: Path) -> None:
    async with House(settings=settings(tmp_path, max_sessions=2)) as house:
        place = await new_place(house, fakes)
        await place.run("print a", "a")
        await place.run("print b", "b")
        for request in (
            ExecuteCodeRequest(code="print c", session=place.session("c")),
            ExecuteCodeRequest(code="print c", runtime=place.runtime),
        ):
            with pytest.raises(ResourceExhausted) as refused:
                await house.execute(request)
            assert refused.value.metadata["limit"] == "max_sessions"
        await house.delete_session(place.session("a"))
        assert (await place.run("print c", "c")).stdout == "c\n"


# Sessions


async def test_a_session_is_made_by_its_first_use(place: Place) -> None:
    result = await place.run("print x", "mine")
    assert result.session == place.session("mine")
    (session,) = place.house.list_sessions(place.runtime)
    assert (session.name, session.status) == (place.session("mine"), SessionStatus.IDLE)
    assert (session.kernel, session.language, session.execution_count) == ("python3", "python", 1)
    assert place.house.get_runtime(place.runtime).sessions == (place.session("mine"),)
    with pytest.raises(AlreadyExists):
        await place.house.create_session(place.runtime, session_id="mine")


async def test_a_session_says_what_it_does(place: Place) -> None:
    place.launcher.gate.clear()
    handle = await place.start("hold")
    await within(place.launcher.asked.wait())
    assert place.house.get_session(place.session()).status is SessionStatus.STARTING
    place.launcher.gate.set()
    await event_of(handle, "started")
    session = place.house.get_session(place.session())
    assert (session.status, session.execution) == (SessionStatus.BUSY, str(handle.name))
    place.kernel.release.set()
    await within(handle)


async def test_a_runtime_as_target_gets_a_session_that_stays(place: Place) -> None:
    handle = await place.house.execute(ExecuteCodeRequest(code="set x 1", runtime=place.runtime))
    result = await within(handle)
    assert result.session.startswith(f"{place.runtime}/sessions/")
    again = await place.house.execute(ExecuteCodeRequest(code="get x", session=result.session))
    assert (await within(again)).result == "1"


async def test_unknown_sessions(place: Place) -> None:
    house, name = place.house, place.session("none")
    for call in (house.interrupt, house.restart, house.delete_session):
        with pytest.raises(NotFound) as refused:
            await call(name)
        assert refused.value.reason == CallReason.NO_SUCH_SESSION
    with pytest.raises(NotFound):
        house.get_session(name)
    assert house.session_log(name) == []


async def test_what_was_refused_leaves_no_session(house: House, fakes: FakeWorld) -> None:
    other = await new_place(house, fakes, kernel="other")
    with pytest.raises(FailedPrecondition, match="Python kernels only, not in 'other'"):
        await other.start("print x", environment={"A": "1"})
    assert house.list_sessions(other.runtime) == []


async def test_a_namesake_of_a_session_that_ended_says_so(place: Place) -> None:
    await place.run("set x 1")
    await place.house.delete_session(place.session())
    result = await place.run("get x")
    assert result.execution_error is not None
    assert notices(result) == [NoticeReason.FRESH_KERNEL]
    assert result.notices is not None
    assert "an earlier session of this name has ended" in result.notices[0].text
    assert notices(await place.run("print on")) == []


async def test_interrupt_says_whether_anything_ran(place: Place) -> None:
    await place.run("print x")
    assert not await place.house.interrupt(place.session())
    handle = await place.running("hold")
    assert await place.house.interrupt(place.session())
    assert (await within(handle)).outcome is Outcome.INTERRUPTED


# Ends


async def test_everyone_who_deletes_it_waits_for_the_same_end(place: Place) -> None:
    place.sandbox.may_close.clear()
    deletions = [asyncio.ensure_future(place.house.delete_runtime(place.runtime)) for _ in range(3)]
    await within(place.sandbox.closing.wait())
    with pytest.raises(AlreadyExists):
        await place.house.create_runtime(runtime_id=place.runtime.removeprefix("runtimes/"))
    assert not any(deletion.done() for deletion in deletions)
    place.sandbox.may_close.set()
    await within(asyncio.gather(*deletions))
    assert place.sandbox.closed
    assert list((place.house.state_dir / "runtimes").iterdir()) == []


async def test_one_that_cannot_be_closed_can_be_deleted(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await place.running("hold")
    close = type(place.sandbox).close

    async def badly(self: object) -> None:
        await close(place.sandbox)
        raise OSError(errno.EBUSY, "something holds on to it")

    with monkeypatch.context() as patch:
        patch.setattr("tests.runtime.support.FakeSandbox.close", badly)
        with pytest.raises(Internal):
            await within(place.house.delete_runtime(place.runtime))
    assert (await within(running)).outcome is Outcome.SESSION_DELETED
    assert place.house.list_runtimes() == []
    await within(place.house.delete_runtime(place.runtime))
    await place.house.create_runtime(runtime_id=place.runtime.removeprefix("runtimes/"))


async def test_one_that_goes_away_and_cannot_be_closed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    close = type(place.sandbox).close

    async def badly(self: object) -> None:
        await close(place.sandbox)
        raise OSError(errno.EBUSY, "something holds on to it")

    with monkeypatch.context() as patch:
        patch.setattr("tests.runtime.support.FakeSandbox.close", badly)
        place.sandbox.lost.set_result(SandboxLoss("its supervisor was killed"))
        await until(lambda: place.house.list_runtimes() == [])
    await within(place.house.delete_runtime(place.runtime))


async def test_a_deletion_that_comes_too_late_takes_nothing_else(
    house: House, fakes: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two callers delete it, a third makes it anew as soon as it is gone: the new one stays."""
    await house.create_runtime(runtime_id="mine")
    fakes.sandboxes[0].may_close.clear()
    deletions = [asyncio.ensure_future(house.delete_runtime("runtimes/mine")) for _ in range(3)]
    await within(fakes.sandboxes[0].closing.wait())
    fakes.sandboxes[0].may_close.set()
    while True:
        try:
            await house.create_runtime(runtime_id="mine")
            break
        except AlreadyExists:
            await asyncio.sleep(0)
    await within(asyncio.gather(*deletions))
    assert [runtime.name for runtime in house.list_runtimes()] == ["runtimes/mine"]
    request = ExecuteCodeRequest(code="write a.txt x", session="runtimes/mine/sessions/s")
    result = await within(await house.execute(request))
    assert result.outcome is Outcome.OK
    with house.open_content("runtimes/mine") as content:
        assert content.read("a.txt", 10) == b"x"
    assert [path.name for path in (house.state_dir / "runtimes").iterdir()] == ["mine"]


async def test_while_it_is_deleted_its_executions_can_be_read(place: Place) -> None:
    running = await place.running("print so far\nhold", execution_id="one")
    waiting = await place.start("print never")
    place.sandbox.may_close.clear()
    deletion = asyncio.ensure_future(place.house.delete_runtime(place.runtime))
    await within(place.sandbox.closing.wait())
    for handle, outcome in ((running, Outcome.SESSION_DELETED), (waiting, Outcome.NEVER_STARTED)):
        assert (await place.house.get_execution(str(handle.name))).outcome is outcome
    repeated = await place.start("print so far\nhold", execution_id="one")
    assert repeated.attached
    assert (await within(repeated)).stdout == "so far\n"
    with pytest.raises(NotFound) as refused:
        await place.start("print new")
    assert refused.value.reason == CallReason.RUNTIME_DELETED
    place.sandbox.may_close.set()
    await within(deletion)
    assert (await place.house.get_execution(str(running.name))).stdout == "so far\n"


async def test_a_sandbox_that_goes_away(place: Place) -> None:
    running = await place.running("print so far\nhold")
    waiting = await place.start("print never")
    await place.house.put_file(place.runtime, "kept.txt", [b"kept"])
    place.sandbox.lost.set_result(SandboxLoss("its supervisor was killed"))
    result = await within(running)
    assert (result.outcome, reason(result)) == (Outcome.RUNTIME_LOST, EndReason.RUNTIME_LOST)
    assert (result.stdout, result.session_state) == ("so far\n", SessionState.GONE)
    assert metadata(result)["mayHaveRun"] == "true"
    assert result.execution_error is not None
    assert "its supervisor was killed" in result.execution_error.value
    ended = await within(waiting)
    assert (ended.outcome, reason(ended)) == (Outcome.NEVER_STARTED, EndReason.RUNTIME_LOST)
    await within(place.sandbox.closing.wait())
    # Closed by itself it is over, its files can still be read, and it can be deleted.
    await within(place.house.close())
    async with House(settings=settings(place.house.state_dir)) as house:
        with pytest.raises(NotFound) as refused:
            house.get_runtime(place.runtime)
        assert refused.value.reason == CallReason.RUNTIME_DELETED
        with house.open_content(place.runtime) as content:
            assert content.read("kept.txt", 100) == b"kept"
        await house.delete_runtime(place.runtime)
        with pytest.raises(NotFound):
            house.open_content(place.runtime)


async def test_closing_the_house_ends_what_runs_and_waits(place: Place) -> None:
    running = await place.running("print so far\nhold")
    waiting = await place.start("print never")
    await within(asyncio.gather(place.house.close(), place.house.close()))
    assert place.sandbox.closed
    async with House(settings=settings(place.house.state_dir)) as house:
        result = await house.get_execution(str(running.name))
        assert (result.outcome, reason(result)) == (Outcome.RUNTIME_LOST, EndReason.RUNTIME_LOST)
        assert result.stdout == "so far\n"
        assert result.execution_error is not None
        assert "the house was closed" in result.execution_error.value
        assert (await house.get_execution(str(waiting.name))).outcome is Outcome.NEVER_STARTED


async def test_a_house_that_closes_while_a_runtime_is_made(
    fakes: FakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_stand = asyncio.Event(), asyncio.Event()

    async def slowly(self: object) -> None:
        begun.set()
        await may_stand.wait()
        fakes.sandboxes[-1].content.mkdir()

    monkeypatch.setattr("tests.runtime.support.FakeSandbox.start", slowly)
    house = House(settings=settings(tmp_path / "state"))
    await house.__aenter__()
    making = asyncio.ensure_future(house.create_runtime())
    await within(begun.wait())
    closing = asyncio.ensure_future(house.close())
    await asyncio.sleep(0)
    assert not closing.done()
    may_stand.set()
    await within(closing)
    with pytest.raises(Unavailable) as refused:
        await making
    assert refused.value.reason == CallReason.SHUTTING_DOWN
    assert fakes.sandboxes[-1].closed
    assert list((tmp_path / "state" / "runtimes").iterdir()) == []


async def test_a_house_that_closes_while_code_is_accepted(fakes: FakeWorld, tmp_path: Path) -> None:
    """With durability `full` a start record is awaited: whoever is accepted then gets an end on record."""
    limits = settings(tmp_path, durability="full")
    async with House(settings=limits) as house:
        place = await new_place(house, fakes)
        calls = [asyncio.ensure_future(place.start("hold", execution_id=f"e{number}")) for number in range(5)]
        await asyncio.sleep(0)
        await within(house.close())
        ends = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(end, ExecutionHandle | NotFound) for end in ends)
    async with House(settings=limits) as house:
        accepted = [end for end in ends if isinstance(end, ExecutionHandle)]
        assert accepted
        for handle in accepted:
            result = await house.get_execution(str(handle.name))
            assert result.outcome in (Outcome.RUNTIME_LOST, Outcome.NEVER_STARTED)
            assert result.outcome_info is not None
            assert result.outcome_info.reason == EndReason.RUNTIME_LOST


async def test_a_closed_house_says_so(place: Place) -> None:
    handle = await place.start("print x", execution_id="one")
    result = await within(handle)
    waiting = asyncio.ensure_future((await place.running("hold")).result())
    await within(place.house.close())
    # Who waited has the end; who comes later is told where it is.
    assert (await within(waiting)).outcome is Outcome.RUNTIME_LOST
    for call in (handle.result(), handle.snapshot(), place.house.get_execution(result.execution)):
        with pytest.raises(Unavailable) as refused:
            await call
        assert refused.value.reason == CallReason.SHUTTING_DOWN
    for read in (
        lambda: place.house.events(result.execution),
        lambda: place.house.read_text(result.execution, "stdout"),
        lambda: place.house.list_executions(place.session()),
    ):
        with pytest.raises(Unavailable):
            read()


async def test_a_house_must_be_open(tmp_path: Path) -> None:
    house = House(settings=settings(tmp_path / "state"))
    with pytest.raises(RuntimeError, match="async with"):
        await house.create_runtime()
    with pytest.raises(RuntimeError, match="async with"):
        await house.execute(ExecuteCodeRequest(code="1", runtime="runtimes/x"))
    await house.close()


async def test_one_that_cannot_be_opened_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "runtimes").touch()
    for _ in range(2):
        with pytest.raises(FileExistsError):
            async with House(settings=settings(tmp_path / "state")):
                pytest.fail("it has no place for runtimes")
    (tmp_path / "state" / "runtimes").unlink()
    async with House(settings=settings(tmp_path / "state")) as house:
        assert house.list_runtimes() == []


async def test_two_houses_on_one_directory(house: House) -> None:
    with pytest.raises(FailedPrecondition, match=f"is held by process {os.getpid()}") as refused:
        async with House(settings=settings(house.state_dir)):
            pytest.fail("the first one has it")
    assert refused.value.metadata["pid"] == str(os.getpid())
    await house.create_runtime()  # the first one has taken no harm
