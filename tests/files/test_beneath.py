"""Opening beneath a directory, by openat2 and by the walk that stands in for it."""

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cellhouse.files import PathEscapes, beneath
from tests.files.support import descriptors

Opener = Callable[[int, bytes, int], int]


@pytest.fixture(params=["openat2", "walk"])
def opener(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Opener:
    if request.param == "openat2" and not beneath.HAS_OPENAT2:
        pytest.skip("this kernel has no openat2")
    monkeypatch.setattr(beneath, "HAS_OPENAT2", request.param == "openat2")
    return beneath.open_beneath


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "in" / "a" / "b").mkdir(parents=True)
    (tmp_path / "in" / "a" / "b" / "file").write_text("inside")
    (tmp_path / "outside").write_text("outside")
    fd = os.open(tmp_path / "in", beneath.PATH_FLAGS)
    yield fd
    os.close(fd)


READ = os.O_RDONLY | beneath.SAFE_FLAGS


def test_a_nested_file_opens(opener: Opener, root: int) -> None:
    fd = opener(root, b"a/b/file", READ)
    assert os.read(fd, 10) == b"inside"
    assert not os.get_inheritable(fd)
    os.close(fd)


@pytest.mark.parametrize("path", [b"link", b"up/outside", b"a/link/file", b"a/b/self/file"])
def test_a_link_at_any_component_is_refused(opener: Opener, root: int, tmp_path: Path, path: bytes) -> None:
    inside = tmp_path / "in"
    (inside / "link").symlink_to(tmp_path / "outside")
    (inside / "up").symlink_to(tmp_path)
    (inside / "a" / "link").symlink_to("b")
    (inside / "a" / "b" / "self").symlink_to("/proc/self/root")
    with pytest.raises(PathEscapes, match="symbolic link"):
        opener(root, path, READ)


def test_a_link_itself_can_be_looked_at(opener: Opener, root: int, tmp_path: Path) -> None:
    (tmp_path / "in" / "link").symlink_to(tmp_path / "outside")
    fd = opener(root, b"link", beneath.PATH_FLAGS)
    assert os.readlink(b"", dir_fd=fd) == str(tmp_path / "outside").encode()
    os.close(fd)


def test_a_file_in_the_middle_is_no_directory(opener: Opener, root: int) -> None:
    with pytest.raises(NotADirectoryError):
        opener(root, b"a/b/file/c", READ)


def test_what_is_missing_is_missing(opener: Opener, root: int) -> None:
    with pytest.raises(FileNotFoundError):
        opener(root, b"a/nothing/c", READ)


def test_another_mount_is_refused(opener: Opener, root: int, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("outside")
    place = tmp_path / "in" / "a" / "b"
    # A bind mount: the same device, so that only the mount itself tells.
    if subprocess.run(["mount", "--bind", tmp_path / "elsewhere", place], capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        with pytest.raises(PathEscapes, match="another mount"):
            opener(root, b"a/b/file", READ)
    finally:
        subprocess.run(["umount", place], check=True)


def test_the_probe_takes_a_filters_eperm_for_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise OSError(errno.EPERM, "filtered")

    monkeypatch.setattr(beneath, "_openat2", refused)
    assert beneath._probe() is False


def test_no_descriptor_is_lost_on_failure(opener: Opener, root: int, tmp_path: Path) -> None:
    (tmp_path / "in" / "up").symlink_to(tmp_path)
    before = len(descriptors())
    for path in (b"up/outside", b"a/nothing", b"a/b/file/c"):
        with pytest.raises((PathEscapes, OSError)):
            opener(root, path, READ)
    assert len(descriptors()) == before
