"""Whole texts: kept beside the record or in the events, paged by bytes of UTF-8 and cut at characters."""

import errno
import os
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from cellhouse.files import DiskFull
from cellhouse.journal import ExecutionLog, Journal
from cellhouse.journal.paging import page_of
from cellhouse.model import (
    CaptureLimits,
    ClearedEvent,
    ErrorEvent,
    ExecutionError,
    ResultEvent,
    StreamEvent,
)
from tests.journal.support import ManualClock, failed, ok, opened, start

Name = Literal["stdout", "stderr", "result", "traceback"]


def whole(log: ExecutionLog, name: Name, limit: int = 7) -> str:
    """Every page of a text, put together."""
    text, offset = "", 0
    while True:
        page = log.read_text(name, offset, limit)
        assert page.offset == offset
        assert page.next_offset == offset + len(page.text.encode())
        text, offset = text + page.text, page.next_offset
        if page.eof:
            assert page.total_bytes == offset
            return text
        assert page.text


@given(st.text(st.characters(codec="utf-8"), max_size=60), st.integers(1, 12), st.integers(-2, 300))
def test_pages_are_cut_at_characters(text: str, limit: int, offset: int) -> None:
    data = text.encode()

    def read(at: int, size: int) -> bytes:
        return data[at : at + size]

    page = page_of(read, offset, limit, len(data))
    assert "\ufffd" not in page.text or "\ufffd" in text
    assert data[page.offset : page.next_offset].decode() == page.text
    assert page.next_offset - page.offset <= max(limit, 4)
    assert page.offset <= max(0, min(offset, len(data))) <= page.offset + 3
    assert page.eof is (page.next_offset == len(data))
    assert page.text or page.offset == len(data)


@given(st.binary(max_size=40), st.integers(1, 9))
def test_bytes_that_are_no_utf8_never_stall_a_reader(data: bytes, limit: int) -> None:
    offset, steps = 0, 0
    while True:
        page = page_of(lambda at, size: data[at : at + size], offset, limit, len(data))
        assert page.next_offset > offset or page.eof
        offset = page.next_offset
        steps += 1
        if page.eof:
            break
    assert steps <= len(data) + 1


async def test_text_of_events_is_paged_by_stream(journal: Journal) -> None:
    log = await journal.begin(start())
    for number in range(20):
        log.append(StreamEvent(name="stdout", text=f"ö{number}\n"))
        log.append(StreamEvent(name="stderr", text="€"))
    expected = "".join(f"ö{number}\n" for number in range(20))
    assert whole(log, "stdout") == expected
    assert whole(log, "stderr") == "€" * 20
    log.finish(ok(log))
    assert whole(log, "stdout") == expected
    assert log.read_text("stdout", 1, 100).offset == 0
    assert log.read_text("stdout", 10_000, 100).text == ""


async def test_a_spilled_text_is_read_from_its_file(journal: Journal, directory: Path) -> None:
    log = await journal.begin(start())
    log.append(StreamEvent(name="stdout", text="ab"))
    spill = log.spill("stdout")
    assert spill.write(b"abcd") == 4
    assert log.spill("stdout") is spill
    assert spill.write("éf".encode()) == 3
    assert spill.bytes_kept == 7
    assert whole(log, "stdout") == "abcdéf"
    log.finish(ok(log))
    assert whole(log, "stdout") == "abcdéf"


async def test_events_win_where_they_have_more_than_the_file(journal: Journal) -> None:
    """The file stopped when its disk was full; the events went on."""
    log = await journal.begin(start())
    log.spill("stdout").write(b"abc")
    log.append(StreamEvent(name="stdout", text="abcdef"))
    assert whole(log, "stdout") == "abcdef"
    log.finish(ok(log))


async def test_the_spill_keeps_to_its_limit_over_all_texts(directory: Path, clock: ManualClock) -> None:
    async with opened(directory, clock, limits=CaptureLimits(spill_bytes=10)) as journal:
        log = await journal.begin(start())
        stdout, stderr = log.spill("stdout"), log.spill("stderr")
        assert stdout.limit == 10
        assert stdout.write(b"123456") == 6
        # Three bytes a character: what does not fit whole is not begun.
        assert stderr.write("€€".encode()) == 3
        assert stderr.write(b"x") == 1
        assert stdout.write(b"x") == 0
        assert log.disk_bytes > 10
        log.finish(ok(log))
        assert whole(log, "stderr") == "€x"


async def test_a_full_disk_leaves_a_spilled_text_as_it_was(
    journal: Journal, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await journal.begin(start())
    spill = log.spill("stdout")
    real = os.pwrite

    def short(fd: int, data: bytes, offset: int) -> int:
        if len(data) > 3:
            return real(fd, data[:3], offset)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", short)
        with pytest.raises(DiskFull):
            spill.write(b"abcdef")
    # A file that is there begins at the beginning of the text.
    assert list(directory.rglob("*.stdout")) == []
    assert spill.write(b"first") == 5
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", short)
        with pytest.raises(DiskFull):
            spill.write(b"abcdef")
    assert spill.bytes_kept == 5
    assert spill.write(b" second") == 7
    assert whole(log, "stdout") == "first second"
    log.finish(ok(log))


async def test_the_result_is_the_last_value(journal: Journal) -> None:
    log = await journal.begin(start())
    assert whole(log, "result") == ""
    log.append(ResultEvent(text="first"))
    log.append(ResultEvent(text="sécond"))
    assert whole(log, "result") == "sécond"
    spill = log.spill("result")
    spill.write(b"some value before")
    offset = spill.bytes_kept
    spill.write(b"the whole long value")
    log.append(ResultEvent(text="the wh…"))
    log.note("result", {"offset": offset, "sizeBytes": 20})
    assert whole(log, "result") == "the whole long value"
    log.append(ResultEvent(text="short again"))
    assert whole(log, "result") == "short again"
    log.append(ClearedEvent())
    assert whole(log, "result") == ""
    log.finish(ok(log))


async def test_the_traceback_is_the_results_own_or_the_first(journal: Journal) -> None:
    log = await journal.begin(start())
    log.append(ErrorEvent(name="E", value="v", traceback=("frame 1", "frame 2")))
    assert whole(log, "traceback") == "frame 1\nframe 2"
    log.finish(failed(log, ExecutionError(name="E", value="v", traceback=("other",))))
    assert whole(log, "traceback") == "other"
    spilled = await journal.begin(start())
    spilled.append(ErrorEvent(name="E", value="v", traceback=("cut",)))
    spilled.spill("traceback").write(b"the whole one")
    spilled.finish(ok(spilled))
    assert whole(spilled, "traceback") == "the whole one"


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), max_size=12), st.integers(1, 9)
)
async def test_any_text_comes_back_whole(journal: Journal, parts: list[str], limit: int) -> None:
    log = await journal.begin(start())
    for part in parts:
        log.append(StreamEvent(name="stdout", text=part))
    assert whole(log, "stdout", limit) == "".join(parts)
    log.finish(ok(log))
