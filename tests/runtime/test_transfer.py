"""Files of /content by pieces."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cellhouse.files import HostileDir, Incoming, Written
from cellhouse.model import CallReason, FailedPrecondition, InvalidArgument, NotFound
from cellhouse.runtime import transfer
from cellhouse.runtime.transfer import BLOCK, ContentFile, listing, receive
from tests.runtime.support import within


@pytest.fixture
def content(tmp_path: Path) -> Iterator[HostileDir]:
    (tmp_path / "content").mkdir()
    with closing(HostileDir.open(tmp_path / "content")) as held:
        yield held


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def commit(incoming: Incoming, path: str) -> Written:
    return incoming.commit()


async def test_pieces_of_any_size_become_one_file(content: HostileDir, tmp_path: Path) -> None:
    parts = [b"a", b"", b"b" * (3 * BLOCK), b"c" * 10]
    whole = b"".join(parts)
    written = await within(receive(content, "x/y", pieces(*parts), limit=len(whole), commit=commit))
    assert (written.size, written.sha256) == (len(whole), hashlib.sha256(whole).hexdigest())
    assert (tmp_path / "content" / "x" / "y").read_bytes() == whole


async def test_one_byte_too_many_and_nothing_is_there(content: HostileDir, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await within(receive(content, "x", pieces(b"1234", b"5"), limit=4, commit=commit))
    assert refused.value.reason == CallReason.BODY_TOO_LARGE
    assert os.listdir(tmp_path / "content") == []


async def test_who_is_cancelled_leaves_nothing(content: HostileDir, tmp_path: Path) -> None:
    came, never = asyncio.Event(), asyncio.Event()

    async def stuck() -> AsyncIterator[bytes]:
        yield b"x" * (2 * BLOCK)
        came.set()
        await never.wait()

    receiving = asyncio.ensure_future(receive(content, "x", stuck(), limit=1 << 30, commit=commit))
    await within(came.wait())
    receiving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within(receiving)
    assert os.listdir(tmp_path / "content") == []


async def test_a_file_is_read_as_it_was_opened(content: HostileDir, tmp_path: Path) -> None:
    path = tmp_path / "content" / "a"
    path.write_bytes(b"0123456789")
    with ContentFile.open(content, "a") as file:
        path.unlink()
        path.write_bytes(b"another")
        assert await file.read(2, 3) == b"234"
        assert await file.read(10, 3) == b""
        assert await file.sha256() == hashlib.sha256(b"0123456789").hexdigest()
        with ContentFile.open(content, "a") as other:
            assert other.version != file.version


async def test_a_file_that_grows_has_no_digest(content: HostileDir, tmp_path: Path) -> None:
    path = tmp_path / "content" / "a"
    path.write_bytes(b"1")
    with ContentFile.open(content, "a") as file:
        path.write_bytes(b"12")
        with pytest.raises(FailedPrecondition) as refused:
            await file.sha256()
    assert refused.value.reason == CallReason.FILE_CHANGES


def test_what_is_no_regular_file_is_not_opened(content: HostileDir, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "content" / "fifo")
    os.symlink("/etc/passwd", tmp_path / "content" / "link")
    for path in ("fifo", "link", "/etc/passwd", "../x", ""):
        with pytest.raises(InvalidArgument, match="path"):
            ContentFile.open(content, path)
    with pytest.raises(NotFound) as refused:
        ContentFile.open(content, "none")
    assert refused.value.reason == CallReason.NO_SUCH_FILE


def test_a_listing_says_what_it_leaves_out(
    content: HostileDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "content"
    (directory / ".dsm_outputs").mkdir()
    (directory / "a").mkdir()
    (directory / "a" / "b\udcff").write_text("x")
    listed = listing(content, "", recursive=True)
    assert [entry.name for entry in listed.files] == ["a", "a/b\\xff"]
    assert listed.incomplete is None
    assert listing(content, "a", recursive=False).files == listed.files[1:]
    monkeypatch.setattr(transfer, "LISTED", 1)
    assert listing(content, "", recursive=True).incomplete == ("entries",)
