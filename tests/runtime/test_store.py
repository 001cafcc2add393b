"""The directories of runtimes: what a dead owner left, what hostile code put there, what may go and when."""

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from cellhouse.files import HostileDir
from cellhouse.model import AlreadyExists, CallReason, NotFound, RuntimeSpec, SystemClock
from cellhouse.runtime.state import KEEP_SECONDS, own_state_dir, state_root
from cellhouse.runtime.store import MARK, RuntimeStore, kill_marked, remove_tree

DEPTH = 1_200
"""More than a stack takes."""


class Later(SystemClock):
    """A clock that is ahead."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self._seconds)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "runtimes"


@pytest.fixture
def store(directory: Path) -> RuntimeStore:
    return RuntimeStore(directory, SystemClock())


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What must not be touched, whatever points at it."""
    path = tmp_path / "outside"
    path.mkdir()
    (path / "precious").write_text("kept")
    return path


def fill(path: Path, outside: Path, *, depth: int = 3) -> None:
    """A directory as hostile code leaves it."""
    path.mkdir(exist_ok=True)
    for raw in (b"two\nlines", b"stray\xff", b"-rf", b"x" * 255):
        Path(os.path.join(os.fsencode(path), raw).decode("utf-8", "surrogateescape")).touch()
    (path / "link").symlink_to(outside)
    (path / "file link").symlink_to(outside / "precious")
    os.mkfifo(path / "fifo")
    locked = path / "locked"
    locked.mkdir()
    (locked / "inner").touch()
    locked.chmod(0o000)
    deep(path / "deep", depth)


def deep(path: Path, depth: int) -> None:
    path.mkdir()
    here = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_what_is_remembered(store: RuntimeStore) -> None:
    spec = RuntimeSpec(kernel="x", idle_seconds=4.0)
    made = store.create("one", spec)
    assert (made.id, made.state, made.spec) == ("one", "active", spec)
    assert store.read("one") == made
    assert (store.path("one").stat().st_mode & 0o777) == 0o700
    with pytest.raises(AlreadyExists) as taken:
        store.create("one", spec)
    assert taken.value.reason == CallReason.ID_TAKEN
    store.mark_closed("one")
    closed = store.read("one")
    assert closed is not None
    assert (closed.state, closed.token) == ("closed", made.token)
    with pytest.raises(AlreadyExists):
        store.create("one", spec)
    assert store.read("two") is None
    store.mark_closed("two")
    assert store.names() == ["one"]


