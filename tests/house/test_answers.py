"""What callers see when the machine fails below a house: errors of the contract; and what retention takes, soon."""

import errno
import sqlite3
from pathlib import Path

import pytest

from cellhouse import ExecuteCodeRequest, House, house as house_module
from cellhouse.files import DiskFull
from cellhouse.journal import ExecutionLog, Journal
from cellhouse.model import CallReason, CellhouseError, Internal, ResourceExhausted, Unavailable
from cellhouse.runtime import RuntimeStore
from tests.runtime.support import Clock, FakeWorld, Place, events_of, new_place, settings, until, within


def raising(error: Exception) -> object:
    def raise_it(*_: object, **__: object) -> None:
        raise error

    return raise_it


EIO = OSError(errno.EIO, "input/output error", "/secret/path")


@pytest.mark.parametrize(
    "error", [EIO, RuntimeError("we were wrong"), sqlite3.OperationalError("disk I/O error")]
)
async def test_our_failures_are_internal_and_have_an_id(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    handle = await place.start("print x")
    result = await within(handle)
    house = place.house
    with monkeypatch.context() as patch:
        for name in ("begin", "get", "list"):
            patch.setattr(Journal, name, raising(error))
        patch.setattr(RuntimeStore, "create", raising(error))
        failures: list[CellhouseError] = []
        for call in (
            lambda: place.start("print y"),
            lambda: house.create_runtime(),
            lambda: house.get_execution(result.execution),
            lambda: handle.snapshot(),
            lambda: handle.result(),
        ):
            with pytest.raises(Internal) as told:
                await within(call())
            failures.append(told.value)
        with pytest.raises(Internal) as told:
            house.list_executions(place.session())
        failures.append(told.value)
    for failure in failures:
        assert isinstance(failure, Internal)
        assert failure.error_id in caplog.text
        assert "secret" not in str(failure)
    assert (await place.run("print on")).stdout == "on\n"


async def test_an_event_that_cannot_be_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = await place.start("print x")
    await within(handle)
    monkeypatch.setattr(ExecutionLog, "read", raising(EIO))
    with pytest.raises(Internal):
        await events_of(handle)


async def test_a_full_disk_is_told_as_one(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RuntimeStore, "create", raising(DiskFull("/secret/path")))
    with pytest.raises(ResourceExhausted) as told:
        await house.create_runtime()
    assert (told.value.reason, told.value.http) == (CallReason.SERVER_DISK_FULL, 507)
    assert "secret" not in str(told.value)


async def test_a_house_that_was_closed_is_unavailable(place: Place) -> None:
    await within(place.house.close())
    for call in (
        place.house.create_runtime(),
        place.house.execute(ExecuteCodeRequest(code="1", runtime="runtimes/x")),
    ):
        with pytest.raises(Unavailable) as told:
            await call
        assert told.value.reason == CallReason.SHUTTING_DOWN


async def test_what_a_deleted_runtime_left_is_evicted_soon(
    fakes: FakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert house_module.EVICT_SECONDS <= 60
    monkeypatch.setattr(house_module, "EVICT_SECONDS", 0.01)
    async with House(settings=settings(tmp_path), clock=Clock()) as house:
        place = await new_place(house, fakes)
        await place.run("print x")
        place.kernel.print("of nobody", parent="nobody")
        await until(lambda: house.session_log(place.session()))
        logs = tmp_path / "sessions" / place.runtime.removeprefix("runtimes/")
        assert logs.exists()
        await within(house.delete_runtime(place.runtime))
        await until(lambda: not logs.exists())
