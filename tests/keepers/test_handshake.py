"""Keepers of other versions: those that can be spoken to are, as recorded ones prove; of the others it is said."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cellhouse.environments import Environment
from cellhouse.keepers import KeptHouse, Template
from cellhouse.keepers.frames import PROTOCOL
from cellhouse.keepers.place import Place
from cellhouse.model import Unavailable
from tests.keepers.record import RECORDED, talk
from tests.keepers.support import run, settings, within

REPLAYER = Path(__file__).with_name("replayer.py")


@asynccontextmanager
async def replayed(state: Path, protocol: int, *hello: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A keeper of that protocol, or one that greets in its own way, as the keeper of `runtimes/here`."""
    state.mkdir(mode=0o700)
    place = Place(state, "here")
    place.make()
    recording = RECORDED / f"protocol-{protocol}.jsonl"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(REPLAYER),
        str(place.directory),
        str(recording),
        *hello,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert await within(process.stdout.readline()) == b"listening\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def test_every_protocol_up_to_this_one_was_recorded() -> None:
    assert sorted(path.name for path in RECORDED.iterdir()) == [
        f"protocol-{number}.jsonl" for number in range(1, PROTOCOL + 1)
    ]


@pytest.mark.parametrize("protocol", range(1, PROTOCOL + 1))
async def test_a_keeper_of_an_earlier_version_is_spoken_to(
    template: Template, environment: Environment, tmp_path: Path, protocol: int
) -> None:
    told = json.loads((RECORDED / f"protocol-{protocol}.jsonl").read_text().splitlines()[-1])["told"]
    state = tmp_path / "state"
    async with replayed(state, protocol) as keeper:
        async with KeptHouse(settings(state, environment), template=template) as house:
            assert await within(talk(house)) == told
            assert [runtime.name for runtime in await house.list_runtimes()] == ["runtimes/here"]
        assert await within(keeper.wait()) == 0


HELLO = {"protocol": 1, "oldest": 1, "build": "0.1.0", "runtime": "here", "pid": 1}


@pytest.mark.parametrize(
    ("hello", "says"),
    [
        ({**HELLO, "protocol": 99, "oldest": 99, "build": "9.9"}, "version '9.9' and speaks protocol 99"),
        ({**HELLO, "protocol": "one"}, "speaks protocol 'one'"),
        ({**HELLO, "runtime": "there"}, "says that it keeps 'there'"),
    ],
)
async def test_a_keeper_that_cant_be_spoken_to_is_named_and_goes_on(
    template: Template, environment: Environment, tmp_path: Path, hello: dict[str, object], says: str
) -> None:
    state = tmp_path / "state"
    async with replayed(state, PROTOCOL, json.dumps(hello)) as keeper:
        async with KeptHouse(settings(state, environment), template=template) as house:
            with pytest.raises(Unavailable, match=says):
                await house.get_runtime("runtimes/here")
            with pytest.raises(Unavailable, match=says):
                await house.create_runtime(runtime_id="here")
            await house.create_runtime(runtime_id="other")
            assert (await run(house, "1", "runtimes/other/sessions/s")).result == "1"
        assert keeper.returncode is None
