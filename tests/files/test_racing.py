"""Every way to reach into a directory, while another process swaps what stands there for links to the outside."""

import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cellhouse.files import HostileDir, NotRegularFile, PathEscapes, beneath
from tests.files.racer import racing
from tests.files.support import descriptors, names

ROUNDS = 3_000
MOST_ROUNDS = 500_000
SECONDS = 20.0
REFUSALS = (PathEscapes, NotRegularFile, NotADirectoryError, FileNotFoundError, IsADirectoryError)


@pytest.fixture(params=["openat2", "walk"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "openat2" and not beneath.HAS_OPENAT2:
        pytest.skip("this kernel has no openat2")
    monkeypatch.setattr(beneath, "HAS_OPENAT2", request.param == "openat2")
    return str(request.param)


@pytest.fixture
def secret(tmp_path: Path) -> Iterator[Path]:
    """A directory outside; it must be afterwards what it was."""
    place = tmp_path / "secret"
    (place / "below").mkdir(parents=True)
    for path in (place / "key", place / "below" / "key"):
        path.write_text("precious")
        path.chmod(0o640)
    before = state(place)
    yield place
    assert state(place) == before


def state(place: Path) -> dict[str, tuple[int, int, int, int, bytes]]:
    found = {}
    for path in sorted([place, *place.rglob("*")]):
        seen = path.lstat()
        data = path.read_bytes() if stat.S_ISREG(seen.st_mode) else b""
        found[str(path)] = (seen.st_mode, seen.st_uid, seen.st_mtime_ns, seen.st_ino, data)
    return found


@pytest.fixture
def inside(tmp_path: Path, secret: Path) -> Path:
    """`dir` and `key` are what they seem; `dir-` and `key-` are links to the outside; `pipe` waits for a reader."""
    place = tmp_path / "inside"
    (place / "dir" / "below").mkdir(parents=True)
    (place / "dir" / "below" / "key").write_text("inside")
    (place / "dir" / "key").write_text("inside")
    (place / "key").write_text("inside")
    (place / "dir-").symlink_to(secret)
    (place / "key-").symlink_to(secret / "key")
    os.mkfifo(place / "pipe")
    return place


@pytest.fixture
def held(inside: Path) -> Iterator[HostileDir]:
    with HostileDir.open(inside, owner=(os.geteuid(), os.getegid())) as directory:
        yield directory


def read(held: HostileDir) -> object:
    data = held.read("dir/below/key", 100)
    assert data == b"inside"
    return data


def read_one(held: HostileDir) -> object:
    data = held.read("key", 100)
    assert data == b"inside"
    return data


def look(held: HostileDir) -> object:
    seen = held.stat("dir/below/key")
    assert seen.st_size == len("inside")
    return seen


def create(held: HostileDir) -> object:
    return held.create("dir/below/new", [b"new"])


def come_in(held: HostileDir) -> object:
    incoming = held.incoming("dir/below/come")
    try:
        incoming.write(b"new")
        return incoming.commit()
    finally:
        incoming.discard()


def make(held: HostileDir) -> object:
    with held.subdir("dir/made/deeper", create=True) as made:
        return made.create("file", [b"new"])


def unlink(held: HostileDir) -> object:
    held.create("dir/below/gone", [b"x"])
    held.unlink("dir/below/gone")
    return True


def scan(held: HostileDir) -> object:
    found = held.scan(1_000)
    assert all(entry.stat.st_size != len("precious") for entry in found.entries if entry.kind == "file")
    assert all(entry.kind != "symbolic link" or b"/" not in entry.path for entry in found.entries)
    return any(entry.name == "dir/below/key" for entry in found.entries) or None


WAYS = [read, read_one, look, create, come_in, make, unlink, scan]


def often(held: HostileDir, way: Callable[[HostileDir], object]) -> tuple[int, set[str]]:
    """Until it has both worked and been refused, and many times at all; how often it worked, and the refusals."""
    worked = 0
    refused: set[str] = set()
    deadline = time.monotonic() + SECONDS
    for rounds in range(MOST_ROUNDS):
        if rounds >= ROUNDS and worked and (refused or way is scan):
            return worked, refused
        assert time.monotonic() < deadline, (
            f"after {rounds} rounds: {worked} worked, {refused or 'none refused'}"
        )
        try:
            worked += way(held) is not None
        except REFUSALS as error:
            refused.add(type(error).__name__)
    raise AssertionError(f"of {MOST_ROUNDS}: {worked} worked, {refused or 'none refused'}")


@pytest.mark.parametrize("way", WAYS)
def test_nothing_outside_is_reached(
    how: str, held: HostileDir, inside: Path, way: Callable[[HostileDir], object]
) -> None:
    before = descriptors()
    with racing(inside, [("dir", "dir-"), ("key", "key-"), ("key", "pipe")]):
        worked, _ = often(held, way)
    assert worked
    assert descriptors() == before
    left = [name for name in names(inside) if name.endswith(".part")]
    assert left == []


def test_clearing_takes_nothing_outside(how: str, held: HostileDir, inside: Path) -> None:
    with racing(inside, [("dir", "dir-"), ("key", "key-"), ("dir", "pipe")]):
        for _ in range(1_000):
            try:
                held.clear(20)
            except (OSError, PathEscapes):
                continue
            if names(inside) == []:
                break
    held.clear()
    assert names(inside) == []


@pytest.mark.parametrize("name", ["dir/below/key", "key"])
def test_who_looks_where_a_name_leads_is_led_outside(inside: Path, secret: Path, name: str) -> None:
    """What all of this is for: by path, also after a look that found no link, the outside is read."""
    found = set()
    with racing(inside, [("dir", "dir-"), ("key", "key-")]):
        deadline = time.monotonic() + SECONDS
        while "precious" not in found and time.monotonic() < deadline:
            if not (inside / name.partition("/")[0]).is_symlink():
                found.add((inside / name).read_text())
    assert "precious" in found
