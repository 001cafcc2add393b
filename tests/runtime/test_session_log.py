"""The log of a session: bounded, saying so, and readable whatever happened to it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cellhouse.messages import LongText, Message
from cellhouse.model import SystemClock
from cellhouse.runtime.late import LateRoutes
from cellhouse.runtime.session_log import (
    MAX_BYTES,
    MAX_TEXT,
    SessionLog,
    evict_session_logs,
    read_session_log,
)


def long_text(text: str) -> LongText:
    return LongText(memoryview(json.dumps(text).encode()[1:-1]))


@pytest.fixture
def log(tmp_path: Path) -> SessionLog:
    return SessionLog(tmp_path / "sessions" / "r" / "s.jsonl", SystemClock())


def test_entries_in_order(log: SessionLog) -> None:
    log.write("stdout", "ä€😀\n")
    log.write("died", "lone \ud800 surrogate")
    first, second = read_session_log(log.path)
    assert (first["kind"], first["text"]) == ("stdout", "ä€😀\n")
    assert first["time"].endswith("Z")
    assert second["text"] == "lone \\ud800 surrogate"
    assert (log.path.stat().st_mode & 0o777) == 0o600
    assert log.omitted_bytes == 0


def test_none_yet(tmp_path: Path) -> None:
    assert read_session_log(tmp_path / "none" / "s.jsonl") == []


def test_a_long_text_is_cut_and_says_so(log: SessionLog) -> None:
    log.write("stdout", "x" * (MAX_TEXT + 7))
    (entry,) = read_session_log(log.path)
    assert (len(entry["text"]), entry["omittedChars"]) == (MAX_TEXT, "7")


def test_what_was_left_out_before_counts_too(log: SessionLog) -> None:
    log.write("stdout", "x", omitted_chars=3)
    log.write("stdout", "x" * (MAX_TEXT + 1), omitted_chars=3)
    assert [entry["omittedChars"] for entry in read_session_log(log.path)] == ["3", "4"]


@pytest.mark.parametrize(
    ("msg_type", "content", "before"),
    [
        ("stream", {"name": "stdout", "text": "x" * 100_000}, ""),
        ("stream", {"name": "stdout", "text": long_text("x" * 100_000)}, ""),
        ("display_data", {"data": {"text/plain": long_text("x" * 100_000)}}, "text/plain: "),
        ("error", {"ename": "E", "evalue": long_text("x" * 100_000)}, "E: "),
        ("error", {"ename": "E", "evalue": "x" * 100_000}, "E: "),
    ],
)
def test_long_texts_of_nobody(log: SessionLog, msg_type: str, content: dict[str, Any], before: str) -> None:
    LateRoutes(log).feed(Message("iopub", msg_type, "m", "nobody", content, {}, (), 1))
    (entry,) = read_session_log(log.path)
    kept = len(entry["text"]) - len(before)
    assert entry["text"] == before + "x" * kept
    assert MAX_TEXT - 20 < kept <= MAX_TEXT
    assert int(entry["omittedChars"]) == 100_000 - kept


def test_a_long_log_ends_and_says_so(log: SessionLog) -> None:
    for _ in range(2 * MAX_BYTES // MAX_TEXT):
        log.write("stdout", "x" * MAX_TEXT)
    entries = read_session_log(log.path)
    assert [entry["kind"] for entry in entries].count("limit") == 1
    assert entries[-1]["kind"] == "limit"
    assert str(MAX_BYTES) in entries[-1]["text"]
    assert log.path.stat().st_size < MAX_BYTES + 1_000
    assert log.omitted_bytes > MAX_BYTES // 2
    # Whoever reads it learns how much that was.
    assert entries[-1]["omittedBytes"] == str(log.omitted_bytes)


def test_half_a_line_is_none(log: SessionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.write("stdout", "whole")
    write = os.pwrite
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda fd, data, at: write(fd, data[:5], at))
        log.write("stdout", "on a disk that has room for five bytes")
    assert log.omitted_bytes > 5
    log.write("stdout", "whole again")
    assert [entry["text"] for entry in read_session_log(log.path)] == ["whole", "whole again"]


@pytest.mark.parametrize("torn", [b'{"time": "2031', b"\xff\xfe", b"[]\n", b"3\n", b"\0" * 50])
def test_torn_lines_are_left_out(log: SessionLog, torn: bytes) -> None:
    log.write("stdout", "whole")
    with log.path.open("ab") as file:
        file.write(torn)
    assert [entry["text"] for entry in read_session_log(log.path)] == ["whole"]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "sessions").touch()
    log = SessionLog(tmp_path / "sessions" / "s.jsonl", SystemClock())
    log.write("stdout", "x")
    assert log.omitted_bytes > 0


def test_only_old_logs_of_unknown_runtimes_go(tmp_path: Path) -> None:
    directory = tmp_path / "sessions"
    evict_session_logs(directory, 0.0, [])
    for runtime in ("known", "old", "new"):
        SessionLog(directory / runtime / "s.jsonl", SystemClock()).write("stdout", "x")
    for runtime in ("known", "old"):
        os.utime(directory / runtime / "s.jsonl", (1_000, 1_000))
    evict_session_logs(directory, 2_000.0, ["known"])
    assert sorted(path.name for path in directory.iterdir()) == ["known", "new"]
