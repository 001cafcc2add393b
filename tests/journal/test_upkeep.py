"""Keeping house: retention and tombstones, the index made anew, versions, one owner at a time."""

import os
import sqlite3
from pathlib import Path

import pytest

from cellhouse.files import RecordWriter
from cellhouse.journal import Entry, Journal, Tombstone, graveyard, rebuild_journal, verify_journal
from cellhouse.journal.check import Names
from cellhouse.model import (
    AlreadyExists,
    FailedPrecondition,
    LateEvent,
    NotFound,
    RetentionLimits,
    StreamEvent,
    SystemClock,
)
from tests.journal.support import RUNTIME, SESSION, ManualClock, crash, digest, ok, opened, record_file, start

DAY = 86_400.0


async def finished(journal: Journal, execution_id: str, text: str = "x", **options: str) -> str:
    """Put a whole execution on record; its name."""
    log = await journal.begin(start(execution_id, **options))  # type: ignore[arg-type]
    log.append(StreamEvent(name="stdout", text=text))
    log.finish(ok(log))
    return log.name


def tombstone(journal: Journal, execution_id: str, session: str = SESSION) -> Tombstone:
    found = journal.find(session=session, runtime=None, execution_id=execution_id)
    assert isinstance(found, Tombstone)
    return found


# Retention


async def test_old_records_go_and_are_told(directory: Path, clock: ManualClock) -> None:
    async with opened(directory, clock) as journal:
        old = await finished(journal, "old", code="old()")
        with_texts = await journal.begin(start("texts"))
        with_texts.spill("stdout").write(b"x" * 5_000)
        with_texts.finish(ok(with_texts))
        clock.advance(7 * DAY)
        young = await finished(journal, "young")
        assert await journal.evict() == []
        clock.advance(1)
        evicted = await journal.evict()
        assert [each.name for each in evicted] == [old, with_texts.name]
        assert [each.why for each in evicted] == ["AGE", "AGE"]
        assert evicted[0].when == "2026-01-09T03:04:06.000Z"
        assert evicted[1].bytes > 5_000
        assert list(directory.rglob(f"{with_texts.uid}*")) == []
        assert journal.get(old) is None
        assert journal.get(young) is not None
        assert journal.was_evicted(old)
        assert not journal.was_evicted(young)
        found = tombstone(journal, "old")
        assert (found.code_sha256, found.evicted, found.why) == (digest("old()"), evicted[0].when, "AGE")
        assert await journal.evict() == []
        assert (await journal.verify()).ok


async def test_the_oldest_go_first_where_there_are_too_many_bytes(
    directory: Path, clock: ManualClock
) -> None:
    async with opened(directory, clock, RetentionLimits(bytes=100_000)) as journal:
        names = []
        for number in range(10):
            names.append(await finished(journal, f"id-{number}", "x" * 20_000))
            clock.advance(1)
        evicted = await journal.evict()
        assert [each.name for each in evicted] == names[: len(evicted)]
        assert {each.why for each in evicted} == {"BYTES"}
        left = sum(path.stat().st_size for path in directory.rglob("*.rec") if path.parent.name != "journal")
        assert 60_000 < left <= 100_000


async def test_what_runs_is_never_evicted_but_counts(directory: Path, clock: ManualClock) -> None:
    async with opened(directory, clock, RetentionLimits(bytes=50_000, age_seconds=10)) as journal:
        running = await journal.begin(start("running"))
        for _ in range(10):
            running.append(StreamEvent(name="stdout", text="x" * 10_000))
        done = await finished(journal, "done")
        evicted = await journal.evict()
        assert [(each.name, each.why) for each in evicted] == [(done, "BYTES")]
        clock.advance(100)
        assert await journal.evict() == []
        assert len(running.read(0)) == 10
        running.finish(ok(running))
        assert [each.name for each in await journal.evict()] == [running.name]


async def test_late_output_counts(directory: Path, clock: ManualClock) -> None:
    async with opened(directory, clock, RetentionLimits(bytes=50_000)) as journal:
        log = await journal.begin(start())
        log.finish(ok(log))
        assert await journal.evict() == []
        log.append_late(LateEvent(name="stdout", text="x" * 60_000))
        assert [each.name for each in await journal.evict()] == [log.name]


async def test_many_are_evicted_in_one_go(directory: Path, clock: ManualClock) -> None:
    async with opened(directory, clock, RetentionLimits(age_seconds=10)) as journal:
        for number in range(450):
            await finished(journal, f"id-{number}")
        clock.advance(11)
        assert len(await journal.evict()) == 450
        assert list((directory / "executions").iterdir()) == []
        tombstone(journal, "id-449")


# Tombstones


