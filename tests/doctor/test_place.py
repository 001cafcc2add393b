"""The directory that doctor works in: gone afterwards, and what a killed one left goes with the next."""

import fcntl
from pathlib import Path

import pytest

from cellhouse.doctor.place import DIRECTORY, LOCK, working_in


def _left_by_another(root: Path) -> Path:
    left = root / DIRECTORY / "tmpleft"
    (left / "walls" / "none" / "content").mkdir(parents=True)
    (left / "walls" / "none" / "content" / "file").write_text("of code that ran there")
    (left / LOCK).write_text("")
    return left


def test_it_is_new_held_and_gone_afterwards(tmp_path: Path) -> None:
    with working_in(tmp_path) as made:
        assert made.parent == tmp_path / DIRECTORY
        with (made / LOCK).open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (made / "walls" / "none").mkdir(parents=True)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_one_left_is_removed(tmp_path: Path) -> None:
    left = _left_by_another(tmp_path)
    with working_in(tmp_path):
        assert not left.exists()
    assert list(tmp_path.iterdir()) == []


def test_what_another_one_holds_is_left_alone(tmp_path: Path) -> None:
    left = _left_by_another(tmp_path)
    with (left / LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with working_in(tmp_path) as made:
            assert made != left
        assert (left / "walls" / "none" / "content" / "file").exists()


def test_a_place_that_can_not_be_made_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Not a directory"), working_in(tmp_path / "file"):
        pass
