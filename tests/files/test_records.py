"""Record files: any prefix opens, damage costs only what follows it, the last record always finds room."""

import errno
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from cellhouse.files import (
    HEADER_BYTES,
    MAGIC,
    DiskFull,
    NotRecords,
    RecordReader,
    RecordWriter,
    read_records,
    valid_end,
)
from tests.files.support import fill, names

PAYLOADS = st.lists(st.binary(min_size=1, max_size=300), max_size=20)
FILES = settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def whole(payloads: list[bytes]) -> bytes:
    """A record file written out by hand: the format is a promise, so the test states it."""
    out = bytearray(b"CELLREC1")
    for payload in payloads:
        length = len(payload).to_bytes(4, "little")
        out += length + zlib.crc32(length + payload).to_bytes(4, "little") + payload
    return bytes(out)


def payloads_of(path: Path) -> list[bytes]:
    return [payload for _, payload in read_records(path, limit_bytes=1 << 30)]


def write(path: Path, payloads: list[bytes], *, reserve: int = 4_096) -> None:
    path.unlink(missing_ok=True)
    writer = RecordWriter.create(path, reserve=reserve)
    for payload in payloads:
        writer.append(payload)
    writer.close()


def append_until_full(writer: RecordWriter) -> list[bytes]:
    """Append until DiskFull, which must come; what was written."""
    done: list[bytes] = []
    for _ in range(100_000):
        try:
            writer.append(b"x" * 100)
        except DiskFull:
            return done
        done.append(b"x" * 100)
    raise AssertionError("the disk never got full")


@FILES
@given(PAYLOADS)
def test_the_format_is_as_stated(tmp_path: Path, payloads: list[bytes]) -> None:
    path = tmp_path / "log"
    write(path, payloads)
    assert path.read_bytes() == whole(payloads)
    assert payloads_of(path) == payloads


@FILES
@given(PAYLOADS, st.data())
def test_any_prefix_opens(tmp_path: Path, payloads: list[bytes], data: st.DataObject) -> None:
    content = whole(payloads)
    cut = data.draw(st.integers(0, len(content)))
    zeros = data.draw(st.integers(0, 5_000))
    path = tmp_path / "log"
    path.write_bytes(content[:cut] + bytes(zeros))
    expected: list[bytes] = []
    end = len(MAGIC)
    for payload in payloads:
        end += HEADER_BYTES + len(payload)
        # A cut inside zeros at the end of a record takes nothing away: the reserve is made of zeros too.
        if (content[:cut] + bytes(zeros))[:end] == content[:end]:
            expected.append(payload)
    assert payloads_of(path) == expected


@FILES
@given(PAYLOADS.filter(bool), st.data())
def test_damage_costs_only_what_follows_it(
    tmp_path: Path, payloads: list[bytes], data: st.DataObject
) -> None:
    content = bytearray(whole(payloads))
    at = data.draw(st.integers(0, len(content) - 1))
    junk = data.draw(st.binary(min_size=1, max_size=40))
    content[at : at + len(junk)] = junk
    path = tmp_path / "log"
    path.write_bytes(content)
    found = payloads_of(path)
    intact: list[bytes] = []
    end = len(MAGIC)
    for payload in payloads:
        end += HEADER_BYTES + len(payload)
        if end > at:
            break
        intact.append(payload)
    if at >= len(MAGIC):
        assert found[: len(intact)] == intact
    # What is read after the damage, if anything, was really written there.
    assert all(payload in payloads for payload in found[len(intact) :])


@FILES
@given(PAYLOADS, st.binary(max_size=200), st.binary(min_size=1, max_size=50))
def test_a_reopened_log_goes_on_behind_the_last_good_record(
    tmp_path: Path, payloads: list[bytes], junk: bytes, more: bytes
) -> None:
    path = tmp_path / "log"
    path.write_bytes(whole(payloads) + junk + bytes(100))
    kept = payloads_of(path)
    writer = RecordWriter.reopen(path, reserve=1_000)
    writer.append_final(more)
    writer.close()
    assert payloads_of(path) == [*kept, more]
    assert path.read_bytes() == whole([*kept, more])


@pytest.mark.parametrize("content", [b"", b"CELL", bytes(5_000), b"SQLite format 3\0" + bytes(100)])
def test_what_is_no_record_file_holds_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    assert read_records(path) == []
    with pytest.raises(NotRecords):
        RecordWriter.reopen(path)
    assert path.read_bytes() == content


def test_a_forged_length_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for length in (0xFFFFFFFF, 64 << 20, (64 << 20) + 1):
        path.write_bytes(MAGIC + length.to_bytes(4, "little") + bytes(400))
        assert read_records(path) == []


def test_reading_is_bounded_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "log"
    payloads = [bytes([number]) * 1_000 for number in range(1, 100)]
    write(path, payloads)
    found: list[bytes] = []
    offset = 0
    while page := read_records(path, offset, 2_500):
        assert len(page) <= 3
        found += [payload for _, payload in page]
        offset = page[-1][0] + HEADER_BYTES + len(page[-1][1])
    assert found == payloads
    # One record always comes, however small the limit.
    assert len(read_records(path, 0, 1)) == 1


def test_a_reader_stops_at_the_writers_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writer = RecordWriter.create(path)
    writer.append(b"one")
    end = writer.end
    writer.append(b"two")
    assert [payload for _, payload in RecordReader(writer.fd, end).records()] == [b"one"]
    assert valid_end(writer.fd) == writer.end
    writer.close()