async def test_an_evicted_id_never_runs_again(directory: Path, clock: ManualClock) -> None:
    session = f"{RUNTIME}/sessions/b"
    async with opened(directory, clock, RetentionLimits(age_seconds=10)) as journal:
        name = await finished(journal, "id", code="launch()")
        await finished(journal, "in-runtime", session=session, target="runtime")
        clock.advance(11)
        await journal.evict()
        with pytest.raises(AlreadyExists):
            await journal.begin(start("id"))

    def check(journal: Journal) -> None:
        assert tombstone(journal, "id").code_sha256 == digest("launch()")
        found = journal.find(session=None, runtime=RUNTIME, execution_id="in-runtime")
        assert isinstance(found, Tombstone)
        assert found == tombstone(journal, "in-runtime", session)
        assert journal.was_evicted(name)
        assert journal.get(name) is None

    async with opened(directory, clock) as journal:
        check(journal)
        await journal.rebuild()
        check(journal)
        assert (await journal.verify()).ok
    (directory / "index.sqlite").unlink()
    async with opened(directory, clock) as journal:
        check(journal)
        assert (await journal.verify()).ok
    (directory / "index.sqlite").write_bytes(b"this is no database" * 500)
    async with opened(directory, clock) as journal:
        check(journal)


async def test_tombstones_are_forgotten_after_thirty_days(directory: Path, clock: ManualClock) -> None:
    async with opened(directory, clock, RetentionLimits(age_seconds=10)) as journal:
        await finished(journal, "first")
        clock.advance(11)
        await journal.evict()
        clock.advance(15 * DAY)
        await finished(journal, "second")
        clock.advance(11)
        await journal.evict()
        clock.advance(15 * DAY)
        assert await journal.evict() == []
        assert journal.find(session=SESSION, runtime=None, execution_id="first") is None
        tombstone(journal, "second")
        assert (await journal.verify()).ok


async def test_only_so_many_tombstones_are_kept(
    directory: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graveyard, "_SLACK", 10)
    limits = RetentionLimits(age_seconds=10, tombstones=5)
    async with opened(directory, clock, limits) as journal:
        for number in range(40):
            await finished(journal, f"id-{number}")
            clock.advance(11)
            await journal.evict()
        sizes = (directory / "tombstones.rec").stat().st_size
        assert journal.find(session=SESSION, runtime=None, execution_id="id-34") is None
        tombstone(journal, "id-35")
        assert (await journal.verify()).ok
    # The file was written anew now and then, so it holds not all of them.
    assert sizes < 200_000
    async with opened(directory, clock, limits) as journal:
        tombstone(journal, "id-39")
        report = await journal.verify()
        assert report.ok
        assert 5 <= report.tombstones <= 20
        await journal.rebuild()
        tombstone(journal, "id-35")


async def test_an_eviction_that_broke_off_is_finished(directory: Path, clock: ManualClock) -> None:
    """Tombstone on disk, record still there: the owner died in between."""
    journal = await Journal.open(directory, clock=clock, retention=RetentionLimits(age_seconds=10))
    name = await finished(journal, "id")
    clock.advance(11)
    await journal._held.run(journal._index.flush)
    chosen = await journal._held.run(lambda: journal._retention.choose(0))
    await journal._held.run(lambda: journal._graveyard.add(chosen))
    await crash(journal)
    record_file(directory, chosen[0].uid)
    async with opened(directory, clock) as journal:
        assert journal.was_evicted(name)
        assert list(directory.rglob(f"{chosen[0].uid}*")) == []
        assert (await journal.verify()).ok


async def test_damage_in_the_tombstones_costs_only_what_follows(directory: Path, clock: ManualClock) -> None:
    async with opened(directory, clock, RetentionLimits(age_seconds=10)) as journal:
        for number in range(3):
            await finished(journal, f"id-{number}")
            clock.advance(11)
            await journal.evict()
    path = directory / "tombstones.rec"
    content = bytearray(path.read_bytes())
    content[-5] ^= 0xFF
    path.write_bytes(content)
    (directory / "index.sqlite").unlink()
    async with opened(directory, clock) as journal:
        tombstone(journal, "id-1")
        assert journal.find(session=SESSION, runtime=None, execution_id="id-2") is None


async def test_a_tombstone_of_a_later_version_does_not_hide_the_others(
    directory: Path, clock: ManualClock
) -> None:
    async with opened(directory, clock, RetentionLimits(age_seconds=10)) as journal:
        await finished(journal, "id")
        clock.advance(11)
        await journal.evict()
    writer = RecordWriter.reopen(directory / "tombstones.rec")
    writer.append(b"Zsomething new")
    writer.append(b'T{"half": 1}')
    writer.close()
    async with opened(directory, clock) as journal:
        await journal.rebuild()
        tombstone(journal, "id")


# The index


