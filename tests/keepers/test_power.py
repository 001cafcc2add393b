"""Power loss, disks that are full, clocks that go back, and what hundreds of crashes left: told, and survived."""

import contextlib
import json
import os
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from cellhouse.environments import Environment
from cellhouse.files import DiskFull
from cellhouse.keepers import KeptHouse, Template, place as places_of
from cellhouse.keepers.place import Place
from cellhouse.model import (
    CellhouseError,
    Event,
    FinishedEvent,
    NotFound,
    Outcome,
    ResourceExhausted,
    StreamEvent,
    SystemClock,
)
from tests.keepers.support import ended, keeper_pid, kill, printed, recorded, run, settings, start
from tests.keepers.test_deaths import service

CODE = """
import os, time
fd = os.open('ran', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(fd, b'{n}\\n')
for line in range(50): print('{n}', line, flush=True)
{rest}
"""
SLEEP = "time.sleep(600)"
LEFT = 300


async def ran_until_power_went(state: Path, environment: Environment) -> list[str]:
    """Names of executions that had ended, that ran, and that waited when everything died at once."""
    async with service(state, environment) as served:
        await served.ask(make="here")
        names = []
        for n, rest in enumerate(("", "", SLEEP, SLEEP, "")):
            session = f"runtimes/here/sessions/s{0 if n < 2 else 1 if n in (2, 4) else 2}"
            asked = await served.ask(run=CODE.format(n=n, rest=rest), session=session, id=f"e{n}")
            names.append(asked["name"])
        for n in (1, 2, 3):
            await served.ask(printed=names[n], text=f"{n} 49")
        directory = Place(state, "here").directory
        pid = places_of.holder(directory)
        assert pid is not None
        await served.kill()  # first: it would tidy up behind the other
        kill(pid)
        await ended(pid)
    return names


def lose_power(state: Path, random: Random) -> int:
    """Cut record files at random bytes, as a machine does that had not written them yet; how many were cut."""
    lock = Place(state, "here").directory / "journal" / "lock"
    told = json.loads(lock.read_bytes())
    lock.write_bytes(json.dumps({**told, "bootId": "another run of the machine"}).encode())
    cut = 0
    for path in sorted((lock.parent / "executions").rglob("*")):
        if path.is_file() and random.random() < 0.7:
            os.truncate(path, random.randrange(path.stat().st_size + 1))
            cut += 1
    return cut


async def recorded_if_there(house: KeptHouse, name: str) -> list[Event] | None:
    """None where its record was cut before its start: then it is known that there was one, or nothing at all."""
    with contextlib.suppress(NotFound):
        return await recorded(house, name)
    return None


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
async def test_after_power_loss_every_record_says_what_is_known(
    template: Template, environment: Environment, tmp_path: Path, seed: int
) -> None:
    state = tmp_path / "state"
    names = await ran_until_power_went(state, environment)
    lose_power(state, Random(seed))
    async with KeptHouse(settings(state, environment), template=template) as house:
        for n, name in enumerate(names):
            if (events := await recorded_if_there(house, name)) is None:
                continue
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            end = events[-1]
            assert isinstance(end, FinishedEvent)
            assert [type(event) for event in events].count(FinishedEvent) == 1
            text = "".join(event.text for event in events if isinstance(event, StreamEvent))
            assert "".join(f"{n} {line}\n" for line in range(50)).startswith(text)
            outcome = end.result.outcome
            assert outcome in (Outcome.OK, Outcome.RUNTIME_LOST)
            if outcome is Outcome.RUNTIME_LOST:
                # What is not on record may have run all the same, and nobody says otherwise.
                assert end.result.outcome_info is not None
                assert end.result.outcome_info.metadata["mayHaveRun"] == "true"
        assert (await house.census()).unfinished == 0
        # Whatever was lost, nothing runs again.
        for n, name in enumerate(names):
            session = name.rpartition("/executions/")[0]
            try:
                again = await start(house, CODE.format(n=n, rest=""), session, execution_id=f"e{n}")
            except CellhouseError:
                continue
            assert again.attached
        with house.open_content("runtimes/here") as content:
            assert sorted(content.read("ran", 1_000).split()) == [b"0", b"1", b"2", b"3"]


async def test_a_full_disk_refuses_a_runtime_and_harms_no_other(
    kept: KeptHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **options: object) -> None:
        raise DiskFull("keeper.json")

    with monkeypatch.context() as patch:
        patch.setattr(places_of, "write_atomic", full)
        with pytest.raises(ResourceExhausted) as refused:
            await kept.create_runtime(runtime_id="second")
    assert (refused.value.http, refused.value.reason) == (507, "SERVER_DISK_FULL")
    assert os.listdir(kept.state_dir / "keepers") == ["here"]
    assert (await run(kept, "1")).result == "1"
    await kept.create_runtime(runtime_id="second")


class JumpingClock(SystemClock):
    """The machine's own, which somebody sets back."""

    offset = timedelta()

    def now(self) -> datetime:
        return super().now() + self.offset


async def test_a_clock_that_is_set_back_loses_nothing(
    template: Template, environment: Environment, tmp_path: Path
) -> None:
    clock = JumpingClock()
    own = settings(tmp_path / "state", environment)
    async with KeptHouse(own, clock=clock, template=template) as house:
        await house.create_runtime(runtime_id="here")
        handle = await start(house, "import time; print('go', flush=True); time.sleep(600)")
        await printed(handle, "go")
        clock.offset = timedelta(days=-400)
        kill(keeper_pid(house))
        assert (await handle.result()).outcome is Outcome.RUNTIME_LOST
        await house._eviction.evict()
        assert len(await recorded(house, str(handle.name))) == 4
        clock.offset = timedelta(days=400)
        await house._eviction.evict()
        assert not (house.state_dir / "keepers" / "here").exists()


@pytest.mark.slow
async def test_a_crash_that_left_hundreds_is_put_in_order(
    template: Template, environment: Environment, tmp_path: Path
) -> None:
    own = settings(tmp_path / "state", environment)
    (tmp_path / "state").mkdir(mode=0o700)
    for number in range(LEFT):
        place = Place(own.state_dir, f"left-{number}")
        place.make()
        if number % 2:
            place.tell(own)
            place.bind().close()
    async with KeptHouse(own, template=template) as house:
        # It serves at once; what is left is looked through meanwhile.
        await house.create_runtime(runtime_id="here")
        assert (await run(house, "1")).result == "1"
        with pytest.raises(NotFound):
            await house.get_runtime(f"runtimes/left-{LEFT - 1}")
    over = [Place(own.state_dir, f"left-{number}").is_over for number in range(LEFT)]
    assert all(over)