def test_records_larger_than_the_reading_chunk(tmp_path: Path) -> None:
    path = tmp_path / "log"
    payloads = [b"a" * 300_000, b"b", b"c" * 1_000_000, b"d" * 262_144]
    write(path, payloads)
    assert payloads_of(path) == payloads


@pytest.mark.parametrize("payload", [b"", bytes((64 << 20) + 1)])
def test_a_record_has_a_size_that_can_be_read_back(tmp_path: Path, payload: bytes) -> None:
    writer = RecordWriter.create(tmp_path / "log")
    with pytest.raises(ValueError, match="a record has 1 to"):
        writer.append(payload)
    writer.close()


def test_the_reserve_is_held_while_open_and_given_back(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writer = RecordWriter.create(path, reserve=64 << 10)
    writer.append(b"x" * 1_000)
    assert path.stat().st_size - writer.end >= 64 << 10
    assert path.stat().st_blocks * 512 >= 64 << 10
    writer.close()
    writer.close()
    assert path.stat().st_size == writer.end
    with pytest.raises(ValueError, match="closed"):
        writer.append(b"y")


def test_a_kept_reserve_serves_the_one_who_reopens(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writer = RecordWriter.create(path, reserve=64 << 10)
    writer.append(b"one")
    writer.close(keep_reserve=True)
    assert path.stat().st_size > 64 << 10
    again = RecordWriter.reopen(path, end=writer.end)
    again.append(b"two")
    again.close()
    assert payloads_of(path) == [b"one", b"two"]


def test_an_existing_file_is_not_made_anew(tmp_path: Path) -> None:
    write(tmp_path / "log", [b"one"])
    with pytest.raises(FileExistsError):
        RecordWriter.create(tmp_path / "log")
    assert payloads_of(tmp_path / "log") == [b"one"]


def test_a_full_disk_stops_appends_but_never_the_last_record(small_disk: Path) -> None:
    path = small_disk / "log"
    writer = RecordWriter.create(path, reserve=16 << 10)
    kept = [b"first"]
    writer.append(b"first")
    fill(small_disk)
    kept += append_until_full(writer)
    last = b"e" * ((16 << 10) - HEADER_BYTES)
    writer.append_final(last)
    writer.close()
    assert payloads_of(path) == [*kept, last]


def test_a_full_disk_lets_a_crashed_log_be_ended(small_disk: Path) -> None:
    path = small_disk / "log"
    writer = RecordWriter.create(path, reserve=16 << 10)
    writer.append(b"first")
    os.close(os.dup(writer.fd))
    writer.close(keep_reserve=True)  # as a crash would leave it
    fill(small_disk)
    again = RecordWriter.reopen(path, reserve=16 << 10)
    again.append_final(b"lost")
    again.close()
    assert payloads_of(path) == [b"first", b"lost"]


def test_no_room_to_begin_leaves_no_file(small_disk: Path) -> None:
    fill(small_disk)
    with pytest.raises(DiskFull, match="log"):
        RecordWriter.create(small_disk / "log")
    assert names(small_disk) == ["filler"]


def test_an_injected_enospc_is_disk_full_and_the_file_stays_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    writer = RecordWriter.create(path, reserve=8 << 10)
    writer.append(b"first")

    def refuse(fd: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", refuse)
        append_until_full(writer)
        before = payloads_of(path)
        writer.append_final(b"last")
    assert payloads_of(path) == [*before, b"last"]
    writer.append(b"room again")
    writer.close()
    assert payloads_of(path)[-2:] == [b"last", b"room again"]


@pytest.mark.parametrize("written", [0, 3, 8, 40, 199])
def test_a_write_that_breaks_off_leaves_no_forged_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """The torn record holds, at every place, bytes that would read as a record if it were ever looked at there."""
    path = tmp_path / "log"
    writer = RecordWriter.create(path, reserve=8 << 10)
    writer.append(b"first")
    forged = whole([b"forged"])[len(MAGIC) :]
    real: Callable[..., int] = os.pwrite
    calls = 0

    def torn(fd: int, data: Any, offset: int) -> int:
        nonlocal calls
        calls += 1
        if calls > 1 or written == 0:
            raise OSError(errno.EIO, "Input/output error")
        return real(fd, data[:written], offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", torn)
        with pytest.raises(OSError, match="Input/output"):
            writer.append(forged * 20)
    assert payloads_of(path) == [b"first"]
    # Shorter than what the torn write left, so that a forged record would come to stand right behind it.
    writer.append(forged[: len(forged) - HEADER_BYTES])
    assert payloads_of(path) == [b"first", forged[: len(forged) - HEADER_BYTES]]
    writer.close()
    assert path.stat().st_size == writer.end


def test_appending_to_something_else_than_a_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "real", [b"one"])
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(OSError, match="symbolic links"):
        RecordWriter.reopen(tmp_path / "link")


def test_a_pad_keeps_room_for_one_short_record(small_disk: Path) -> None:
    path = small_disk / "log"
    writer = RecordWriter.create(path, reserve=0, pad=32, first=(b"first", b"second"))
    assert payloads_of(path) == [b"first", b"second"]
    fill(small_disk)
    kept = append_until_full(writer)
    writer.append_final(b"m" * 24)
    with pytest.raises(DiskFull):
        writer.append_final(b"x" * 10_000)
    writer.close()
    assert payloads_of(path) == [b"first", b"second", *kept, b"m" * 24]
    assert path.stat().st_size == writer.end