async def test_verify_names_every_difference_and_rebuild_mends_it(
    directory: Path, clock: ManualClock
) -> None:
    async with opened(directory, clock, RetentionLimits(age_seconds=100)) as journal:
        await finished(journal, "evicted")
        clock.advance(101)
        await journal.evict()
        names = [await finished(journal, f"id-{number}") for number in range(4)]
        running = await journal.begin(start("running"))
        await journal._held.run(journal._index.flush)
        assert (await journal.verify()).ok
        with sqlite3.connect(directory / "index.sqlite") as connection:
            connection.execute("DELETE FROM executions WHERE name = ?", (names[0],))
            connection.execute("UPDATE executions SET outcome = 'ERROR' WHERE name = ?", (names[1],))
            connection.execute("DELETE FROM tombstones")
        connection.close()
        entry = journal.find(session=SESSION, runtime=None, execution_id="id-2")
        assert isinstance(entry, Entry)
        record_file(directory, entry.uid).unlink()
        report = await journal.verify()
        assert (report.executions, report.unfinished) == (4, 1)
        assert report.missing.listed == [names[0]]
        assert report.different.listed == [names[1]]
        assert report.extra.listed == [names[2]]
        assert (report.tombstones, report.tombstones_missing, report.tombstones_extra) == (1, 1, 0)
        assert not report.index_ok
        changed = await journal.rebuild()
        assert changed.added.listed == [names[0]]
        assert changed.changed.listed == [names[1]]
        assert changed.removed.listed == [names[2]]
        assert changed.tombstones == 2
        assert (await journal.verify()).ok
        # Its record is gone, its id is not forgotten.
        assert tombstone(journal, "id-2").why == "RECORD_LOST"
        tombstone(journal, "evicted")
        running.finish(ok(running))
        assert (await journal.verify()).ok


async def test_a_closed_journal_can_be_verified_and_rebuilt(directory: Path, clock: ManualClock) -> None:
    async with opened(directory, clock) as journal:
        name = await finished(journal, "id")
        running = await journal.begin(start("running"))
        running.mark_sent()
    told = (directory / "lock").read_text()
    assert (await verify_journal(directory)).ok
    (directory / "index.sqlite").unlink()
    assert (await verify_journal(directory)).missing.count == 2
    assert (await rebuild_journal(directory, clock=SystemClock())).added.count == 2
    assert (await verify_journal(directory)).ok
    assert (directory / "lock").read_text() == told
    async with opened(directory, clock) as journal:
        assert journal.recovered == [running.name]
        assert journal.get(name) is not None


async def test_a_look_from_outside_needs_a_journal_that_nobody_holds(
    directory: Path, clock: ManualClock
) -> None:
    with pytest.raises(NotFound, match="holds no journal"):
        await verify_journal(directory)
    assert not directory.exists()
    async with opened(directory, clock):
        with pytest.raises(FailedPrecondition, match=f"process {os.getpid()}"):
            await verify_journal(directory)
        with pytest.raises(FailedPrecondition):
            await rebuild_journal(directory, clock=clock)


async def test_damage_is_reported(directory: Path, clock: ManualClock) -> None:
    async with opened(directory, clock) as journal:
        log = await journal.begin(start("id"))
        log.finish(ok(log))
        path = record_file(directory, log.uid)
        with open(path, "ab") as file:
            file.write(b"something that is no record")
        report = await journal.verify()
        assert report.damaged.listed == [log.name]
        assert not report.ok


def test_reports_list_only_so_many_names() -> None:
    names = Names()
    for number in range(1_500):
        names.add(str(number))
    assert (names.count, len(names.listed)) == (1_500, 1_000)


async def test_an_index_of_an_old_version_is_made_anew(directory: Path, clock: ManualClock) -> None:
    async with opened(directory, clock, RetentionLimits(age_seconds=100)) as journal:
        gone = await finished(journal, "gone")
        clock.advance(101)
        await journal.evict()
        name = await finished(journal, "id")
        running = await journal.begin(start("running"))
        running.mark_sent()
    (directory / "index.sqlite").unlink()
    with sqlite3.connect(directory / "index.sqlite") as connection:
        connection.executescript(
            """
            CREATE TABLE executions (name TEXT PRIMARY KEY, execution TEXT, hash BLOB, state INTEGER);
            CREATE TABLE tombstones (execution TEXT);
            INSERT INTO executions VALUES ('runtimes/r/sessions/s/executions/stale', 'stale', x'00', 3);
            """
        )
    connection.close()
    async with opened(directory, clock) as journal:
        assert journal.recovered == [running.name]
        assert journal.get(name) is not None
        assert journal.was_evicted(gone)
        assert journal.find(session=SESSION, runtime=None, execution_id="stale") is None
        assert (await journal.verify()).ok
    with sqlite3.connect(directory / "index.sqlite") as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()