@pytest.mark.parametrize("error", [FileNotFoundError(2, "removed meanwhile"), OSError(28, "disk full")])
def test_what_cannot_be_marked_is_closed_by_the_next_owner(
    store: RuntimeStore, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    store.create("one", RuntimeSpec())

    def refuse(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("cellhouse.runtime.store.write_atomic", refuse)
        store.mark_closed("one")
    record = store.read("one")
    assert record is not None
    assert record.state == "active"
    assert store.reap() == ["one"]


def test_tokens_differ(store: RuntimeStore) -> None:
    tokens = {store.create(f"r{number}", RuntimeSpec()).token for number in range(5)}
    assert len(tokens) == 5


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"token": "x"}', "\0" * 100, "[" * 60_000])
def test_a_torn_note_is_none(store: RuntimeStore, text: str) -> None:
    store.create("one", RuntimeSpec())
    (store.path("one") / "runtime.json").write_text(text)
    assert store.read("one") is None
    assert store.reap() == ["one"]
    assert store.names() == []


def test_removed_with_all_that_hostile_code_put_there(store: RuntimeStore, outside: Path) -> None:
    store.create("one", RuntimeSpec())
    fill(store.path("one") / "content", outside, depth=DEPTH)
    store.remove("one")
    assert not store.path("one").exists()
    assert (outside / "precious").read_text() == "kept"
    store.remove("one")  # nothing is there any more
    store.create("one", RuntimeSpec())


def test_content(store: RuntimeStore) -> None:
    store.create("one", RuntimeSpec())
    (store.path("one") / "content").mkdir()
    with store.content("one") as content:
        assert isinstance(content, HostileDir)
    with pytest.raises(NotFound) as gone:
        store.content("two")
    assert gone.value.reason == CallReason.RUNTIME_DELETED


def test_content_that_is_a_link_is_not_followed(store: RuntimeStore, outside: Path) -> None:
    store.create("one", RuntimeSpec())
    (store.path("one") / "content").symlink_to(outside)
    with pytest.raises(Exception, match="content"):
        store.content("one")


# After a death


def test_reaping_closes_what_was_active(store: RuntimeStore, outside: Path) -> None:
    for runtime in ("one", "two"):
        store.create(runtime, RuntimeSpec())
        fill(store.path(runtime) / "content", outside)
    for name in ("run", "home", "tmp"):
        fill(store.path("one") / name, outside, depth=DEPTH if name == "run" else 3)
    store.mark_closed("two")
    assert store.reap() == ["one"]
    record = store.read("one")
    assert record is not None
    assert record.state == "closed"
    assert sorted(path.name for path in store.path("one").iterdir()) == ["content", "runtime.json"]
    with store.content("one") as content:
        assert content.stat("fifo")
    assert (outside / "precious").read_text() == "kept"
    assert store.reap() == []
    for runtime in ("one", "two"):
        store.remove(runtime)


def test_reaping_finishes_a_removal(store: RuntimeStore, directory: Path, outside: Path) -> None:
    fill(directory / ".going-0123", outside)
    assert store.names() == []
    assert store.reap() == []
    assert list(directory.iterdir()) == []
    assert (outside / "precious").read_text() == "kept"


def test_everything_with_the_mark_is_killed() -> None:
    code = "import os, sys; child = os.fork(); child and print(child, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-S", "-c", code],
        env={MARK: "token-of-one"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        child = os.pidfd_open(int(process.stdout.readline()))
        assert kill_marked("token-of-another") == 0
        assert kill_marked("token-of-on") == 0
        assert kill_marked("token-of-one") >= 2
        assert process.wait(timeout=20) == -signal.SIGKILL
        assert select.select([child], [], [], 20)[0] == [child]  # it has ended
        os.close(child)
    assert kill_marked("token-of-one") == 0


def test_reaping_kills_what_still_runs(store: RuntimeStore) -> None:
    record = store.create("one", RuntimeSpec())
    with subprocess.Popen(
        [sys.executable, "-S", "-c", "import sys; print(flush=True); sys.stdin.read()"],
        env={MARK: record.token},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        store.reap()
        assert process.wait(timeout=20) == -signal.SIGKILL


# Retention


def test_only_what_is_closed_and_old_goes(directory: Path, outside: Path) -> None:
    store = RuntimeStore(directory, SystemClock())
    for runtime in ("active", "closed"):
        store.create(runtime, RuntimeSpec())
        fill(store.path(runtime) / "content", outside)
    store.mark_closed("closed")
    assert store.evict(3_600.0) == []
    later = RuntimeStore(directory, Later(7_200.0))
    assert later.evict(86_400.0) == []
    assert later.evict(3_600.0) == ["closed"]
    assert later.names() == ["active"]
    assert (outside / "precious").read_text() == "kept"
    later.remove("active")


def test_one_that_resists_keeps_no_other(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RuntimeStore(directory, SystemClock())
    for runtime in ("a", "b"):
        store.create(runtime, RuntimeSpec())
        store.mark_closed(runtime)
    clear = HostileDir.clear

    def resist(self: HostileDir, limit: int = 1) -> int:
        if (directory / "b").exists():  # the first one, then
            raise PermissionError(1, "Operation not permitted")
        return clear(self)

    monkeypatch.setattr(HostileDir, "clear", resist)
    later = RuntimeStore(directory, Later(7_200.0))
    assert later.evict(3_600.0) == ["a", "b"]
    monkeypatch.undo()
    assert later.names() == []
    later.reap()
    assert list(directory.iterdir()) == []


def test_remove_tree_of_nothing(tmp_path: Path) -> None:
    remove_tree(tmp_path / "none")


# State directories


def test_where_state_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = Path.home()
    assert state_root() == home / ".local" / "state" / "cellhouse"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert state_root() == tmp_path / "xdg" / "cellhouse"
    monkeypatch.setenv("CELLHOUSE_STATE_DIR", str(tmp_path / "mine"))
    assert state_root() == tmp_path / "mine"


def test_embedded_houses_have_directories_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, outside: Path
) -> None:
    monkeypatch.setenv("CELLHOUSE_STATE_DIR", str(tmp_path / "mine"))
    first, second = own_state_dir(SystemClock()), own_state_dir(SystemClock())
    assert first != second
    assert (first.stat().st_mode & 0o777) == 0o700
    # Those that ended long ago go, whatever is in them; one that somebody still has stays.
    fill(first / "content", outside)
    (second / "journal").mkdir()
    with (second / "journal" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        third = own_state_dir(Later(KEEP_SECONDS + 60))
        assert sorted(path.name for path in third.parent.iterdir()) == sorted([second.name, third.name])
    assert (outside / "precious").read_text() == "kept"


def test_the_note_is_plain_json(store: RuntimeStore) -> None:
    store.create("one", RuntimeSpec(idle_seconds=5.0))
    document = json.loads((store.path("one") / "runtime.json").read_text())
    assert document["state"] == "active"
    assert document["spec"] == {"environment": "default", "idleSeconds": 5.0}
