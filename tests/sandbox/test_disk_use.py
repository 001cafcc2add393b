"""How much a directory takes: asked again where the program gives up under a change, and never guessed."""

from pathlib import Path

import pytest

from cellhouse.sandbox.limits import disk_use as measuring
from cellhouse.sandbox.limits.disk_use import TRIES, Unmeasurable, disk_use


def program(directory: Path, patch: pytest.MonkeyPatch, text: str) -> None:
    """In place of du."""
    (directory / "du").write_text(f"#!/bin/sh\n{text}\n")
    (directory / "du").chmod(0o755)
    patch.setattr(measuring, "PATH", f"{directory}:/usr/bin:/bin")


def test_what_is_there_counts(tmp_path: Path) -> None:
    before = disk_use(tmp_path)
    (tmp_path / "file").write_bytes(b"x" * 65_536)
    assert disk_use(tmp_path) - before >= 65_536


def test_one_that_gives_up_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails = f'echo x >> {tmp_path}/tries; [ "$(wc -l < {tmp_path}/tries)" -ge {TRIES} ] && printf "512\\t." || exit 1'
    program(tmp_path, monkeypatch, fails)
    assert disk_use(tmp_path) == 512
    assert (tmp_path / "tries").read_text().count("x") == TRIES


def test_one_that_never_says_is_told_with_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, monkeypatch, "echo 'du: it went away' >&2; exit 1")
    with pytest.raises(Unmeasurable, match="did not say, 5 times over: du: it went away"):
        disk_use(tmp_path)


def test_what_is_hidden_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, monkeypatch, f"echo x >> {tmp_path}/tries; echo 'du: a: Permission denied' >&2; echo 1")
    with pytest.raises(Unmeasurable, match="can't be looked into"):
        disk_use(tmp_path)
    assert (tmp_path / "tries").read_text() == "x\n"