async def test_an_index_of_a_later_version_is_refused_and_left_alone(
    directory: Path, clock: ManualClock
) -> None:
    async with opened(directory, clock) as journal:
        await finished(journal, "id")
    with sqlite3.connect(directory / "index.sqlite") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(FailedPrecondition, match="version 99"):
        await Journal.open(directory, clock=clock, retention=RetentionLimits())
    with sqlite3.connect(directory / "index.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM executions").fetchone() == (1,)
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    async with opened(directory, clock) as journal:
        assert len(journal.list(SESSION).entries) == 1


async def test_an_index_that_was_damaged_while_its_owner_died_is_made_anew(
    directory: Path, clock: ManualClock
) -> None:
    journal = await Journal.open(directory, clock=clock, retention=RetentionLimits())
    names = [await finished(journal, f"id-{number}") for number in range(50)]
    await journal._held.run(journal._index.flush)
    await crash(journal)
    path = directory / "index.sqlite"
    content = bytearray(path.read_bytes())
    for at in range(5_000, len(content), 97):
        content[at] ^= 0x5A
    path.write_bytes(content)
    async with opened(directory, clock) as journal:
        assert [entry.name for entry in journal.list(SESSION).entries] == names
        assert (await journal.verify()).ok


async def test_an_index_that_cannot_be_written_loses_nothing(
    directory: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(directory, clock) as journal:

        def broken(rows: object) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        with monkeypatch.context() as patch:
            patch.setattr(journal._index.tables, "put", broken)
            name = await finished(journal, "id")
            with pytest.raises(sqlite3.OperationalError):
                await journal.evict()
            assert isinstance(journal.find(session=SESSION, runtime=None, execution_id="id"), Entry)
        assert await journal.evict() == []
        assert journal._index.pending == 0
        assert journal.get(name) is not None


# Owners


async def test_a_second_owner_is_refused_and_told_who_the_first_is(
    directory: Path, clock: ManualClock
) -> None:
    async with opened(directory, clock) as journal:
        await finished(journal, "id")
        with pytest.raises(FailedPrecondition, match=f"held by process {os.getpid()}") as caught:
            await Journal.open(directory, clock=clock, retention=RetentionLimits())
        assert caught.value.metadata == {"pid": str(os.getpid())}
        # The one who was refused has harmed nothing.
        await finished(journal, "another")
    async with opened(directory, clock) as journal:
        assert len(journal.list(SESSION).entries) == 2


async def test_a_lock_without_words_still_holds(directory: Path, clock: ManualClock) -> None:
    async with opened(directory, clock):
        (directory / "lock").write_text("rubbish")
        with pytest.raises(FailedPrecondition, match="another process"):
            await Journal.open(directory, clock=clock, retention=RetentionLimits())
    async with opened(directory, clock):
        pass


async def test_a_look_that_failed_gives_the_directory_back(directory: Path, clock: ManualClock) -> None:
    directory.mkdir()
    (directory / "executions").write_text("no directory")
    for _ in range(2):
        with pytest.raises(FileExistsError):
            await Journal.open(directory, clock=clock, retention=RetentionLimits())
    (directory / "executions").unlink()
    async with opened(directory, clock):
        pass


# Durability


async def test_full_durability_waits_for_the_disk_before_the_code_is_sent(
    directory: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[str] = []
    real_data, real_all = os.fdatasync, os.fsync

    def data(fd: int) -> None:
        waited.append(Path(os.readlink(f"/proc/self/fd/{fd}")).suffix)
        real_data(fd)

    def everything(fd: int) -> None:
        waited.append("directory")
        real_all(fd)

    monkeypatch.setattr(os, "fdatasync", data)
    monkeypatch.setattr(os, "fsync", everything)
    async with opened(directory, clock, durability="full") as journal:
        log = await journal.begin(start("id"))
        assert waited == [".rec", "directory", "directory"]
        log.append(StreamEvent(name="stdout", text="x"))
        assert len(waited) == 3
        log.mark_sent()
        assert waited[3:] == [".rec"]
        log.finish(ok(log))
        assert waited[4:] == [".rec"]
    waited.clear()
    async with opened(directory, clock) as journal:
        log = await journal.begin(start("id-2"))
        log.mark_sent()
        log.finish(ok(log))
    assert waited == []


async def test_a_begin_whose_disk_fails_leaves_no_trace(
    directory: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(directory, clock, durability="full") as journal:

        def broken(fd: int) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", broken)
            with pytest.raises(OSError, match="Input/output"):
                await journal.begin(start("id"))
        assert journal.find(session=SESSION, runtime=None, execution_id="id") is None
        assert list(directory.rglob("*.rec")) == [directory / "tombstones.rec"]
        log = await journal.begin(start("id"))
        log.finish(ok(log))
        assert (await journal.verify()).ok
