"""Making, listing and revoking, also by many at once."""

import fcntl
import json
import os
import stat
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cellhouse.model import (
    CellhouseError,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    Unavailable,
)
from cellhouse.tokens import (
    LOCAL_TENANT,
    Scope,
    TokenBook,
    TokenStore,
    store as store_module,
    token as token_module,
)
from cellhouse.tokens.text import id_of
from tests.tokens.support import READ, START, Clock


def test_a_new_token_is_listed_without_its_text(store: TokenStore) -> None:
    made = store.create({Scope.READ, Scope.EXECUTE}, tenant="acme", label="for tests")
    (listed,) = store.list()
    assert listed == made.token
    assert (listed.tenant, listed.label) == ("acme", "for tests")
    assert listed.scopes == frozenset({Scope.READ, Scope.EXECUTE})
    assert made.text not in repr(made)
    secret = made.text.rpartition("_")[2]
    for path in store.place.directory.iterdir():
        assert secret.encode() not in path.read_bytes()
    assert secret not in json.dumps(listed.told(START))
    assert "sha256" not in listed.told(START)


def test_what_is_made_is_this_accounts_alone(store: TokenStore) -> None:
    before = os.umask(0)
    try:
        store.ensure()
    finally:
        os.umask(before)
    modes = {
        path.name: stat.S_IMODE(path.lstat().st_mode)
        for path in (store.place.directory, *store.place.directory.iterdir())
    }
    assert modes == {"tokens": 0o700, "tokens.json": 0o600, "local": 0o600, "lock": 0o600}
    assert stat.S_IMODE(store.place.directory.parent.stat().st_mode) == 0o700


def test_looking_makes_nothing(store: TokenStore) -> None:
    assert store.list() == store.valid() == ()
    assert store.local() is None
    assert not store.place.directory.parent.exists()


def test_revoking_takes_one_and_leaves_the_others(store: TokenStore, book: TokenBook) -> None:
    first, second = store.create(READ), store.create(READ)
    assert store.revoke(first.token.id) == first.token
    assert store.list() == (second.token,)
    assert (book.find(first.text), book.find(second.text)) == (None, second.token)


def test_revoking_what_is_not_there_says_so_and_changes_nothing(store: TokenStore) -> None:
    store.create(READ)
    before = store.place.tokens.read_bytes()
    with pytest.raises(NotFound, match="aaaaaaaaaa"):
        store.revoke("aaaaaaaaaa")
    assert store.place.tokens.read_bytes() == before


@pytest.mark.parametrize("given", ["", "../tokens", "AAAAAAAAAA", "é" * 10, "a" * 100_000])
def test_what_is_no_id_is_refused(store: TokenStore, given: str) -> None:
    with pytest.raises(InvalidArgument, match="10 lower-case"):
        store.revoke(given)


