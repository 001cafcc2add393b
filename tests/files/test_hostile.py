"""A hostile directory: nothing outside is touched, nothing waits, everything is bounded."""

import fcntl
import hashlib
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cellhouse.files import (
    DiskFull,
    FileBusy,
    FileTooLarge,
    HostileDir,
    HostilePath,
    NotRegularFile,
    PathEscapes,
    beneath,
)
from tests.files.support import descriptors, names


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    (tmp_path / "content").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("secret")
    return tmp_path / "content"


@pytest.fixture(params=["openat2", "walk"])
def held(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, inside: Path
) -> Iterator[HostileDir]:
    if request.param == "openat2" and not beneath.HAS_OPENAT2:
        pytest.skip("this kernel has no openat2")
    monkeypatch.setattr(beneath, "HAS_OPENAT2", request.param == "openat2")
    before = descriptors()
    with HostileDir.open(inside) as directory:
        yield directory
    assert descriptors() == before


def test_write_then_read(held: HostileDir, inside: Path) -> None:
    written = held.create("out.bin", [b"one ", memoryview(b"two")])
    assert (written.size, written.sha256) == (7, hashlib.sha256(b"one two").hexdigest())
    assert held.read("out.bin", 7) == b"one two"
    assert held.stat("out.bin").st_size == 7
    assert stat.S_IMODE(held.stat("out.bin").st_mode) == 0o644
    assert names(inside) == ["out.bin"]


def test_a_file_has_its_mode_whatever_the_umask(held: HostileDir) -> None:
    before = os.umask(0o077)
    try:
        held.create("a", [b"x"])
        held.create("b", [b"x"], mode=0o600)
    finally:
        os.umask(before)
    assert [stat.S_IMODE(held.stat(name).st_mode) for name in "ab"] == [0o644, 0o600]


def test_a_subdirectory_is_made_and_held(held: HostileDir, inside: Path) -> None:
    with held.subdir(".dsm_outputs/abc", create=True) as below:
        below.create("out-000.json", [b"{}"])
        # Held by its descriptor: a new name above it changes nothing.
        (inside / ".dsm_outputs").rename(inside / "moved")
        below.create("out-001.json", [b"{}"])
    assert names(inside / "moved" / "abc") == ["out-000.json", "out-001.json"]
    with held.subdir("moved", create=True) as again:
        assert again.stat("abc/out-000.json").st_size == 2


@pytest.mark.parametrize("path", ["../secret/key", "/etc/passwd", "a/../../secret/key", ""])
def test_a_path_that_leads_out_is_refused_everywhere(held: HostileDir, path: str) -> None:
    for call in (
        lambda: held.open_read(path),
        lambda: held.read(path, 10),
        lambda: held.stat(path),
        lambda: held.create(path, [b"x"]),
        lambda: held.unlink(path),
        lambda: held.subdir(path, create=True),
    ):
        with pytest.raises(HostilePath):
            call()


@pytest.mark.parametrize("path", ["link", "dir/key"])
def test_links_are_not_followed(held: HostileDir, inside: Path, tmp_path: Path, path: str) -> None:
    (inside / "link").symlink_to(tmp_path / "secret" / "key")
    (inside / "dir").symlink_to(tmp_path / "secret")
    with pytest.raises(PathEscapes):
        held.read(path, 100)
    with pytest.raises(PathEscapes):
        held.subdir("dir")
    with pytest.raises(PathEscapes):
        held.subdir("dir/below", create=True)
    with pytest.raises(PathEscapes):
        held.create("dir/new", [b"x"])
    assert stat.S_ISLNK(held.stat("link").st_mode)
    assert names(tmp_path / "secret") == ["key"]


def test_a_link_at_the_target_is_replaced_not_followed(
    held: HostileDir, inside: Path, tmp_path: Path
) -> None:
    (inside / "out").symlink_to(tmp_path / "secret" / "key")
    held.create("out", [b"new"])
    assert held.read("out", 10) == b"new"
    assert (tmp_path / "secret" / "key").read_text() == "secret"


def test_unlink_removes_the_link_itself(held: HostileDir, inside: Path, tmp_path: Path) -> None:
    (inside / "out").symlink_to(tmp_path / "secret" / "key")
    held.unlink("out")
    assert names(inside) == []
    assert (tmp_path / "secret" / "key").exists()
    with pytest.raises(FileNotFoundError):
        held.unlink("out")


def test_the_held_directory_itself_must_be_no_link(tmp_path: Path, inside: Path) -> None:
    (tmp_path / "alias").symlink_to(inside)
    with pytest.raises(PathEscapes):
        HostileDir.open(tmp_path / "alias")
    with pytest.raises(NotADirectoryError):
        HostileDir.open(tmp_path / "secret" / "key")


