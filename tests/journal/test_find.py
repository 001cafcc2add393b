"""Finding: exact and at once, by id and name, in sessions and runtimes, before and after the index is written."""

import asyncio
import base64
import threading
from pathlib import Path

import pytest

from cellhouse.journal import Entry, Journal, Tombstone, index
from cellhouse.model import (
    AlreadyExists,
    ExecutionState,
    InvalidArgument,
    Outcome,
    QueuedEvent,
    RetentionLimits,
)
from cellhouse.model.pages import token_after
from tests.files.support import descriptors
from tests.journal.support import RUNTIME, SESSION, ManualClock, digest, ok, opened, start


def by_id(journal: Journal, execution_id: str, session: str = SESSION) -> Entry | Tombstone | None:
    return journal.find(session=session, runtime=None, execution_id=execution_id)


async def test_an_execution_is_found_the_moment_it_begins(journal: Journal) -> None:
    assert by_id(journal, "one") is None
    log = await journal.begin(start("one", code="x = 1"))
    found = by_id(journal, "one")
    assert isinstance(found, Entry)
    assert (found.name, found.uid, found.code_sha256) == (log.name, log.uid, digest("x = 1"))
    assert found.state is ExecutionState.QUEUED
    log.mark_sent()
    found = by_id(journal, "one")
    assert isinstance(found, Entry)
    assert found.state is ExecutionState.RUNNING
    log.finish(ok(log))
    found = by_id(journal, "one")
    assert isinstance(found, Entry)
    assert (found.state, found.outcome) == (ExecutionState.FINISHED, Outcome.OK)
    assert found.ended
    assert found.bytes > 0


async def test_it_is_found_as_well_once_the_index_is_written(journal: Journal) -> None:
    log = await journal.begin(start("one"))
    await journal._held.run(journal._index.flush)
    assert journal._index.names_in_motion() == set()
    found = by_id(journal, "one")
    assert isinstance(found, Entry)
    assert found.state is ExecutionState.QUEUED
    log.finish(ok(log))
    await journal._held.run(journal._index.flush)
    after = by_id(journal, "one")
    assert isinstance(after, Entry)
    assert after.state is ExecutionState.FINISHED
    assert journal.get(log.name) is log


async def test_ids_belong_to_their_session_and_with_a_runtime_target_to_the_runtime(journal: Journal) -> None:
    in_session = await journal.begin(start("same", session=f"{RUNTIME}/sessions/a"))
    in_runtime = await journal.begin(start("same", session=f"{RUNTIME}/sessions/b", target="runtime"))
    other = await journal.begin(start("same", session="runtimes/other/sessions/a"))
    await_written = journal._held.run(journal._index.flush)

    def check() -> None:
        found = journal.find(session=f"{RUNTIME}/sessions/a", runtime=None, execution_id="same")
        assert isinstance(found, Entry)
        assert found.name == in_session.name
        found = journal.find(session=None, runtime=RUNTIME, execution_id="same")
        assert isinstance(found, Entry)
        assert found.name == in_runtime.name
        # The session that it got knows it too: its name there is taken.
        found = journal.find(session=f"{RUNTIME}/sessions/b", runtime=None, execution_id="same")
        assert isinstance(found, Entry)
        assert found.name == in_runtime.name
        assert journal.find(session=None, runtime="runtimes/other", execution_id="same") is None
        assert journal.find(session=f"{RUNTIME}/sessions/c", runtime=None, execution_id="same") is None

    check()
    await await_written
    check()
    for log in (in_session, in_runtime, other):
        log.finish(ok(log))


async def test_without_an_id_nothing_is_found_but_the_name_is(journal: Journal) -> None:
    log = await journal.begin(start())
    assert by_id(journal, "") is None
    assert journal.get(log.name) is log
    log.finish(ok(log))


async def test_a_taken_name_or_id_is_refused(journal: Journal) -> None:
    first = await journal.begin(start("one"))
    with pytest.raises(AlreadyExists):
        await journal.begin(start("one"))
    # The name of one that was begun without an id, too.
    second = await journal.begin(start(name="minted"))
    with pytest.raises(AlreadyExists):
        await journal.begin(start("minted"))
    await journal._held.run(journal._index.flush)
    assert by_id(journal, "minted") is None
    with pytest.raises(AlreadyExists):
        await journal.begin(start("minted"))
    with pytest.raises(AlreadyExists):
        await journal.begin(start("one"))
    # Asking before and then giving way does not get past it either.
    assert by_id(journal, "two") is None
    third = await journal.begin(start("two"))
    with pytest.raises(AlreadyExists):
        await journal.begin(start("two"))
    for log in (first, second, third):
        log.finish(ok(log))
    assert (await journal.verify()).executions == 3


