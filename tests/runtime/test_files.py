"""The files that an execution made: none, some, exactly named, whatever they are, and whose doing they are."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cellhouse import House
from cellhouse.artifacts import BoundStore, LocalStore, Scope
from cellhouse.files import HostileDir
from cellhouse.model import (
    Artifact,
    ArtifactEvent,
    ArtifactLimits,
    CaptureLimits,
    FailedPrecondition,
    NoticeReason,
)
from cellhouse.runtime.describing import INLINE_BYTES, time_of
from cellhouse.runtime.files import ContentFiles, Made
from tests.runtime.support import FakeWorld, Place, events_of, new_place, notices, settings, within

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


async def test_too_many_to_be_told_are_counted(fakes: FakeWorld, tmp_path: Path) -> None:
    async with House(settings=settings(tmp_path, capture=CaptureLimits(artifacts=3))) as house:
        place = await new_place(house, fakes)
        result = await place.run("\n".join(f"write {number}.txt x" for number in range(5)))
        assert result.artifacts is not None
        assert [each.name for each in result.artifacts] == ["0.txt", "1.txt", "2.txt"]
        omitted = result.artifacts_omitted
        assert omitted is not None
        assert (omitted.files, omitted.bytes, omitted.error_info.reason) == (2, 2, "TOO_MANY_FILES")
        assert omitted.error_info.metadata == {"limitFiles": "3"}
        assert notices(result) == [NoticeReason.FILES_NOT_LISTED]
        assert (await place.run("print x")).artifacts == ()


async def test_more_names_than_are_compared(fakes: FakeWorld, tmp_path: Path) -> None:
    async with House(settings=settings(tmp_path, capture=CaptureLimits(content_entries=3))) as house:
        place = await new_place(house, fakes)
        result = await place.run("\n".join(f"write {number}.txt x" for number in range(5)))
        assert 0 < len(result.artifacts or ()) <= 5
        assert notices(await place.run("write 9.txt x")) == [NoticeReason.FILES_NOT_LISTED]


async def test_a_directory_that_cannot_be_read_is_no_failure(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await place.running("write a.txt x\nprint x\nhold")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(HostileDir, "scan", refuse)
    monkeypatch.setattr(HostileDir, "stat", refuse)
    place.kernel.release.set()
    result = await within(running)
    assert (result.stdout, result.artifacts) == ("x\n", None)
    assert notices(result) == [NoticeReason.FILES_NOT_LISTED]
    # And the next one: it cannot even be looked at before.
    result = await place.run("print y")
    assert (result.stdout, result.artifacts) == ("y\n", None)
    assert notices(result) == [NoticeReason.FILES_NOT_LISTED]


# Whose doing it is


def told(result: Any) -> list[tuple[str, str | None]]:
    return [(each.name, each.attribution) for each in result.artifacts or ()]


async def test_what_happens_between_executions_is_told_as_background(place: Place) -> None:
    await place.run("write old.txt x")
    (place.sandbox.content / "between.txt").write_text("x")
    (place.sandbox.content / "old.txt").write_text("by nobody known")
    result = await place.run("write own.txt x")
    assert told(result) == [("between.txt", "background"), ("old.txt", "background"), ("own.txt", None)]
    assert told(await place.run("print x")) == []


async def test_what_it_changed_itself_too_is_its_own(place: Place) -> None:
    (place.sandbox.content / "a.txt").write_text("x")
    assert told(await place.run("write a.txt yy")) == [("a.txt", None)]


async def test_several_at_once_share_what_is_made_meanwhile(place: Place) -> None:
    first = await place.running("write own.txt x\nhold")
    second = await place.running("write both.txt x\nhold", "other")
    for kernel in place.launcher.made:
        kernel.release.set()
    results = [await within(first), await within(second)]
    assert ("own.txt", None) in told(results[0])
    assert ("both.txt", "shared") in told(results[0])
    assert told(results[1]) == [("both.txt", "shared")]


async def test_what_a_caller_puts_there_is_nobodys(house: House, place: Place) -> None:
    running = await place.running("hold")
    await house.put_file(place.runtime, "a/b.txt", [b"x"])
    await house.stage_inputs(place.runtime, {"c": b"x"})
    place.kernel.release.set()
    assert told(await within(running)) == []


async def test_what_was_made_and_is_gone_is_no_product(place: Place) -> None:
    running = await place.running("write a.txt x\nhold")
    await place.run("print x", "other")  # so that it is seen in between
    (place.sandbox.content / "a.txt").unlink()
    place.kernel.release.set()
    place.launcher.made[0].release.set()
    assert told(await within(running)) == []


# Minting


async def test_nothing_is_minted_unasked(place: Place) -> None:
    (artifact,) = (await place.run("write a.txt x")).artifacts or ()
    assert artifact.ref is None
    with pytest.raises(FailedPrecondition):
        await place.start("print x", mint=("*",))
    assert place.house.get_runtime(place.runtime).minting == "off"


async def test_all_is_minted(house: House, fakes: FakeWorld) -> None:
    place = await new_place(house, fakes, minting="all")
    result = await place.run("write a.txt hello\nwrite b.csv x,y")
    artifacts = result.artifacts or ()
    assert [each.name for each in artifacts] == ["a.txt", "b.csv"]
    for each, data in zip(artifacts, (b"hello", b"x,y"), strict=True):
        assert each.ref is not None
        async with await house.artifacts.get(each.ref) as reading:
            assert await reading.read() == data
            stored = reading.artifact
        assert (stored.sha256, stored.bytes, stored.media_type) == (each.sha256, each.bytes, each.media_type)
        assert (stored.label, stored.origin, stored.kind) == (each.name, result.execution, "file")
    await house.delete_runtime(place.runtime)
    assert artifacts[0].ref is not None
    assert (await house.artifacts.head(artifacts[0].ref)).bytes == 5


async def test_what_is_listed_is_minted(house: House, fakes: FakeWorld) -> None:
    place = await new_place(house, fakes, minting="listed", mint=("*.csv",))
    code = "write a.txt x\nwrite b.csv x\nwrite c.bin x"
    refs = {each.name: each.ref for each in (await place.run(code, mint=("c.*",))).artifacts or ()}
    assert [name for name, ref in refs.items() if ref] == ["b.csv", "c.bin"]
    refs = {each.name: each.ref for each in (await place.run(code)).artifacts or ()}
    assert [name for name, ref in refs.items() if ref] == ["b.csv"]


async def test_a_failure_to_mint_is_that_entrys_own(fakes: FakeWorld, tmp_path: Path) -> None:
    limits = ArtifactLimits(artifact_bytes=3)
    async with House(settings=settings(tmp_path, artifacts=limits)) as house:
        place = await new_place(house, fakes, minting="all")
        small, large = sorted(
            (await place.run("write a.txt x\nwrite b.txt large")).artifacts or (), key=lambda each: each.name
        )
        assert small.ref is not None
        assert small.error_info is None
        assert large.ref is None
        assert large.error_info is not None
        assert (large.error_info.reason, large.error_info.metadata["cause"]) == (
            "MINT_FAILED",
            "QUOTA_EXCEEDED",
        )
        assert large.sha256 == hashlib.sha256(b"large").hexdigest()


# Files themselves, however they are


@dataclass
class Rig:
    """The files of a runtime without one."""

    content: HostileDir
    files: ContentFiles
    directory: Path
    store: BoundStore

    async def made(self, work: Callable[[], object], **options: Any) -> Made:
        await self.files.begin("uid")
        work()
        return await self.files.end("uid", **options)


@pytest.fixture
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    options = getattr(request, "param", {})
    directory = tmp_path / "content"
    directory.mkdir()
    local = LocalStore(tmp_path / "store")
    store = BoundStore(local, Scope("tenant"))
    with closing(HostileDir.open(directory)) as content:
        limits = CaptureLimits(**options.get("limits", {}))
        files = ContentFiles(content, limits, artifacts=store, minting=options.get("minting", "off"))
        with closing(files):
            yield Rig(content, files, directory, store)
    await local.close()


async def one(rig: Rig, work: Callable[[], object]) -> Artifact:
    (artifact,) = (await rig.made(work)).artifacts
    return artifact


def reason(artifact: Artifact) -> str | None:
    return None if artifact.error_info is None else artifact.error_info.reason


async def test_names_are_exact(rig: Rig) -> None:
    names = {
        b"plain.txt": "plain.txt",
        "zß€😀.txt".encode(): "zß€😀.txt",
        "a\u0308.txt".encode(): "a\u0308.txt",
        "ä.txt".encode("latin-1"): "\\xe4.txt",
        "日本.txt".encode("shift_jis"): "\\x93\\xfa\\x96{.txt",
        "日本.txt".encode("utf-16-le").replace(b"\0", b"_"): None,
        b"two\nlines": "two\nlines",
        b"stray\xffbyte": "stray\\xffbyte",
        b"back\\slash": "back\\\\slash",
        b" spaces ": " spaces ",
        b"-rf": "-rf",
        b"\xed\xa0\x80": "\\xed\\xa0\\x80",
        "\u202etxt.exe".encode(): "\u202etxt.exe",
        b"deep/er/still.json": "deep/er/still.json",
        b"n" * 255: "n" * 255,
    }

    def make() -> None:
        for raw in names:
            path = os.path.join(os.fsencode(rig.directory), raw)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(raw)

    artifacts = (await rig.made(make)).artifacts
    assert {each for each in names.values() if each} <= {each.name for each in artifacts}
    assert len(artifacts) == len(names)
    digests = {hashlib.sha256(raw).hexdigest() for raw in names}
    assert {each.sha256 for each in artifacts} == digests
    for each in artifacts:
        assert Artifact.from_json(each.to_json()) == each


async def test_what_is_no_regular_file_is_told_as_what_it_is(rig: Rig) -> None:
    def make() -> None:
        (rig.directory / "link").symlink_to("/etc/passwd")
        os.mkfifo(rig.directory / "fifo")
        (rig.directory / "empty").mkdir()
        (rig.directory / "__pycache__").mkdir()
        (rig.directory / "__pycache__" / "x.pyc").touch()
        (rig.directory / "file").touch()

    told = {each.name: each for each in (await rig.made(make)).artifacts}
    assert list(told) == ["fifo", "file", "link"]
    for name, kind in (("fifo", "fifo"), ("link", "symbolic link")):
        info = told[name].error_info
        assert info is not None
        assert (info.reason, info.metadata) == ("NOT_A_FILE", {"kind": kind})
        assert (told[name].bytes, told[name].sha256) == (None, None)
    assert (told["file"].bytes, reason(told["file"])) == (0, None)


async def test_what_was_removed_is_not_told(rig: Rig) -> None:
    await rig.made((rig.directory / "old").touch)
    assert (await rig.made((rig.directory / "old").unlink)).artifacts == []


async def test_another_name_is_told_with_the_one_before(rig: Rig) -> None:
    await rig.made(lambda: (rig.directory / "old").write_text("x"))
    artifact = await one(rig, lambda: (rig.directory / "old").rename(rig.directory / "new"))
    assert (artifact.name, artifact.renamed_from) == ("new", "old")

    def make_and_rename() -> None:
        (rig.directory / "passing").write_text("x")
        (rig.directory / "passing").rename(rig.directory / "final")

    artifact = await one(rig, make_and_rename)
    assert (artifact.name, artifact.renamed_from) == ("final", None)


async def test_large_ones_are_read_without_holding_anyone_up(rig: Rig) -> None:
    data = b"x" * (INLINE_BYTES + 1)
    artifact = await one(rig, lambda: (rig.directory / "large").write_bytes(data))
    assert (artifact.bytes, artifact.sha256) == (len(data), hashlib.sha256(data).hexdigest())


def sparse(path: Path, size: int) -> None:
    path.touch()
    os.truncate(path, size)


async def test_a_sparse_file_of_5_gb_is_told_and_not_read(rig: Rig) -> None:
    artifact = await one(rig, lambda: sparse(rig.directory / "sparse", 5 << 30))
    assert (artifact.bytes, artifact.sha256) == (5 << 30, None)
    assert artifact.error_info is not None
    assert artifact.error_info.reason == "BYTE_LIMIT"
    assert artifact.error_info.metadata == {"leftBytes": str(256 << 20), "allocatedBytes": "0"}


@pytest.mark.parametrize("rig", [{"limits": {"artifact_bytes": 10}}], indirect=True)
async def test_past_the_byte_limit_files_are_told_with_the_reason(rig: Rig) -> None:
    def make() -> None:
        for name in "abc":
            (rig.directory / name).write_text("12345")

    artifacts = (await rig.made(make)).artifacts
    assert [(each.bytes, each.sha256 is not None, reason(each)) for each in artifacts] == [
        (5, True, None),
        (5, True, None),
        (5, False, "BYTE_LIMIT"),
    ]


@pytest.mark.parametrize("rig", [{"limits": {"artifact_seconds": 1e-9}}], indirect=True)
async def test_past_the_time_limit_too(rig: Rig) -> None:
    artifact = await one(rig, lambda: (rig.directory / "a").write_text("x"))
    assert (artifact.bytes, reason(artifact)) == (1, "TIME_LIMIT")


@pytest.mark.parametrize("minting", ["off", "all"])
async def test_one_that_grows_while_it_is_read(
    minting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "content").mkdir()
    path = tmp_path / "content" / "grows"
    local = LocalStore(tmp_path / "store")
    read, pread = os.read, os.pread

    def grow() -> None:
        with path.open("ab") as file:
            file.write(b"more")

    def growing_read(fd: int, size: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{fd}") == str(path):
            grow()
        return read(fd, size)

    def growing_pread(fd: int, size: int, offset: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{fd}") == str(path):
            grow()
        return pread(fd, size, offset)

    store = BoundStore(local, Scope("tenant"))
    with closing(HostileDir.open(tmp_path / "content")) as content:
        files = ContentFiles(content, CaptureLimits(), artifacts=store, minting=minting)  # type: ignore[arg-type]
        with closing(files):
            await files.begin("uid")
            path.write_bytes(b"x" * 100)
            monkeypatch.setattr(os, "read", growing_read)
            monkeypatch.setattr(os, "pread", growing_pread)
            (artifact,) = (await within(files.end("uid"))).artifacts
    assert (reason(artifact), artifact.sha256, artifact.ref) == ("FILE_CHANGES", None, None)
    assert artifact.bytes is not None
    assert artifact.bytes >= 100
    assert (await store.list()).artifacts == ()
    await local.close()


async def test_one_that_is_open_is_told_so(rig: Rig) -> None:
    def make() -> None:
        file.write("some of it")
        file.flush()

    with (rig.directory / "log").open("w") as file:
        artifact = await one(rig, make)
        assert (artifact.bytes, artifact.open) == (10, True)
    assert (await one(rig, lambda: (rig.directory / "log").write_text("all"))).open is None


async def test_gone_before_it_was_read(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = HostileDir.open_read

    def gone(self: HostileDir, rel: str | bytes) -> int:
        (rig.directory / "gone").unlink(missing_ok=True)
        return opened(self, rel)

    monkeypatch.setattr(HostileDir, "open_read", gone)
    artifact = await one(rig, lambda: (rig.directory / "gone").write_text("abc"))
    assert (artifact.name, artifact.bytes, artifact.sha256) == ("gone", 3, None)
    assert reason(artifact) == "FILE_GONE"


async def test_ten_thousand_files(rig: Rig) -> None:
    def make() -> None:
        for number in range(10_000):
            (rig.directory / f"{number:05}").write_text("x")

    made = await rig.made(make)
    assert len(made.artifacts) == 1_000
    assert made.omitted is not None
    assert (made.omitted.files, made.omitted.bytes, made.cut) == (9_000, 9_000, "")
    assert (await rig.made(lambda: None)).artifacts == []
    made = await rig.made(lambda: (rig.directory / "09999").write_text("yy"))
    assert [each.name for each in made.artifacts] == ["09999"]


async def test_executions_that_overlap_do_not_hold_each_other_up(rig: Rig) -> None:
    await asyncio.gather(*(rig.files.begin(f"{number}") for number in range(10)))
    (rig.directory / "a").write_text("x")
    made = await asyncio.gather(*(rig.files.end(f"{number}") for number in range(10)))
    assert [[each.attribution for each in one.artifacts] for one in made] == [["shared"]] * 10


def test_a_date_that_no_calendar_has_is_left_out() -> None:
    assert time_of(10**21) is None
    assert time_of(0) == "1970-01-01T00:00:00.000Z"
