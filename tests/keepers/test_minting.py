"""What a keeper that is a user of its own mints: there for who asks, whoever dies, and never on the keeper's word alone."""

import asyncio
import errno
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    check_artifact_id,
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
        assert Place(state, "here").user() is not None
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


@pytest.mark.slow
async def test_it_is_there_after_its_keeper_was_killed_or_had_a_successor(
    template: Template, environment: Environment, tmp_path: Path
) -> None:
    minting = RuntimeSpec(minting="all")
    many = "for n in range(200): open(str(n), 'w').write(str(n))"
    async with KeptHouse(settings(tmp_path / "state", environment), template=template) as house:
        await house.create_runtime(minting, runtime_id="here")
        first = await run(house, many)
        await house.delete_runtime("runtimes/here")
        await house.create_runtime(minting, runtime_id="here")
        second = await run(house, many)
        pid = keeper_pid(house)
        kill(pid)
        await ended(pid)
        made = [*(first.artifacts or ()), *(second.artifacts or ())]
        for artifact in made:
            assert artifact.ref is not None
            assert await read(house, artifact.ref) == artifact.name.encode()
        listed = (await house.artifacts.list(page_size=1_000)).artifacts
        assert {each.ref for each in listed} == {each.ref for each in made}
        assert len(listed) == 400


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
            if (not path.is_symlink() and path.stat().st_nlink == 1) or path.is_dir():
                os.chown(path, STRANGER, STRANGER)

    def blob(self, ref: str) -> Path:
        return self.directory / blob_path(ref)

    def note(self, ref: str) -> Path:
        return self.directory / note_path(ref)


class Rig:
    def __init__(self, state: Path, limits: ArtifactLimits) -> None:
        self.settings = Settings(state_dir=state, artifacts=limits)
        self.scope, self.clock = Scope(self.settings.tenant), TestClock()
        self.own = LocalStore(state / "artifacts", limits=limits, clock=self.clock)
        self.stores = [self.own]
        self.adoption = Adoption(self.own, self.settings, self.clock, _begin)
        self.store = KeptStore(self.own, self.adoption)

    def keeper(self, runtime: str) -> Keeper:
        place = Place(self.settings.state_dir, runtime)
        place.make()
        place.tell(self.settings)
        key = place.mint_key()
        assert key is not None
        minted = LocalStore(place.directory / "artifacts", clock=self.clock, handing_over=key)
        self.stores.append(minted)
        return Keeper(place, minted)

    async def reasons(self) -> dict[str, str]:
        return {each.ref: each.reason for each in (await self.store.evictions(self.scope)).evictions}

    async def listed(self) -> set[str]:
        return {each.ref for each in (await self.store.list(self.scope)).artifacts}


def _begin(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work, name=name)


MakeRig = Callable[..., Rig]


@pytest.fixture
async def make_rig(tmp_path: Path) -> AsyncIterator[MakeRig]:
    made: list[Rig] = []

    def make(**limits: Any) -> Rig:
        made.append(Rig(tmp_path, ArtifactLimits(**limits)))
        return made[-1]

    yield make
    for rig in made:
        for store in rig.stores:
            await store.close()


SECRET = b"root's"


def rewrite(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)
    os.chown(path, STRANGER, STRANGER)


def hostile(what: str, keeper: Keeper, told: StoredArtifact, secret: Path) -> None:
    blob, note = keeper.blob(told.ref), keeper.note(told.ref)
    document = json.loads(note.read_bytes())
    match what:
        case "link":
            blob.unlink()
            blob.symlink_to(secret)
        case "hard link":
            blob.unlink()
            os.link(secret, blob)
        case "shelf is a link":
            shutil.rmtree(blob.parent)
            (secret.parent / told.ref).write_bytes(SECRET)
            blob.parent.symlink_to(secret.parent)
        case "fifo":
            blob.unlink()
            os.mkfifo(blob)
        case "directory":
            blob.unlink()
            blob.mkdir()
        case "gone":
            blob.unlink()
        case "other bytes":
            rewrite(blob, b"MINTED")
        case "longer" | "shorter":
            rewrite(blob, b"minted and more" if what == "longer" else b"mint")
        case "note is a link":
            note.unlink()
            note.symlink_to(secret)
        case "note is giant":
            rewrite(note, b" " * NOTE_BYTES + note.read_bytes())
        case "note is deep":
            rewrite(note, b"[" * NOTE_BYTES)
        case "note is of another":
            rewrite(note, json.dumps({**document, "ref": mint_artifact_id()}).encode())
        case "origin is another's":
            rewrite(note, json.dumps({**document, "origin": "runtimes/b/sessions/s/executions/e"}).encode())
        case "label is giant":
            rewrite(note, json.dumps({**document, "label": "x" * 2_000}).encode())
        case "type is none":
            rewrite(note, json.dumps({**document, "mediaType": "text/html\r\nX-Evil: 1"}).encode())
        case "no digest":
            rewrite(note, json.dumps({**document, "sha256": ""}).encode())
        case "bytes below none":
            rewrite(note, json.dumps({**document, "bytes": "-1"}).encode())
        case "too large":
            rewrite(note, json.dumps({**document, "bytes": str(1 << 50)}).encode())
        case "year 1":
            rewrite(note, json.dumps({**document, "createTime": "0001-01-01T00:00:00+14:00"}).encode())
        case "long ago":
            rewrite(note, json.dumps({**document, "createTime": "2001-01-01T00:00:00Z"}).encode())


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        *(
            (what, "DAMAGED")
            for what in (
                "link", "hard link", "shelf is a link", "fifo", "directory", "gone", "other bytes", "longer", "shorter"
            )
        ),
        *(
            (what, "INVALID")
            for what in (
                "note is a link", "note is giant", "note is deep", "note is of another", "origin is another's",
                "label is giant", "type is none", "no digest", "bytes below none", "year 1"
            )
        ),
        ("too large", "BYTES"),
        ("long ago", "AGE"),
    ],
)  # fmt: skip
async def test_what_is_not_what_it_says_is_refused_with_its_reason(
    make_rig: MakeRig, tmp_path: Path, what: str, reason: str
) -> None:
    secret = tmp_path / "elsewhere" / "secret"
    secret.parent.mkdir()
    secret.write_bytes(SECRET)
    rig = make_rig()
    keeper = rig.keeper("a")
    bad, good = await keeper.mint(), await keeper.mint(b"good")
    hostile(what, keeper, bad, secret)
    with pytest.raises(NotFound):
        await rig.store.get(rig.scope, bad.ref)
    assert await rig.listed() == {good.ref}
    assert await rig.reasons() == {bad.ref: reason}
    assert not os.path.lexists(keeper.note(bad.ref))
    assert secret.read_bytes() == SECRET
    async with await rig.store.get(rig.scope, good.ref) as reading:
        assert await reading.read() == b"good"
        assert reading.artifact == good


