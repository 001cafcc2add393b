"""Whole files at once: the old one or the new one, never a part, nothing left beside it."""

import os
import stat
from pathlib import Path

import pytest

from cellhouse.files import DiskFull, write_atomic
from tests.files.support import names


@pytest.mark.parametrize("durable", [False, True])
def test_the_file_is_replaced_whole(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "state"
    write_atomic(path, b"old", durable)
    write_atomic(path, b"new", durable)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(tmp_path) == ["state"]


def test_a_failure_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    write_atomic(path, b"old")

    def broken(fd: int, mode: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fchmod", broken)
    with pytest.raises(DiskFull, match="state"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["state"]


def test_a_full_disk_keeps_the_old_file(small_disk: Path) -> None:
    path = small_disk / "state"
    write_atomic(path, b"old")
    with pytest.raises(DiskFull):
        write_atomic(path, bytes(2 << 20))
    assert path.read_bytes() == b"old"
    assert names(small_disk) == ["state"]