def test_a_token_in_the_place_of_its_id_is_refused_and_not_repeated(store: TokenStore) -> None:
    made = store.create(READ)
    with pytest.raises(InvalidArgument, match="command line") as caught:
        store.revoke(made.text)
    assert made.text not in str(caught.value)
    assert store.list() == (made.token,)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"tenant": "../other"}, "tenant"),
        ({"tenant": "Acme"}, "tenant"),
        ({"label": "a" * 101}, "label"),
        ({"label": "line\nline"}, "printable"),
        ({"label": "\x1b[2J"}, "printable"),
    ],
)
def test_what_cannot_be_is_refused_by_name(store: TokenStore, wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        store.create(READ, **wrong)
    assert store.list() == ()


def test_no_scopes_are_no_token(store: TokenStore) -> None:
    with pytest.raises(InvalidArgument, match="scopes"):
        store.create(())


def test_there_is_a_limit(store: TokenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_TOKENS", 2)
    store.create(READ)
    store.create(READ)
    with pytest.raises(ResourceExhausted, match="MAX_TOKENS") as caught:
        store.create(READ)
    assert caught.value.metadata == {"limit": "MAX_TOKENS", "retryable": "false"}
    assert len(store.list()) == 2


def test_as_many_as_there_may_be_can_be_read_back(store: TokenStore) -> None:
    template = store.create(READ, label="é" * 100, expires=START + timedelta(days=1)).token
    tokens = tuple(
        template.model_copy(update={"id": f"{number:010d}"}) for number in range(token_module.MAX_TOKENS)
    )
    store._write(tokens)
    assert store.list() == tokens


def test_ensure_makes_one_where_no_valid_one_is(store: TokenStore, clock: Clock, book: TokenBook) -> None:
    store.create(READ, expires=START + timedelta(seconds=10))
    assert store.ensure() is None
    clock.seconds = 10
    made = store.ensure()
    assert made is not None
    assert (made.token.tenant, made.token.scopes) == (LOCAL_TENANT, frozenset(Scope))
    assert store.local() == made.text
    assert book.find(made.text) == made.token
    assert store.ensure() is None


def test_a_text_without_its_record_is_replaced(store: TokenStore) -> None:
    """As where the machine stopped between the two."""
    first = store.ensure()
    assert first is not None
    store.place.tokens.unlink()
    second = store.ensure()
    assert second is not None
    assert store.local() == second.text != first.text


def test_revoking_the_local_token_takes_its_text_away(store: TokenStore) -> None:
    made = store.ensure()
    assert made is not None
    other = store.create(READ)
    store.revoke(other.token.id)
    assert store.local() == made.text
    store.revoke(made.token.id)
    assert store.local() is None


def test_a_local_file_that_holds_no_token_is_refused(store: TokenStore) -> None:
    store.ensure()
    store.place.local.write_bytes(b"\xff\xfe")
    with pytest.raises(FailedPrecondition, match="holds no token"):
        store.local()


def test_a_local_file_that_others_may_read_is_refused(store: TokenStore) -> None:
    store.ensure()
    store.place.local.chmod(0o640)
    with pytest.raises(FailedPrecondition, match="0640"):
        store.local()


def test_every_change_gives_the_file_a_later_time(store: TokenStore) -> None:
    store.create(READ)
    ahead = store.place.tokens.stat().st_mtime_ns + 10**15
    os.utime(store.place.tokens, ns=(ahead, ahead))
    first = store.create(READ)
    assert store.place.tokens.stat().st_mtime_ns == ahead + 1
    store.revoke(first.token.id)
    assert store.place.tokens.stat().st_mtime_ns == ahead + 2


def test_a_lock_that_stays_held_is_told_of(store: TokenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "LOCK_SECONDS", 0.0)
    store.create(READ)
    with store.place.lock.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match="lock"):
            store.create(READ)
    assert len(store.list()) == 1
    store.create(READ)


def test_a_lock_that_is_a_link_is_not_followed(store: TokenStore, tmp_path: Path) -> None:
    store.create(READ)
    store.place.lock.unlink()
    store.place.lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        store.create(READ)
    assert not (tmp_path / "elsewhere").exists()


MAKER = """
import sys
from pathlib import Path
from cellhouse.model import SystemClock
from cellhouse.tokens import Scope, TokenStore
store = TokenStore(Path(sys.argv[1]), SystemClock())
sys.stdin.read()
for number in range(10):
    made = store.create({Scope.READ}, label=sys.argv[2])
    if number % 2:
        store.revoke(made.token.id)
    else:
        print(made.text)
"""


def test_many_processes_at_once_lose_nothing(store: TokenStore, book: TokenBook) -> None:
    makers = [
        subprocess.Popen(
            [sys.executable, "-c", MAKER, str(store.place.directory.parent), f"maker {number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    texts = []
    for maker in makers:
        assert maker.stdin is not None
        maker.stdin.close()  # they all begin now
        maker.stdin = None
    for maker in makers:
        out, _ = maker.communicate(timeout=60)
        assert maker.returncode == 0
        texts += out.split()
    assert len(texts) == 20
    assert {token.id for token in store.list()} == {id_of(text) for text in texts}
    found = [book.find(text) for text in texts]
    assert None not in found
    assert [path.name for path in sorted(store.place.directory.iterdir())] == ["lock", "tokens.json"]


def test_a_directory_that_is_anothers_is_not_written(
    store: TokenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create(READ)
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    with pytest.raises(CellhouseError, match=f"belongs to uid {uid}"):
        TokenStore(store.place.directory.parent, Clock()).create(READ)
    assert len(store.list()) == 1