@pytest.mark.parametrize("what", ["directory", "notes"])
async def test_a_store_that_is_a_link_is_none(make_rig: MakeRig, tmp_path: Path, what: str) -> None:
    rig = make_rig()
    keeper = rig.keeper("a")
    made = await keeper.mint()
    keeper.note(mint_artifact_id()).mkdir()
    linked = keeper.directory if what == "directory" else keeper.directory / "notes"
    linked.rename(tmp_path / "elsewhere")
    linked.symlink_to(tmp_path / "elsewhere")
    before = sorted((tmp_path / "elsewhere").rglob("*"))
    with pytest.raises(NotFound):
        await rig.store.head(rig.scope, made.ref)
    assert await rig.listed() == set()
    assert sorted((tmp_path / "elsewhere").rglob("*")) == before


async def test_a_ref_that_is_another_s_can_not_be_handed_over(make_rig: MakeRig) -> None:
    rig = make_rig()
    mine, other = rig.keeper("a"), rig.keeper("b")
    put = await rig.store.put(rig.scope, b"the tenant's")
    minted = await mine.mint(b"a's")
    for stolen in (put.ref, minted.ref, mint_artifact_id()):
        forged = await other.mint(b"forged")
        document = json.loads(other.note(forged.ref).read_bytes())
        other.blob(stolen).parent.mkdir(exist_ok=True)
        other.blob(forged.ref).rename(other.blob(stolen))
        other.note(forged.ref).unlink()
        other.note(stolen).write_text(json.dumps({**document, "ref": stolen}))
    other.give()
    await rig.adoption.of(other.place)
    assert await rig.listed() == {put.ref, minted.ref}
    assert await rig.reasons() == {}
    for ref, data in ((put.ref, b"the tenant's"), (minted.ref, b"a's")):
        async with await rig.store.get(rig.scope, ref) as reading:
            assert await reading.read() == data


async def test_one_that_was_adopted_is_not_changed_by_its_keeper(make_rig: MakeRig) -> None:
    rig = make_rig()
    keeper = rig.keeper("a")
    made = await keeper.mint()
    note = keeper.note(made.ref).read_bytes()
    assert await rig.store.head(rig.scope, made.ref) == made
    keeper.note(made.ref).write_bytes(note)
    keeper.blob(made.ref).write_bytes(b"MINTED")
    keeper.give()
    assert await rig.listed() == {made.ref}
    async with await rig.store.get(rig.scope, made.ref) as reading:
        assert await reading.read() == b"minted"
    assert not keeper.note(made.ref).exists()


async def test_the_scope_is_the_tenant_s_and_retention_is_one(make_rig: MakeRig) -> None:
    rig = make_rig(count=2, age_seconds=100.0)
    keeper = rig.keeper("a")
    first = await rig.store.put(rig.scope, b"put")
    rig.clock.seconds = 10
    minted = [await keeper.mint(b"1"), await keeper.mint(b"2")]
    with pytest.raises(NotFound):
        await rig.store.head(Scope("its own word"), minted[0].ref)
    assert await rig.listed() == {each.ref for each in minted}
    assert await rig.reasons() == {first.ref: "COUNT"}
    assert [each.expire_time for each in minted] != [first.expire_time] * 2
    rig.clock.seconds = 111  # by the age that it had with its keeper
    assert {each.reason for each in await rig.store.evict()} == {"AGE"}


async def test_where_there_is_no_room_it_stays_until_there_is(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make_rig()
    keeper = rig.keeper("a")
    made = await keeper.mint()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr("cellhouse.artifacts.local.write_all", full)
        with pytest.raises(ResourceExhausted):
            await rig.store.head(rig.scope, made.ref)
        assert await rig.listed() == set()
        assert not await rig.adoption.of(keeper.place)
    assert await rig.listed() == {made.ref}


def test_a_sealed_ref_is_one_like_every_other() -> None:
    key, other = os.urandom(32), os.urandom(32)
    refs = {mint_sealed(key) for _ in range(1_000)}
    assert len(refs) == 1_000
    assert all(check_artifact_id(ref) == ref and is_sealed(ref, key) for ref in refs)
    assert not any(is_sealed(ref, other) or is_sealed(mint_artifact_id(), key) for ref in refs)
