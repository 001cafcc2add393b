"""The store in a directory: what is on the disk, what another process does there, what is damaged."""

import asyncio
import hashlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellhouse.artifacts import LocalStore, Scope
from cellhouse.artifacts.local import INCOMING_SECONDS
from cellhouse.artifacts.testing import PIECE, TestClock
from cellhouse.files import disk_full_named
from cellhouse.model import ArtifactLimits, CallReason, Internal, ResourceExhausted

ME = Scope("tenant")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    made = LocalStore(tmp_path / "store")
    yield made
    await made.close()


def blob(directory: Path, ref: str) -> Path:
    return directory / "store" / "blobs" / ref[4:6] / ref


async def test_one_that_nobody_uses_costs_nothing(tmp_path: Path) -> None:
    unused = LocalStore(tmp_path / "store")
    assert await unused.evict() == ()
    await unused.close()
    await unused.close()
    assert list(tmp_path.iterdir()) == []


async def test_nobody_else_may_look(store: LocalStore, tmp_path: Path) -> None:
    made = await store.put(ME, b"x")
    assert (tmp_path / "store").stat().st_mode & 0o777 == 0o700
    assert blob(tmp_path, made.ref).stat().st_mode & 0o777 == 0o600


async def test_what_was_put_survives_its_store(store: LocalStore, tmp_path: Path) -> None:
    made = await store.put(ME, b"x", label="kept")
    await store.close()
    again = LocalStore(tmp_path / "store")
    assert await again.head(ME, made.ref) == made
    async with await again.get(ME, made.ref) as reading:
        assert await reading.read() == b"x"
    await again.close()


@pytest.mark.parametrize("whole", [True, False], ids=["all of it", "a part"])
async def test_other_bytes_are_never_handed_out_whole(store: LocalStore, tmp_path: Path, whole: bool) -> None:
    made = await store.put(ME, [PIECE] * 20)
    path = blob(tmp_path, made.ref)
    data = bytearray(path.read_bytes())
    data[7] ^= 1
    path.write_bytes(data)
    got: list[bytes] = []

    async def read() -> None:
        async with await store.get(ME, made.ref, end=None if whole else 5) as reading:
            async for piece in reading:
                got[len(got) :] = [piece]

    with pytest.raises(Internal) as refused:
        await read()
    assert refused.value.reason == CallReason.ARTIFACT_DAMAGED
    assert len(b"".join(got)) < (made.bytes if whole else 1)


@pytest.mark.parametrize("change", [b"", b"more"], ids=["shorter", "longer"])
async def test_a_file_of_another_length_is_damaged(store: LocalStore, tmp_path: Path, change: bytes) -> None:
    made = await store.put(ME, PIECE)
    path = blob(tmp_path, made.ref)
    path.write_bytes(PIECE + change if change else PIECE[:-1])
    with pytest.raises(Internal):
        async with await store.get(ME, made.ref) as reading:
            await reading.read()


async def test_a_part_is_verified_once(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await store.put(ME, [PIECE] * 20)
    reads: list[int] = []
    pread = os.pread

    def counted(fd: int, size: int, offset: int) -> bytes:
        reads.append(size)
        return pread(fd, size, offset)

    monkeypatch.setattr(os, "pread", counted)
    for _ in range(3):
        async with await store.get(ME, made.ref, start=5, end=10) as reading:
            assert await reading.read() == PIECE[5:10]
    assert reads.count(5) == 3
    assert sum(size > 5 for size in reads) == made.bytes // (1 << 20) + 2


async def test_a_full_disk_loses_nothing(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await store.put(ME, b"x")

    def full(fd: int, data: bytes) -> int:
        with disk_full_named("store"):
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("cellhouse.artifacts.local.write_all", full)
        with pytest.raises(ResourceExhausted) as refused:
            await store.put(ME, b"y")
    assert (refused.value.http, refused.value.reason) == (507, CallReason.SERVER_DISK_FULL)
    assert [each.ref for each in (await store.list(ME)).artifacts] == [made.ref]
    assert list((tmp_path / "store" / "incoming").iterdir()) == []


async def test_a_row_that_can_not_be_written_leaves_no_bytes(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.put(ME, b"x")

    def refuse(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("cellhouse.artifacts.catalogue.Catalogue.add", refuse)
    with pytest.raises(ResourceExhausted):
        await store.put(ME, b"y")
    assert len(list((tmp_path / "store" / "blobs").glob("*/*"))) == 1


async def test_what_a_dead_process_left_is_swept(store: LocalStore, tmp_path: Path) -> None:
    made = await store.put(ME, b"x")
    orphan, fresh = blob(tmp_path, "art_" + "0" * 22), blob(tmp_path, "art_" + "1" * 22)
    part = tmp_path / "store" / "incoming" / "left.part"
    for path in (orphan, fresh, part):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"left")
    for path in (orphan, part, blob(tmp_path, made.ref)):
        old = path.stat().st_mtime - 2 * INCOMING_SECONDS
        os.utime(path, (old, old))
    await store.evict()
    assert not orphan.exists()
    assert not part.exists()
    assert fresh.exists()
    async with await store.get(ME, made.ref) as reading:
        assert await reading.read() == b"x"


async def test_evicted_bytes_are_gone_from_the_disk(tmp_path: Path) -> None:
    small = LocalStore(tmp_path / "store", limits=ArtifactLimits(count=2), clock=TestClock())
    made = [await small.put(ME, b"%d" % number) for number in range(4)]
    await small.delete(ME, made[3].ref)
    assert [each.name for each in (tmp_path / "store" / "blobs").glob("*/*")] == [made[2].ref]
    await small.close()


PUTS = """
import asyncio, sys
from pathlib import Path
from cellhouse.artifacts import LocalStore, Scope

async def main():
    store = LocalStore(Path(sys.argv[1]))
    for number in range(25):
        await store.put(Scope("tenant"), b"%d" % number, label=sys.argv[2])
    await store.close()

asyncio.run(main())
"""


@pytest.mark.slow
async def test_several_processes_use_one_directory(store: LocalStore, tmp_path: Path) -> None:
    others = [
        subprocess.Popen([sys.executable, "-c", PUTS, str(tmp_path / "store"), name]) for name in ("a", "b")
    ]
    for number in range(25):
        await store.put(ME, b"%d" % number, label="c")
    codes = await asyncio.gather(*(asyncio.to_thread(other.wait, 60) for other in others))
    assert codes == [0, 0]
    found = (await store.list(ME, page_size=1_000)).artifacts
    assert sorted(each.label for each in found) == ["a"] * 25 + ["b"] * 25 + ["c"] * 25
    for each in found:
        async with await store.get(ME, each.ref) as reading:
            assert hashlib.sha256(await reading.read()).hexdigest() == each.sha256
