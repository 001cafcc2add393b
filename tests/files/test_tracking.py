"""What was made and what was changed between two looks, with hints and without."""

import mmap
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from cellhouse.files import Changes, FileMark, HostileDir, Tracker, TrackLimits
from cellhouse.files.inotify import Inotify


@pytest.fixture(params=["hints", "walks"])
def tracker(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Tracker]:
    if request.param == "walks":
        monkeypatch.setattr(Inotify, "open", lambda: None)
    (tmp_path / "content").mkdir()
    with closing(HostileDir.open(tmp_path / "content")) as held, closing(Tracker(held)) as made:
        made.look()
        yield made


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path / "content"


def found(tracker: Tracker) -> dict[str, str]:
    changes = tracker.look()
    assert changes.cut == frozenset()
    return {
        os.fsdecode(change.path): f"renamed from {os.fsdecode(change.renamed_from)}"
        if change.renamed_from is not None
        else "created"
        if change.created
        else "changed"
        for change in changes.changed
    }


def learn(tracker: Tracker, changes: Changes) -> None:
    """What whoever describes files reads of them."""
    tracker.learn(
        [
            (change.path, change.mark, tracker._sha256(change.path, change.mark), False)
            for change in changes.changed
            if change.mark.is_file
        ]
    )


def test_what_is_new_and_what_is_not(tracker: Tracker, here: Path) -> None:
    assert found(tracker) == {}
    (here / "a").write_text("x")
    (here / "b").mkdir()
    (here / "b" / "c").write_text("y")
    assert found(tracker) == {"a": "created", "b/c": "created"}
    assert found(tracker) == {}
    (here / "b" / "c").write_text("yy")
    (here / "b" / "d").write_text("z")
    assert found(tracker) == {"b/c": "changed", "b/d": "created"}