async def test_many_at_once_are_all_found(journal: Journal) -> None:
    async def one(number: int) -> None:
        log = await journal.begin(start(f"id-{number}"))
        log.append(QueuedEvent())
        await asyncio.sleep(0)
        assert isinstance(by_id(journal, f"id-{number}"), Entry)
        log.finish(ok(log))
        assert isinstance(by_id(journal, f"id-{number}"), Entry)

    await asyncio.gather(*(one(number) for number in range(300)))
    report = await journal.verify()
    assert report.ok
    assert report.executions == 300


async def test_the_list_has_pages_oldest_first(directory: Path, clock: ManualClock) -> None:
    async with opened(directory, clock) as journal:
        names = []
        for number in range(25):
            log = await journal.begin(start(f"id-{number}"))
            names.append(log.name)
            log.finish(ok(log))
            if number == 15:
                await journal._held.run(journal._index.flush)
        other = await journal.begin(start("id-0", session=f"{RUNTIME}/sessions/other"))
        other.finish(ok(other))

        def all_pages() -> list[str]:
            found, token = [], ""
            while True:
                page = journal.list(SESSION, page_size=10, page_token=token)
                found += [entry.name for entry in page.entries]
                assert len(page.entries) <= 10
                token = page.next_page_token
                if not token:
                    return found

        assert all_pages() == names
        await journal._held.run(journal._index.flush)
        assert all_pages() == names
        assert len(journal.list(SESSION, page_size=0).entries) == 25
        assert journal.list("runtimes/r/sessions/none").entries == []


async def test_a_bad_page_is_refused(journal: Journal) -> None:
    with pytest.raises(InvalidArgument, match="pageSize"):
        journal.list(SESSION, page_size=-1)
    forged = base64.urlsafe_b64encode(b"zzzzzzzz" + b"zzzz").decode()
    of_others = token_after("runtimes/r/sessions/other/executions", "0" * 20)
    for token in ("!!!", "ä", "abc", "enp6eg==", forged, of_others):
        with pytest.raises(InvalidArgument, match="pageToken"):
            journal.list(SESSION, page_token=token)


async def test_the_list_follows_evictions_at_once(directory: Path, clock: ManualClock) -> None:
    async with opened(directory, clock, RetentionLimits(age_seconds=10)) as journal:
        old = await journal.begin(start("old"))
        old.finish(ok(old))
        clock.advance(11)
        new = await journal.begin(start("new"))
        new.finish(ok(new))
        await journal.evict()
        assert [entry.name for entry in journal.list(SESSION).entries] == [new.name]


async def test_nothing_is_left_open_after_close(directory: Path, clock: ManualClock) -> None:
    threads, before = threading.active_count(), descriptors()
    async with opened(directory, clock) as journal:
        running = await journal.begin(start())
        running.spill("stdout").write(b"x")
        done = await journal.begin(start())
        done.spill("stderr").write(b"x")
        done.finish(ok(done))
        await journal.verify()
    await journal.close()
    assert (threading.active_count(), descriptors()) == (threads, before)
    assert sorted(path.name for path in directory.iterdir() if "index" in path.name) == ["index.sqlite"]


async def test_begin_waits_where_the_writer_lags_behind(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cellhouse.journal.journal.PENDING_ROWS", 5)
    for number in range(50):
        log = await journal.begin(start(f"id-{number}"))
        assert journal._index.pending <= 6
        log.finish(ok(log))
    assert (await journal.verify()).ok


async def test_looking_up_never_walks_a_whole_table(journal: Journal) -> None:
    for query in (index._BY_NAME, index._BY_SESSION, index._BY_RUNTIME):
        values = ("x", "y")[: 1 if query is index._BY_NAME else 2]
        plan = journal._index._reader.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall()
        steps = [row[3] for row in plan if "executions" in row[3] or "tombstones" in row[3]]
        assert len(steps) == 2
        assert all(step.startswith("SEARCH") for step in steps)
