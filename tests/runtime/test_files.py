"""The files that an execution made: none, some, exactly named, or too many to be told."""

import hashlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cellhouse import House
from cellhouse.files import HostileDir
from cellhouse.model import Artifact, ArtifactEvent, CaptureLimits, NoticeReason
from cellhouse.runtime.files import HASH_BYTES, INLINE_BYTES, FileWatch, _time_of
from tests.runtime.support import FakeWorld, Place, events_of, new_place, notices, settings, within


@pytest.fixture
def content(tmp_path: Path) -> Iterator[HostileDir]:
    (tmp_path / "content").mkdir()
    with closing(HostileDir.open(tmp_path / "content")) as held:
        yield held


@pytest.fixture
def directory(content: HostileDir, tmp_path: Path) -> Path:
    return tmp_path / "content"


async def made(content: HostileDir, *, entries: int = 100) -> AsyncIterator[list[Artifact]]:
    """First to look, then what was made since."""
    watch = FileWatch(content, entries=entries)
    before = watch.look()
    yield []
    artifacts, cut = await watch.made_since(before)
    assert cut == ""
    yield artifacts


# Over a kernel


async def test_no_files_are_an_empty_list(place: Place) -> None:
    result = await place.run("print x")
    assert result.artifacts == ()
    assert result.to_wire()["artifacts"] == []


async def test_files_are_told_by_event_and_result(place: Place) -> None:
    handle = await place.start("write b.csv x,y\nwrite a.txt hello")
    result = await within(handle)
    assert result.artifacts is not None
    assert [(made.name, made.bytes, made.media_type) for made in result.artifacts] == [
        ("a.txt", 5, "text/plain"),
        ("b.csv", 3, "text/csv"),
    ]
    assert result.artifacts[0].sha256 == hashlib.sha256(b"hello").hexdigest()
    assert result.artifacts[0].mtime is not None
    assert result.artifacts[0].ref is None
    told = [event for event in await events_of(handle) if isinstance(event, ArtifactEvent)]
    assert [event.name for event in told] == ["a.txt", "b.csv"]


async def test_only_what_this_execution_made(place: Place) -> None:
    await place.house.put_file(place.runtime, "input.txt", [b"in"])
    await place.run("write first.txt 1")
    assert (await place.run("print x")).artifacts == ()
    result = await place.run("write first.txt 22")
    assert result.artifacts is not None
    assert [(made.name, made.bytes) for made in result.artifacts] == [("first.txt", 2)]


async def test_bundles_are_no_files_of_the_code(place: Place) -> None:
    assert (await place.run("display <b>")).artifacts == ()


async def test_too_many_to_be_told(fakes: FakeWorld, tmp_path: Path) -> None:
    async with House(settings=settings(tmp_path, capture=CaptureLimits(artifacts=3))) as house:
        place = await new_place(house, fakes)
        result = await place.run("\n".join(f"write {number}.txt x" for number in range(5)))
        assert result.artifacts is not None
        assert 0 < len(result.artifacts) <= 3
        assert notices(result) == [NoticeReason.FILES_NOT_LISTED]


async def test_a_directory_that_cannot_be_read_is_no_failure(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await place.running("print x\nhold")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(HostileDir, "scan", refuse)
    place.kernel.release.set()
    result = await within(running)
    assert (result.stdout, result.artifacts) == ("x\n", None)
    assert notices(result) == [NoticeReason.FILES_NOT_LISTED]
    # And the next one: it cannot even be looked at before.
    result = await place.run("print y")
    assert (result.stdout, result.artifacts) == ("y\n", None)
    assert notices(result) == [NoticeReason.FILES_NOT_LISTED]


# The watch itself


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b"plain.txt", "plain.txt"),
        ("zß€😀.txt".encode(), "zß€😀.txt"),
        (b"two\nlines", "two\nlines"),
        (b"stray\xffbyte", "stray\\xffbyte"),
        (b"back\\slash", "back\\\\slash"),
        (b" spaces ", " spaces "),
        (b"-rf", "-rf"),
        ("\u202etxt.exe".encode(), "\u202etxt.exe"),
        (b"deep/er/still.json", "deep/er/still.json"),
    ],
)
async def test_names_are_exact(content: HostileDir, directory: Path, raw: bytes, name: str) -> None:
    steps = made(content)
    await anext(steps)
    path = os.path.join(os.fsencode(directory), raw)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(b"x")
    (artifact,) = await anext(steps)
    assert (artifact.name, artifact.bytes) == (name, 1)
    assert Artifact.from_json(artifact.to_json()) == artifact


async def test_only_regular_files(content: HostileDir, directory: Path) -> None:
    steps = made(content)
    await anext(steps)
    (directory / "link").symlink_to("/etc/passwd")
    os.mkfifo(directory / "fifo")
    (directory / "empty").mkdir()
    (directory / "__pycache__").mkdir()
    (directory / "__pycache__" / "x.pyc").touch()
    (directory / "file").touch()
    assert [artifact.name for artifact in await anext(steps)] == ["file"]


async def test_what_was_removed_is_not_told(content: HostileDir, directory: Path) -> None:
    (directory / "old").touch()
    steps = made(content)
    await anext(steps)
    (directory / "old").unlink()
    assert await anext(steps) == []


async def test_replaced_by_another_of_the_same_size(content: HostileDir, directory: Path) -> None:
    (directory / "same").write_text("a")
    steps = made(content)
    await anext(steps)
    (directory / "new").write_text("b")
    (directory / "new").rename(directory / "same")
    assert [artifact.name for artifact in await anext(steps)] == ["same"]


async def test_large_ones_are_read_without_holding_anyone_up(content: HostileDir, directory: Path) -> None:
    steps = made(content)
    await anext(steps)
    data = b"x" * (INLINE_BYTES + 1)
    (directory / "large").write_bytes(data)
    (artifact,) = await anext(steps)
    assert (artifact.bytes, artifact.sha256) == (len(data), hashlib.sha256(data).hexdigest())


async def test_very_large_ones_have_no_digest(content: HostileDir, directory: Path) -> None:
    steps = made(content)
    await anext(steps)
    (directory / "sparse").touch()
    os.truncate(directory / "sparse", HASH_BYTES + 1)
    (artifact,) = await anext(steps)
    assert (artifact.bytes, artifact.sha256) == (HASH_BYTES + 1, None)


async def test_gone_before_it_was_read(
    content: HostileDir, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = made(content)
    await anext(steps)
    (directory / "gone").write_text("abc")
    scan = HostileDir.scan

    def scan_and_remove(self: HostileDir, limit: int, **more: object) -> object:
        found = scan(self, limit, **more)  # type: ignore[arg-type]
        (directory / "gone").unlink()
        return found

    monkeypatch.setattr(HostileDir, "scan", scan_and_remove)
    (artifact,) = await anext(steps)
    assert (artifact.name, artifact.bytes, artifact.sha256) == ("gone", 3, None)


def test_a_date_that_no_calendar_has_is_left_out() -> None:
    assert _time_of(10**21) is None
    assert _time_of(0) == "1970-01-01T00:00:00.000Z"
