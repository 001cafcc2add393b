"""The clients' artifacts and inputs, over a real service."""

import asyncio
import hashlib
from pathlib import Path

import pytest

from cellhouse.client import AsyncClient, Client
from cellhouse.model import InvalidArgument, NotFound
from tests.doors.support import Door

DATA = bytes(range(256)) * 5_000


async def test_there_and_back(client: AsyncClient, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(DATA)
    made = await client.artifacts.put(
        tmp_path / "source", media_type="text/csv", label="ß&=/ .csv", kind="table", ttl=60
    )
    assert (made.label, made.bytes, made.sha256) == (
        "ß&=/ .csv",
        len(DATA),
        hashlib.sha256(DATA).hexdigest(),
    )
    child = await client.artifacts.put([b"x"], parents=[made.ref])
    assert child.parents == (made.ref,)
    assert await client.artifacts.head(made.ref) == made
    assert b"".join([piece async for piece in client.artifacts.get(made.ref)]) == DATA
    written = await client.artifacts.download(made.ref, tmp_path / "target")
    assert ((tmp_path / "target").read_bytes(), written.sha256) == (DATA, made.sha256)
    listed = await client.artifacts.list(kind="table")
    assert [each.ref for each in listed.artifacts] == [made.ref]
    await client.artifacts.delete(made.ref)
    with pytest.raises(NotFound):
        await client.artifacts.head(made.ref)
    assert (await client.artifacts.evictions()).evictions == ()
    with pytest.raises(InvalidArgument):
        await client.artifacts.head("none")


async def test_inputs(client: AsyncClient, door: Door, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(DATA)
    made = await client.artifacts.put(b"stored")
    staged = await client.stage_inputs(
        door.runtime, {"a/../b": b"bytes", "c": tmp_path / "source", "d": made.ref}
    )
    assert [Path(path).read_bytes() for path in staged.values()] == [b"bytes", DATA, b"stored"]
    assert list(staged) == ["a/../b", "c", "d"]
    with pytest.raises(InvalidArgument):
        await client.stage_inputs(door.runtime, {"a": 1})  # type: ignore[dict-item]
    with pytest.raises(FileNotFoundError):
        await client.stage_inputs(door.runtime, {"a": tmp_path / "none"})


async def test_the_plain_client(door: Door, tmp_path: Path) -> None:
    def work() -> None:
        with Client(door.service.url) as client:
            made = client.artifacts.put(DATA)
            assert b"".join(client.artifacts.get(made.ref)) == DATA
            assert client.artifacts.head(made.ref) == made
            assert [each.ref for each in client.artifacts.list().artifacts] == [made.ref]
            assert client.artifacts.download(made.ref, tmp_path / "x").bytes == len(DATA)
            staged = client.stage_inputs(door.runtime, {"a": made.ref})
            assert Path(staged["a"]).read_bytes() == DATA
            client.artifacts.delete(made.ref)
            assert client.artifacts.evictions().evictions == ()

    await asyncio.to_thread(work)
