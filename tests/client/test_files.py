"""Files there and back: whole or not at all, checked, with progress, from whatever holds them."""

import asyncio
import base64
import hashlib
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellhouse.client import AsyncClient, ResponseError, TransportError
from cellhouse.model import FailedPrecondition, InvalidArgument, NotFound
from tests.client.proxy import proxied
from tests.client.scripted import answer, scripted
from tests.client.support import Door, client_of, listed, within
from tests.doors.support import opened
from tests.runtime.support import FakeWorld

DATA = bytes(range(256)) * 4_000
SHA = hashlib.sha256(DATA).hexdigest()


def digest_of(data: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(data).digest()).decode()}:"


async def awaited() -> AsyncIterator[bytes]:
    for start in range(0, len(DATA), 100_000):
        yield DATA[start : start + 100_000]


@pytest.mark.parametrize("kind", ["bytes", "bytearray", "path", "list", "iterator", "awaited"])
async def test_every_kind_of_source_arrives_whole_with_its_progress(
    client: AsyncClient, door: Door, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "source"
    path.write_bytes(DATA)
    pieces = [DATA[start : start + 70_000] for start in range(0, len(DATA), 70_000)]
    source: Any = {
        "bytes": DATA, "bytearray": bytearray(DATA), "path": path, "list": pieces, "iterator": iter(pieces),
        "awaited": awaited(),
    }[kind]  # fmt: skip
    told: list[tuple[int, int | None]] = []
    written = await within(
        client.upload(door.runtime, "d/ä b", source, progress=lambda *each: told.append(each))
    )
    assert (written.name, written.bytes, written.sha256) == ("d/ä b", len(DATA), SHA)
    total = len(DATA) if kind in ("bytes", "bytearray", "path") else None
    assert told[-1] == (len(DATA), total)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    target = tmp_path / "target"
    await within(client.download(door.runtime, "d/ä b", target))
    assert target.read_bytes() == DATA


async def test_an_empty_file_is_a_file(client: AsyncClient, door: Door, tmp_path: Path) -> None:
    assert await within(client.put_file(door.runtime, "none", b"")) == 0
    assert (await within(client.download(door.runtime, "none", tmp_path / "none"))).bytes == 0
    assert (tmp_path / "none").read_bytes() == b""
    assert await listed(client.open_file(door.runtime, "none")) == []


async def test_a_source_that_can_be_read_once_is_sent_once(door: Door) -> None:
    async with proxied(door.service.url, to_service=lambda: 50_000) as proxy:
        async with client_of(proxy.url) as client:
            with pytest.raises(TransportError, match="read only once") as caught:
                await within(client.upload(door.runtime, "x", iter([DATA])))
            assert caught.value.may_have_arrived
        assert proxy.connections == 1
    async with client_of(door.service.url) as client:
        with pytest.raises(NotFound):
            await within(client.download(door.runtime, "x", Path("unused")))
    assert not Path("unused").exists()


async def test_what_a_source_raises_is_raised_as_it_is_and_nothing_is_put_in_place(
    client: AsyncClient, door: Door, tmp_path: Path
) -> None:
    def broken() -> Iterator[bytes]:
        yield b"x" * 100_000
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await within(client.upload(door.runtime, "x", broken()))
    with pytest.raises(FileNotFoundError):
        await within(client.upload(door.runtime, "x", tmp_path / "none"))
    with pytest.raises(InvalidArgument, match="Path"):
        await within(client.upload(door.runtime, "x", "text"))  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        await listed(client.open_file(door.runtime, "x"))


@pytest.mark.parametrize("kind", ["bytes", "iterator", "path"])
async def test_a_file_above_the_services_limit_is_refused_in_its_own_words(
    fakes: FakeWorld, tmp_path: Path, kind: str
) -> None:
    """Also where the refusal comes while the file is still being sent."""
    data = b"x" * 20_000_000
    (tmp_path / "source").write_bytes(data)
    async with (
        opened(fakes, tmp_path / "state", file_bytes=1_000) as door,
        client_of(door.service.url) as client,
    ):
        await door.make()
        source: Any = {"bytes": data, "path": tmp_path / "source"}.get(kind, iter([data[:9_000]] * 2_000))
        with pytest.raises(InvalidArgument, match="file_bytes") as caught:
            await within(client.upload(door.runtime, "x", source))
    assert (caught.value.http, caught.value.reason) == (413, "BODY_TOO_LARGE")


async def test_something_else_arriving_than_was_sent_is_noticed(tmp_path: Path) -> None:
    other = answer({"name": "x", "bytes": "3", "sha256": "0" * 64})
    async with scripted(other) as service, client_of(service.url) as client:
        with pytest.raises(ResponseError) as caught:
            await within(client.upload("runtimes/here", "x", b"abc"))
    assert caught.value.reason == "DIGEST_MISMATCH"
    assert caught.value.metadata["sentSha256"] == hashlib.sha256(b"abc").hexdigest()


async def test_something_else_coming_than_was_announced_leaves_the_target_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("before")
    wrong = answer(b"abc", etag='"1"', repr_digest=digest_of(b"other"))
    for whole in (wrong, answer(b"abc", etag='"1"')):
        async with scripted(whole) as service, client_of(service.url) as client:
            with pytest.raises((FailedPrecondition, ResponseError)):
                await within(client.download("runtimes/here", "x", target))
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


async def test_a_target_that_cannot_be_written_is_the_systems_error(
    client: AsyncClient, door: Door, tmp_path: Path
) -> None:
    await within(client.put_file(door.runtime, "x", b"abc"))
    with pytest.raises(FileNotFoundError):
        await within(client.download(door.runtime, "x", tmp_path / "none" / "x"))
    (tmp_path / "directory").mkdir()
    with pytest.raises(IsADirectoryError):
        await within(client.download(door.runtime, "x", tmp_path / "directory"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["directory", "state"]


async def test_a_downloaded_file_has_the_rights_of_a_new_one(
    client: AsyncClient, door: Door, tmp_path: Path
) -> None:
    await within(client.put_file(door.runtime, "x", b"abc"))
    before = os.umask(0o027)
    try:
        await within(client.download(door.runtime, "x", tmp_path / "x"))
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


async def test_a_file_that_changes_between_two_parts_is_read_anew_or_refused(
    door: Door, client: AsyncClient, tmp_path: Path
) -> None:
    new = DATA[::-1]
    await within(client.put_file(door.runtime, "x", DATA))
    async with proxied(door.service.url) as proxy:
        for target in (tmp_path / "target", None):
            await within(client.put_file(door.runtime, "x", DATA))
            proxy._to_client = iter([300_000, None, None, None]).__next__
            replaced = False

            async def replace(seconds: float) -> None:
                nonlocal replaced
                if not replaced:
                    await client.put_file(door.runtime, "x", new)
                replaced = True

            async with client_of(proxy.url, sleep=replace) as cut:
                if target is not None:
                    told = await within(cut.download(door.runtime, "x", target))
                    assert target.read_bytes() == new
                    assert told.sha256 == hashlib.sha256(new).hexdigest()
                else:
                    with pytest.raises(FailedPrecondition) as caught:
                        await listed(cut.open_file(door.runtime, "x"))
                    assert caught.value.reason == "FILE_CHANGES"
            assert replaced


async def test_a_part_that_was_not_asked_for_is_refused(tmp_path: Path) -> None:
    first = answer(DATA, etag='"1"', repr_digest=digest_of(DATA))[:200_000]
    rest = answer(DATA[10:], "206 Partial", etag='"1"', content_range=f"bytes 10-{len(DATA) - 1}/{len(DATA)}")
    async with scripted(first, rest) as service, client_of(service.url) as client:
        with pytest.raises(ResponseError, match="another part"):
            await within(client.download("runtimes/here", "x", tmp_path / "x"))
    assert "if-range" in service.requests[1]
    assert list(tmp_path.iterdir()) == []


async def test_a_download_that_is_given_up_leaves_nothing(
    client: AsyncClient, door: Door, tmp_path: Path
) -> None:
    await within(client.put_file(door.runtime, "x", DATA * 20))
    begun = asyncio.Event()
    task = asyncio.ensure_future(
        client.download(door.runtime, "x", tmp_path / "x", progress=lambda *_: begun.set())
    )
    await within(begun.wait())
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
