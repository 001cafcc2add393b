"""A journal on a full disk: nothing new is accepted, nothing that was recorded or runs is lost."""

import errno
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellhouse import House
from cellhouse.model import CallReason, NoticeReason, Outcome, ResourceExhausted
from tests.files.support import mounted_tmpfs
from tests.runtime.support import (
    FakeWorld,
    Place,
    events_of,
    kinds,
    new_place,
    notices,
    settings,
    within,
)


@pytest.fixture
async def small(fakes: FakeWorld, tmp_path: Path) -> AsyncIterator[Place]:
    """A runtime of a house whose journal has 4 MiB."""
    (tmp_path / "state").mkdir()
    with mounted_tmpfs(tmp_path / "state" / "journal", "4m"):
        async with House(settings=settings(tmp_path / "state")) as house:
            yield await new_place(house, fakes)
            await house.close()


def fill(place: Place) -> Path:
    """Take all room that is left, to the last byte."""
    path = place.house.state_dir / "journal" / "filler"
    size = 1 << 20
    with path.open("ab", buffering=0) as file:
        while size:
            try:
                file.write(b"x" * size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                size //= 2
    return path


async def test_nothing_new_is_accepted(small: Place) -> None:
    before = await small.run("print before", execution_id="before")
    filler = fill(small)
    for name in ("main", "new"):
        with pytest.raises(ResourceExhausted, match="the journal's disk is full") as refused:
            await small.start("print new", name, execution_id="new")
        error = refused.value
        assert (error.http, error.reason) == (507, CallReason.SERVER_DISK_FULL)
        assert (error.metadata["limit"], error.metadata["retryable"]) == ("journal disk", "true")
    assert [s.name for s in small.house.list_sessions(small.runtime)] == [small.session()]
    assert small.kernel.codes == ["print before"]
    # What is there can be read and attached to.
    assert await small.house.get_execution(before.execution) == before
    assert await small.run("print before", execution_id="before") == before
    filler.unlink()
    result = await small.run("print new", execution_id="new")
    assert (result.stdout, result.outcome) == ("new\n", Outcome.OK)


async def test_what_runs_ends_on_record(small: Place) -> None:
    handle = await small.running("print so far\nhold\n" + "\n".join(["print " + "x" * 999] * 100))
    queued = await small.start("print next")
    filler = fill(small)
    small.kernel.release.set()
    result = await within(handle)
    assert result.outcome is Outcome.OK
    assert NoticeReason.DISK_FULL in notices(result)
    assert result.stdout.startswith("so far\n")
    events = await events_of(handle)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert kinds(events)[-1] == "finished"
    # One that was accepted before runs, and ends on record too.
    assert (await within(queued)).outcome is Outcome.OK
    recorded = [await small.house.get_execution(str(each.name)) for each in (handle, queued)]
    filler.unlink()
    await small.house.close()
    async with House(settings=settings(small.house.state_dir)) as house:
        assert [await house.get_execution(str(each.name)) for each in (handle, queued)] == recorded
