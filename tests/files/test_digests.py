"""The digest of a file is that of its bytes, whatever is a hole in it and however it is taken in."""

import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cellhouse.files import FileDigest

MIB = 1 << 20


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    opened = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield opened
    os.close(opened)


def taken(fd: int, most: int) -> FileDigest:
    digest = FileDigest(fd)
    while digest.advance(most):
        pass
    return digest


@pytest.mark.parametrize("most", [1_000, MIB, 64 * MIB])
@pytest.mark.parametrize(
    ("size", "written"),
    [
        (0, {}),
        (5, {0: b"hello"}),
        (3 * MIB + 7, {}),
        (5 * MIB, {0: b"head", 2 * MIB: b"middle" * 1_000, 5 * MIB - 3: b"end"}),
        (2 * MIB + 1, {MIB: os.urandom(MIB)}),
    ],
    ids=["empty", "short", "a hole", "holes between", "a hole at either end"],
)
def test_it_is_that_of_the_bytes(fd: int, size: int, written: dict[int, bytes], most: int) -> None:
    os.ftruncate(fd, size)
    for offset, data in written.items():
        os.pwrite(fd, data, offset)
    digest = taken(fd, most)
    assert digest.size == size
    assert digest.sha256 == hashlib.sha256(os.pread(fd, size + 1, 0)).hexdigest()


def test_holes_are_not_read(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    os.ftruncate(fd, 64 * MIB)
    os.pwrite(fd, b"x", 32 * MIB)
    read, pread = [0], os.pread

    def counted(fd: int, size: int, offset: int) -> bytes:
        data = pread(fd, size, offset)
        read[0] += len(data)
        return data

    monkeypatch.setattr(os, "pread", counted)
    assert taken(fd, MIB).size == 64 * MIB
    assert 0 < read[0] <= MIB


def test_a_file_system_that_tells_of_no_holes_is_read(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    os.ftruncate(fd, 2 * MIB)

    def refused(fd: int, offset: int, whence: int) -> int:
        raise OSError(errno.EINVAL, "no such thing here")

    monkeypatch.setattr(os, "lseek", refused)
    assert taken(fd, MIB).sha256 == hashlib.sha256(bytes(2 * MIB)).hexdigest()


def test_one_that_grows_for_ever_is_taken_in_no_farther_than_asked(fd: int) -> None:
    os.ftruncate(fd, 1 << 40)
    digest = FileDigest(fd)
    assert digest.advance(3 * MIB)
    assert digest.size == 3 * MIB
    os.ftruncate(fd, MIB)  # and shorter than what was taken in
    assert not digest.advance(MIB)
    assert digest.size == 3 * MIB