def test_nothing_is_walked_over_where_nobody_touched_anything(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.mkdir()
    (here / "a").write_text("x")
    with closing(HostileDir.open(here)) as held, closing(Tracker(held)) as tracker:
        assert tracker.is_touched()
        tracker.look()
        monkeypatch.setattr(HostileDir, "scan", None)
        monkeypatch.setattr(HostileDir, "stat", None)
        assert not tracker.is_touched()
        os.listdir(here)
        assert not tracker.is_touched()


def test_directories_that_go_by_the_hundred_are_one_pass_over_what_is_known(
    tracker: Tracker, here: Path
) -> None:
    passes = 0

    class Counted(dict[bytes, Any]):
        def __iter__(self) -> Iterator[bytes]:
            nonlocal passes
            passes += 1
            return super().__iter__()

    for number in range(300):
        (here / f"d{number}" / "e").mkdir(parents=True)
        (here / f"d{number}" / "e" / "a").touch()
    (here / "d0-not").touch()
    assert len(found(tracker)) == 301
    tracker._known = Counted(tracker._known)
    for number in range(300):
        (here / f"d{number}" / "e" / "a").unlink()
        (here / f"d{number}" / "e").rmdir()
        (here / f"d{number}").rmdir()
    (here / "d7" / "e").mkdir(parents=True)
    (here / "d7" / "e" / "a").touch()
    (here / "d8").touch()
    changes = tracker.look()
    assert {change.path for change in changes.changed} == {b"d7/e/a", b"d8"}
    assert changes.gone == {b"d%d/e/a" % number for number in range(300) if number != 7}
    assert passes < 5


def test_the_same_size_and_a_restored_time(tracker: Tracker, here: Path) -> None:
    (here / "a").write_text("old")
    before = (here / "a").stat()
    found(tracker)
    (here / "a").write_text("new")
    os.utime(here / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found(tracker) == {"a": "changed"}


def test_the_same_size_within_one_tick_and_its_bytes_are_known(tracker: Tracker, here: Path) -> None:
    (here / "a").write_text("old")
    changes = tracker.look()
    learn(tracker, changes)
    (change,) = changes.changed
    with (here / "a").open("r+") as file:
        file.write("new")
    os.utime(here / "a", ns=(change.mark.mtime_ns, change.mark.mtime_ns))
    assert found(tracker) == {"a": "changed"}


def test_other_permissions_are_no_other_content(tracker: Tracker, here: Path) -> None:
    (here / "a").write_text("x")
    learn(tracker, tracker.look())
    (here / "a").chmod(0o600)
    os.link(here / "a", here / "b")
    assert found(tracker) == {"b": "created"}


def test_deleted_renamed_and_both(tracker: Tracker, here: Path) -> None:
    for name in "abc":
        (here / name).write_text(name)
    found(tracker)
    (here / "a").unlink()
    (here / "b").rename(here / "d")
    changes = tracker.look()
    assert changes.gone == {b"a", b"b"}
    assert [(change.path, change.renamed_from) for change in changes.changed] == [(b"d", b"b")]


def test_directories_move_with_what_is_in_them(tracker: Tracker, here: Path) -> None:
    (here / "a" / "b").mkdir(parents=True)
    (here / "a" / "b" / "c").write_text("x")
    found(tracker)
    (here / "a").rename(here / "z")
    assert found(tracker) == {"z/b/c": "renamed from a/b/c"}
    (here / "z" / "b" / "c").write_text("yy")
    assert found(tracker) == {"z/b/c": "changed"}


def test_a_file_takes_the_place_of_a_directory_and_back(tracker: Tracker, here: Path) -> None:
    (here / "a").mkdir()
    (here / "a" / "b").write_text("x")
    found(tracker)
    (here / "a" / "b").unlink()
    (here / "a").rmdir()
    (here / "a").write_text("file")
    assert found(tracker) == {"a": "created"}
    (here / "a").unlink()
    (here / "a").mkdir()
    (here / "a" / "b").write_text("x")
    changes = tracker.look()
    assert (changes.gone, [change.path for change in changes.changed]) == ({b"a"}, [b"a/b"])


def test_what_is_no_file_is_told_by_its_kind(tracker: Tracker, here: Path) -> None:
    (here / "link").symlink_to("/etc/passwd")
    os.mkfifo(here / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(here / "socket"))
    (here / "directory").mkdir()
    kinds = {os.fsdecode(change.path): change.mark.kind for change in tracker.look().changed}
    assert kinds == {"link": "symbolic link", "fifo": "fifo", "socket": "socket"}


def test_written_by_another_name_of_it(tracker: Tracker, here: Path) -> None:
    (here / "a").mkdir()
    (here / "a" / "one").write_text("x")
    os.link(here / "a" / "one", here / "two")
    found(tracker)
    (here / "two").write_text("yy")
    assert found(tracker) == {"a/one": "changed", "two": "changed"}


def test_written_by_a_name_that_is_gone(tracker: Tracker, here: Path) -> None:
    (here / "one").write_text("x")
    os.link(here / "one", here / "two")
    found(tracker)
    (here / "one").write_text("yy")
    (here / "one").unlink()
    assert found(tracker) == {"two": "changed"}


def test_written_through_memory_that_was_mapped_before(tracker: Tracker, here: Path) -> None:
    (here / "a").write_bytes(bytes(8192))
    learn(tracker, tracker.look())
    with (here / "a").open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    try:
        assert found(tracker) == {}
        # No hint comes of it; the second time, without a flush in between, no other time of the file either.
        for content in (b"abc", b"xyz"):
            mapped[0:3] = content
            changes = tracker.look()
            assert [change.path for change in changes.changed] == [b"a"]
            learn(tracker, changes)
    finally:
        mapped.close()


def test_what_was_only_read_is_soon_not_asked_about(tracker: Tracker, here: Path) -> None:
    (here / "a").write_text("x")
    found(tracker)
    (here / "a").read_text()
    assert found(tracker) == {}
    assert found(tracker) == {}
    if tracker.watches:
        assert not tracker.is_touched()


def test_what_the_service_put_there_is_nobodys(tracker: Tracker, here: Path) -> None:
    with closing(HostileDir.open(here)) as held:
        incoming = held.incoming("a")
        incoming.write(b"x")
        written = incoming.commit()
    assert written.seen is not None
    tracker.expect(b"a", FileMark.of(written.seen), written.sha256)
    assert found(tracker) == {}
    (here / "a").write_text("y")
    assert found(tracker) == {"a": "changed"}


def test_an_upload_under_way_is_no_file_yet(here: Path, tmp_path: Path) -> None:
    here.mkdir()
    with closing(HostileDir.open(here)) as held, closing(Tracker(held)) as tracker:
        incoming = held.incoming("a")
        incoming.write(b"x")
        assert tracker.look().changed == []
        incoming.discard()
        assert tracker.look().changed == []


def test_too_much_at_once_is_walked_over(tracker: Tracker, here: Path) -> None:
    for number in range(20_000):
        (here / f"{number % 3_000}").touch()
    assert len(found(tracker)) == 3_000
    assert found(tracker) == {}


def test_more_names_than_are_looked_at(here: Path) -> None:
    here.mkdir()
    with closing(HostileDir.open(here)) as held, closing(Tracker(held, TrackLimits(entries=5))) as tracker:
        for number in range(9):
            (here / f"{number}").touch()
        assert tracker.look().cut == {"entries"}
        # What was there is not new only because it is seen for the first time.
        for path in list(here.iterdir())[:5]:
            os.utime(path, (1, 1))
        time.sleep(0.05)
        for path in sorted(here.iterdir())[:5]:
            path.unlink()
        changes = tracker.look()
        assert changes.cut == frozenset()
        assert tracker.is_touched() is False


def test_no_more_watches_are_to_be_had(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here.mkdir()
    monkeypatch.setattr("cellhouse.files.tracking._WATCHES", 3)
    with closing(HostileDir.open(here)) as held, closing(Tracker(held)) as tracker:
        tracker.look()
        for number in range(6):
            (here / f"{number}").mkdir()
            (here / f"{number}" / "file").touch()
        assert len(found(tracker)) == 6
        assert not tracker.watches
        (here / "5" / "file").write_text("x")
        assert found(tracker) == {"5/file": "changed"}


def test_a_directory_that_may_not_be_read(tracker: Tracker, here: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (here / "closed").mkdir(mode=0o000)
    assert tracker.look().cut == {"unreadable"}
    (here / "closed").chmod(0o700)
    (here / "closed" / "a").touch()
    assert found(tracker) == {"closed/a": "created"}


# Against a model: whatever is done, what is told is what another kind of file, other bytes, or another name is there.

NAMES = ["a", "b", "d/a", "d/b", "d/e/a", "__pycache__/x"]
Step = tuple[str, str, str]
steps = st.tuples(
    st.sampled_from(
        ["write", "rewrite", "append", "delete", "rename", "restore", "replace", "link", "fifo", "move"]
    ),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
)


def state(here: Path) -> dict[str, tuple[str, bytes]]:
    """Path to kind and content, of what is not left out by rule."""
    made = {}
    for path in here.rglob("*"):
        name = str(path.relative_to(here))
        if "__pycache__" in name or (path.is_dir() and not path.is_symlink()):
            continue
        made[name] = ("file", path.read_bytes()) if path.is_file() else ("fifo", b"")
    return made


def act(here: Path, step: Step, number: int) -> None:
    word, first, second = step
    path, other = here / first, here / second
    content = b"%04d" % (number % 10_000)
    actions: dict[str, Callable[[], object]] = {
        "write": lambda: path.write_bytes(content * (1 + number % 3)),
        "rewrite": lambda: _rewrite(path, content, restore=False),
        "restore": lambda: _rewrite(path, content, restore=True),
        "append": lambda: path.write_bytes(path.read_bytes() + b"x"),
        "delete": path.unlink,
        "rename": lambda: path.rename(other),
        "replace": lambda: _replace(path, content),
        "link": lambda: os.link(path, other),
        "fifo": lambda: os.mkfifo(path),
        "move": lambda: (here / "d").rename(here / f"d{number}"),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    other.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file() and word not in ("delete", "rename", "move"):
        return
    try:
        actions[word]()
    except (FileNotFoundError, FileExistsError, OSError):
        return


def _rewrite(path: Path, content: bytes, *, restore: bool) -> None:
    before = path.stat()
    with path.open("r+b") as file:
        file.write((content * (1 + before.st_size // 4))[: before.st_size])
    if restore:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replace(path: Path, content: bytes) -> None:
    new = path.with_name("new")
    new.write_bytes(content)
    new.rename(path)


@pytest.mark.parametrize("hints", [True, False], ids=["hints", "walks"])
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=st.lists(st.lists(steps, max_size=6), min_size=1, max_size=5))
@example(
    rounds=[
        [("write", "__pycache__/x", "a"), ("link", "__pycache__/x", "a")],
        [("write", "__pycache__/x", "a")],
    ]
)
def test_whatever_is_done_is_told(
    tmp_path_factory: pytest.TempPathFactory, hints: bool, rounds: list[list[Step]]
) -> None:
    here = tmp_path_factory.mktemp("content")
    with pytest.MonkeyPatch.context() as patch:
        if not hints:
            patch.setattr(Inotify, "open", lambda: None)
        held = HostileDir.open(here)
        tracker = Tracker(held)
    with closing(held), closing(tracker):
        tracker.look()
        before, number = state(here), 0
        for each in rounds:
            for step in each:
                number += 1
                act(here, step, number)
            changes = tracker.look()
            told = {os.fsdecode(change.path): change for change in changes.changed}
            after = state(here)
            really = {name for name, what in after.items() if before.get(name) != what}
            assert really <= told.keys()
            # Told besides only where something was done to it, with the same bytes as before.
            assert told.keys() <= after.keys()
            assert {os.fsdecode(path) for path in changes.gone} == before.keys() - after.keys()
            for name, change in told.items():
                assert change.created is (name not in before)
                assert change.mark.kind == after[name][0]
            learn(tracker, changes)
            before = after
            assert tracker.look().changed == []
