"""What a keeper that is a user of its own mints: there for who asks, whoever dies, and never on the keeper's word alone."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cellhouse.artifacts import LocalStore, Scope
from cellhouse.artifacts.handover import NOTE_BYTES, blob_path, is_sealed, mint_sealed, note_path
from cellhouse.artifacts.testing import TestClock
from cellhouse.environments import Environment
from cellhouse.keepers import AnyHouse, KeptHouse, Template
from cellhouse.keepers.adoption import Adoption
from cellhouse.keepers.place import Place
from cellhouse.keepers.store import KeptStore
from cellhouse.model import (
    ArtifactLimits,
    ExecuteCodeResult,
    NotFound,
    ResourceExhausted,
    RuntimeSpec,
    StoredArtifact,
    mint_artifact_id,
)
from cellhouse.runtime import Settings
from tests.keepers.support import SESSION, ended, keeper_pid, kill, run, settings, start, within
from tests.keepers.test_deaths import service

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only where the service is root keepers are others")

STRANGER = 54_321


def ref_of(result: ExecuteCodeResult) -> str:
    (made,) = result.artifacts or ()
    assert made.error_info is None, made
    assert made.ref is not None
    return made.ref


async def read(house: AnyHouse, ref: str) -> bytes:
    async with await house.artifacts.get(ref) as reading:
        return await reading.read()


async def test_it_is_there_at_once_and_after_the_runtime_is_deleted(
    template: Template, environment: Environment, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    async with KeptHouse(settings(state, environment), template=template) as house:
        await house.create_runtime(RuntimeSpec(minting="all"), runtime_id="here")
        assert keeper_pid(house) != os.getpid()
        first = ref_of(await run(house, "open('a.csv', 'w').write('a,b')", execution_id="e"))
        assert await read(house, first) == b"a,b"
        told = await house.artifacts.head(first)
        assert (told.kind, told.label, told.media_type) == ("file", "a.csv", "text/csv")
        assert told.origin == f"{SESSION}/executions/e"
        second = ref_of(await run(house, "open('b', 'w').write('listed')"))
        assert [each.ref for each in (await house.artifacts.list()).artifacts] == [second, first]
        third = ref_of(await run(house, "open('c', 'w').write('staged')"))
        assert await house.stage_inputs("runtimes/here", {"c": third})
        last = ref_of(await run(house, "open('d', 'w').write('outlives')"))
        await house.delete_runtime("runtimes/here")
        assert await read(house, last) == b"outlives"
        await house.artifacts.delete(last)
        with pytest.raises(NotFound):
            await house.artifacts.head(last)
        assert (await house.artifacts.evictions()).evictions == ()
        left = state / "keepers" / "here" / "artifacts"
        assert [path.name for path in left.rglob("art_*")] == []


async def test_what_a_recorded_result_names_is_there_whoever_was_killed(
    template: Template, environment: Environment, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    code = "print('so far', flush=True); open('a', 'w').write('{}')".format
    async with service(state, environment) as first:
        await first.ask(make="here", minting="all")
        name = (await first.ask(run=code("one"), session=SESSION, id="e"))["name"]
        await first.ask(printed=name, text="so far")
        await first.kill()
    async with KeptHouse(settings(state, environment), template=template) as house:
        handle = await start(house, code("one"), execution_id="e")
        one = ref_of(await within(handle.result()))
        assert await read(house, one) == b"one"
        two = ref_of(await run(house, code("two"), execution_id="f"))
        pid = keeper_pid(house)
        await house.leave()
    kill(pid)
    await ended(pid)
    async with KeptHouse(settings(state, environment), template=template) as house:
        assert ref_of(await house.get_execution(f"{SESSION}/executions/f")) == two
        assert await read(house, two) == b"two"
        assert [each.ref for each in (await house.artifacts.list()).artifacts] == [two, one]
        await house.create_runtime(RuntimeSpec(minting="all"), runtime_id="next")
        three = ref_of(await run(house, code("three"), session="runtimes/next/sessions/main"))
        pid = keeper_pid(house, "next")
        kill(pid)
        await ended(pid)
        assert await read(house, three) == b"three"


# Without keepers: the directory of one, and who adopts from it.


@dataclass
class Keeper:
    """What stands in for it: its place, and the store that it mints into."""

    place: Place
    minted: LocalStore

    @property
    def directory(self) -> Path:
        return self.place.directory / "artifacts"

    async def mint(self, data: bytes = b"minted") -> StoredArtifact:
        origin = f"runtimes/{self.place.runtime}/sessions/s/executions/e"
        made = await self.minted.put(Scope("its own word"), data, label="file", origin=origin)
        self.give()
        return made

    def give(self) -> None:
        for path in (self.directory, *self.directory.rglob("*")):
            if not path.is_symlink() and path.stat().st_nlink == 1 or path.is_dir():
                os.chown(path, STRANGER, STRANGER)

    def blob(self, ref: str) -> Path:
        return self.directory / blob_path(ref)

    def note(self, ref: str) -> Path:
        return self.directory / note_path(ref)


class Rig:
    def __init__(self, state: Path, limits: ArtifactLimits) -> None:
        self.settings = Settings(state_dir=state, artifacts=limits)
        self.scope = Scope(self.settings.tenant)
        self.own = LocalStore(state / "artifacts", limits=limits)
        self.stores = [self.own]
        self.tasks: set[asyncio.Task[None]] = set()
        self.adoption = Adoption(self.own, self.settings, TestClock(), self.begin)
        self.store = KeptStore(self.own, self.adoption)

    def begin(self, work, name):  # type: ignore[no-untyped-def]
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.tasks.add(task)
        return task

    def keeper(self, runtime: str) -> Keeper:
        place = Place(self.settings.state_dir, runtime)
        place.make()
        place.tell(self.settings)
        key = place.mint_key()
        assert key is not None
        self.stores.append(LocalStore(place.directory / "artifacts", handing_over=key))
        return Keeper(place, self.stores[-1])

    async def reasons(self) -> dict[str, str]:
        return {each.ref: each.reason for each in (await self.store.evictions(self.scope)).evictions}