def test_a_fifo_is_neither_opened_nor_waited_for(held: HostileDir, inside: Path) -> None:
    os.mkfifo(inside / "pipe")
    # A writer that waits for a reader would be let go by the mere opening; it must not be.
    with pytest.raises(OSError, match="No such device"):
        os.open(inside / "pipe", os.O_WRONLY | os.O_NONBLOCK)
    with pytest.raises(NotRegularFile, match="fifo"):
        held.read("pipe", 10)
    held.create("pipe", [b"replaced"])
    assert held.read("pipe", 10) == b"replaced"


def test_a_socket_a_directory_and_a_device_are_not_opened(
    held: HostileDir, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (inside / "dir").mkdir()
    monkeypatch.chdir(inside)
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind("socket")
        with pytest.raises(NotRegularFile, match="socket"):
            held.open_read("socket")
    with pytest.raises(NotRegularFile, match="directory"):
        held.open_read("dir")
    if os.geteuid() == 0:
        os.mknod(inside / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        with pytest.raises(NotRegularFile, match="character device"):
            held.read("zero", 10)


def test_a_lease_makes_nobody_wait(held: HostileDir, inside: Path) -> None:
    (inside / "leased").write_text("x")
    fd = os.open(inside / "leased", os.O_RDWR)
    try:
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as error:
            pytest.skip(f"no lease can be had here: {error}")
        fcntl.fcntl(fd, fcntl.F_SETSIG, 28)  # SIGWINCH, which is ignored: the default would end us
        with pytest.raises(FileBusy):
            held.read("leased", 10)
    finally:
        os.close(fd)


def test_a_sparse_file_is_read_no_further_than_asked(held: HostileDir, inside: Path) -> None:
    with open(inside / "huge", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(FileTooLarge) as caught:
        held.read("huge", 1_000)
    assert (caught.value.size, caught.value.limit) == (1 << 40, 1_000)


def test_a_file_that_grows_while_it_is_read_stays_bounded(
    held: HostileDir, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (inside / "log").write_bytes(b"x" * 10)
    real = os.read

    def growing(fd: int, size: int) -> bytes:
        with open(inside / "log", "ab") as file:
            file.write(b"y" * 10)
        return real(fd, size)

    monkeypatch.setattr(os, "read", growing)
    with pytest.raises(FileTooLarge):
        held.read("log", 12)


@pytest.mark.parametrize("raw", [b"two\nlines", b"\xff\xfe.csv", b"back\\slash", b"\x1b[2J", b"-rf"])
def test_awkward_names_go_there_and_back(held: HostileDir, raw: bytes) -> None:
    held.create(raw, [b"data"])
    (entry,) = held.scan(10).entries
    assert entry.path == raw
    assert entry.name.isprintable()
    assert held.read(entry.name, 10) == b"data"
    held.unlink(entry.name)


def test_a_failed_write_leaves_nothing(held: HostileDir, inside: Path) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"some"
        raise RuntimeError("the source broke off")

    held.create("out", [b"old"])
    with pytest.raises(RuntimeError):
        held.create("out", chunks())
    assert names(inside) == ["out"]
    assert held.read("out", 10) == b"old"
    (inside / "dir").mkdir()
    with pytest.raises(IsADirectoryError):
        held.create("dir", [b"x"])
    with pytest.raises(FileNotFoundError):
        held.create("missing/out", [b"x"])
    assert names(inside) == ["dir", "out"]


def test_a_full_disk_is_named_and_leaves_nothing(small_disk: Path) -> None:
    with HostileDir.open(small_disk) as held:
        held.create("small", [b"kept"])
        with pytest.raises(DiskFull, match=r"big\.bin"):
            held.create("big.bin", [bytes(1 << 16)] * 32)
        assert names(small_disk) == ["small"]
        held.create("after", [bytes(1 << 16)] * 8)


def test_what_is_made_gets_its_owner(inside: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving files away needs root")
    with HostileDir.open(inside, owner=(1234, 5678)) as held:
        held.subdir("a/b", create=True).close()
        held.create("a/b/file", [b"x"])
    for path in ("a", "a/b", "a/b/file"):
        seen = (inside / path).lstat()
        assert (seen.st_uid, seen.st_gid) == (1234, 5678)


def test_a_component_swapped_during_writes_leads_nowhere(
    held: HostileDir, inside: Path, tmp_path: Path
) -> None:
    """A thread keeps turning the directory into a link to the outside and back while bundles are written."""
    secret = tmp_path / "secret"
    (inside / "real").mkdir()
    stop = threading.Event()
    swaps = 0

    def swap() -> None:
        nonlocal swaps
        while not stop.is_set():
            (inside / "real").rename(inside / "aside")
            (inside / "real").symlink_to(secret)
            (inside / "real").unlink()
            (inside / "aside").rename(inside / "real")
            swaps += 1

    swapper = threading.Thread(target=swap)
    swapper.start()
    outcomes: set[str] = set()
    try:
        for number in range(300_000):
            if number >= 3_000 and "written" in outcomes:
                break
            try:
                held.create(f"real/out-{number % 50}", [b"x" * 100])
                outcomes.add("written")
                assert held.read("real/key", 100) == b""  # never there: only the outside has it
            except (PathEscapes, FileNotFoundError, NotADirectoryError) as error:
                outcomes.add(type(error).__name__)
            for entry in held.scan(200).entries:
                assert b"key" not in entry.path
    finally:
        stop.set()
        swapper.join()
    assert swaps > 0
    assert "written" in outcomes
    assert names(secret) == ["key"]
    assert (secret / "key").read_text() == "secret"


def test_a_file_swapped_for_a_fifo_or_link_never_blocks_a_reader(
    held: HostileDir, inside: Path, tmp_path: Path
) -> None:
    stop = threading.Event()
    target = inside / "data"
    target.write_bytes(b"fine")

    def swap() -> None:
        while not stop.is_set():
            os.mkfifo(inside / "next")
            (inside / "next").rename(target)
            (inside / "next").symlink_to(tmp_path / "secret" / "key")
            (inside / "next").rename(target)
            (inside / "next").write_bytes(b"fine")
            (inside / "next").rename(target)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(3_000):
            try:
                assert held.read("data", 100) in (b"fine", b"")
            except (NotRegularFile, PathEscapes):
                continue
    finally:
        stop.set()
        swapper.join()


def deep_tree(top: Path, depth: int) -> None:
    """Directories `depth` deep, made the way hostile code makes them: one step at a time."""
    here = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir(b"d", dir_fd=here)
        below = os.open(b"d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open(b"bottom", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


# Deeper than Python may recurse and than one path may be long; the slow one is as deep as anybody has the patience for.
@pytest.mark.parametrize("deep", [2_500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_deep_tree_is_walked_to_a_bound_and_cleared(held: HostileDir, inside: Path, deep: int) -> None:
    try:
        deep_tree(inside, deep)
        for depth, reached in ((64, 64), (100_000, 256)):
            scan = held.scan(100_000, depth=depth)
            assert scan.cut == {"depth"}
            assert len(scan.entries) == reached
        assert held.scan(100_000).cut == {"depth"}
    finally:
        # Also where something failed: what tidies up after tests gives up on such a tree.
        assert held.clear() == deep + 1
    assert names(inside) == []


def test_clear_takes_links_fifos_and_closed_directories_but_nothing_outside(
    held: HostileDir, inside: Path, tmp_path: Path
) -> None:
    (inside / "a" / "b").mkdir(parents=True)
    (inside / "a" / "b" / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(inside / "a" / "pipe")
    (inside / "many").mkdir()
    for number in range(2_500):
        (inside / "many" / str(number)).touch()
    (inside / "a" / "b").chmod(0)
    held.clear()
    assert names(inside) == []
    assert names(tmp_path / "secret") == ["key"]


def test_a_scan_stops_at_its_limit_and_says_so(held: HostileDir, inside: Path) -> None:
    for number in range(30):
        (inside / f"f{number:02}").touch()
    assert held.scan(30).cut == frozenset()
    scan = held.scan(29)
    assert len(scan.entries) == 29
    assert scan.cut == {"entries"}


def test_a_scan_names_kinds_and_skips_what_it_is_told_to(
    held: HostileDir, inside: Path, tmp_path: Path
) -> None:
    (inside / "a" / "skipped").mkdir(parents=True)
    (inside / "a" / "skipped" / "x").touch()
    (inside / "a" / "file").touch()
    (inside / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(inside / "pipe")
    kinds = {entry.name: entry.kind for entry in held.scan(100, skip={b"skipped"}).entries}
    assert kinds == {"a": "directory", "a/file": "file", "link": "symbolic link", "pipe": "fifo"}


def test_a_closed_directory_says_so_and_an_unclosed_one_warns(inside: Path) -> None:
    held = HostileDir.open(inside)
    assert os.path.samestat(os.fstat(held.fileno()), inside.stat())
    held.close()
    held.close()
    with pytest.raises(ValueError, match="closed"):
        held.scan(1)
    held = HostileDir.open(inside)
    with pytest.warns(ResourceWarning, match="unclosed directory"):
        held.__del__()
