"""Files that come in by pieces: whole under their name or not at all."""

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from cellhouse.files import HostileDir


@pytest.fixture
def held(tmp_path: Path) -> Iterator[HostileDir]:
    with HostileDir.open(tmp_path) as directory:
        yield directory


def test_it_has_its_name_when_it_is_whole(held: HostileDir, tmp_path: Path) -> None:
    incoming = held.incoming("a.txt")
    incoming.write(b"one ")
    assert not (tmp_path / "a.txt").exists()
    incoming.write(b"two")
    written = incoming.commit()
    assert (tmp_path / "a.txt").read_bytes() == b"one two"
    assert (written.size, written.sha256) == (7, sha256(b"one two").hexdigest())
    incoming.discard()
    assert os.listdir(tmp_path) == ["a.txt"]


def test_what_is_discarded_leaves_what_was_there(held: HostileDir, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("before")
    incoming = held.incoming("a.txt")
    incoming.write(b"half")
    incoming.discard()
    incoming.discard()
    assert os.listdir(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "before"


def test_a_directory_of_that_name_stays(held: HostileDir, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    incoming = held.incoming("a")
    with pytest.raises(IsADirectoryError):
        incoming.commit()
    incoming.discard()
    assert os.listdir(tmp_path) == ["a"]


def test_it_is_discarded_though_the_code_took_its_passing_name_away(held: HostileDir, tmp_path: Path) -> None:
    incoming = held.incoming("a.txt")
    (passing,) = tmp_path.iterdir()
    passing.unlink()
    incoming.discard()
    assert os.listdir(tmp_path) == []
