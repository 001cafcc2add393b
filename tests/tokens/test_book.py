"""What a running service makes of the file: at once, in one way for all that is refused, and nothing where it can't trust."""

import hmac
import os
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cellhouse.model import FailedPrecondition, rfc3339
from cellhouse.tokens import TokenBook, TokenPlace, TokenStore, book as book_module
from cellhouse.tokens.text import _checksum, digest_of, id_of, mint_token
from tests.tokens.support import READ, START, Clock


def test_a_token_is_good_from_its_making_to_its_revoking(store: TokenStore, book: TokenBook) -> None:
    assert book.find(mint_token()[1]) is None
    for _ in range(50):
        made = store.create(READ)
        assert book.find(made.text) == made.token
        store.revoke(made.token.id)
        assert book.find(made.text) is None


def test_a_token_ends_in_its_moment(store: TokenStore, book: TokenBook, clock: Clock) -> None:
    made = store.create(READ, expires=START + timedelta(seconds=10))
    clock.seconds = 9.999
    assert book.find(made.text) == made.token
    clock.seconds = 10
    assert book.find(made.text) is None
    assert made.token in store.list()


def test_only_the_whole_text_will_do(store: TokenStore, book: TokenBook) -> None:
    made = store.create(READ)
    _, other = mint_token()
    for text in (
        made.text[:-1],
        made.text + "a",
        made.text.upper(),
        made.token.id,
        made.token.sha256,
        other,
        "",
    ):
        assert book.find(text) is None


def test_anothers_secret_under_this_id_is_refused(store: TokenStore, book: TokenBook) -> None:
    """A text whose form and checksum are good, made by somebody who knows an id."""
    made = store.create(READ)
    _, other = mint_token()
    body = f"cellhouse_{made.token.id}_{other.split('_')[2][:43]}"
    forged = body + _checksum(body)
    assert id_of(forged) == made.token.id
    assert book.find(forged) is None


@pytest.mark.parametrize(
    "kind", ["good", "revoked", "expired", "unknown", "malformed", "empty", "huge", "no ASCII"]
)
def test_every_text_is_compared_once_and_in_constant_time(
    store: TokenStore, book: TokenBook, clock: Clock, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    good = store.create(READ)
    revoked = store.create(READ)
    store.revoke(revoked.token.id)
    expired = store.create(READ, expires=START + timedelta(seconds=1))
    clock.seconds = 2
    text = {
        "good": good.text,
        "revoked": revoked.text,
        "expired": expired.text,
        "unknown": mint_token()[1],
        "malformed": good.text[:-1] + "!",
        "empty": "",
        "huge": "cellhouse_" * 100_000,
        "no ASCII": "ÿ" * 70,
    }[kind]
    compared: list[tuple[bytes, bytes]] = []

    def compare(left: bytes, right: bytes) -> bool:
        compared.append((left, right))
        return hmac.compare_digest(left, right)

    class Spy:
        compare_digest = staticmethod(compare)

    monkeypatch.setattr(book_module, "hmac", Spy)
    assert (book.find(text) is not None) == (kind == "good")
    ((left, right),) = compared
    assert left == digest_of(text)
    assert len(right) == 32


def test_a_file_that_did_not_change_is_not_read_again(
    store: TokenStore, book: TokenBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = store.create(READ)
    assert book.find(made.text)
    monkeypatch.setattr(book_module, "read_tokens", None)
    for _ in range(100):
        assert book.find(made.text)


def _replaced_by_a_link(store: TokenStore) -> None:
    path = store.place.tokens
    aside = path.with_name("aside")
    path.rename(aside)
    path.symlink_to(aside)


def _directory_replaced_by_a_link(store: TokenStore) -> None:
    directory = store.place.directory
    aside = directory.with_name("aside")
    directory.rename(aside)
    directory.symlink_to(aside)


def _of_mode(mode: int) -> Callable[[TokenStore], None]:
    return lambda store: store.place.tokens.chmod(mode)


def _directory_of_mode(mode: int) -> Callable[[TokenStore], None]:
    return lambda store: store.place.directory.chmod(mode)


def _fifo(store: TokenStore) -> None:
    store.place.tokens.unlink()
    os.mkfifo(store.place.tokens, 0o600)


def _directory(store: TokenStore) -> None:
    store.place.tokens.unlink()
    store.place.tokens.mkdir(mode=0o700)


def _holding(data: bytes) -> Callable[[TokenStore], int]:
    return lambda store: store.place.tokens.write_bytes(data)


FAULTS: dict[str, tuple[Callable[[TokenStore], Any], str]] = {
    "a link": (_replaced_by_a_link, "no regular file"),
    "a directory that is a link": (_directory_replaced_by_a_link, "no directory"),
    "readable by all": (_of_mode(0o644), "mode 0644"),
    "writable by a group": (_of_mode(0o620), "mode 0620"),
    "executable by others": (_of_mode(0o601), "mode 0601"),
    "a directory of all": (_directory_of_mode(0o777), "mode 0777"),
    "a directory that can be listed": (_directory_of_mode(0o755), "mode 0755"),
    "a fifo": (_fifo, "no regular file"),
    "a directory": (_directory, "no regular file"),
    "nothing": (_holding(b""), "no list of tokens"),
    "half": (_holding(b'{"version": 1, "tokens": [{"id": "'), "no list of tokens"),
    "another version": (_holding(b'{"version": 2, "tokens": []}'), "version"),
    "more than is known": (_holding(b'{"version": 1, "tokens": [], "admin": true}'), "admin"),
    "bytes": (_holding(b"\xff\x00\xff"), "no list of tokens"),
    "too much": (_holding(b" " * (9 << 20)), "more than"),
    "depth": (_holding(b"[" * 1_000_000), "no list of tokens"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_where_it_cannot_be_trusted_no_token_is_good_until_that_is_mended(
    store: TokenStore, book: TokenBook, fault: str
) -> None:
    made = store.create(READ)
    before = store.place.tokens.read_bytes()
    assert book.find(made.text) == made.token
    harm, says = FAULTS[fault]
    harm(store)
    for _ in range(2):
        with pytest.raises(FailedPrecondition, match=re.escape(says)) as caught:
            book.find(made.text)
    assert made.token.sha256 not in caught.value.message
    with pytest.raises(FailedPrecondition):
        TokenBook(store.place, Clock()).find(made.text)
    _mend(store, before)
    assert book.find(made.text) == made.token


def _mend(store: TokenStore, data: bytes) -> None:
    directory, path = store.place.directory, store.place.tokens
    if directory.is_symlink():
        directory.unlink()
        directory.mkdir()
    directory.chmod(0o700)
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(data)


def test_a_file_of_another_account_is_refused(store: TokenStore, clock: Clock) -> None:
    made = store.create(READ)
    anothers = TokenBook(TokenPlace(store.place.directory, os.geteuid() + 1), clock)
    with pytest.raises(FailedPrecondition, match="belongs to uid"):
        anothers.find(made.text)


def test_two_tokens_of_one_id_are_refused(store: TokenStore, book: TokenBook) -> None:
    made = store.create(READ)
    store._write((made.token, made.token.model_copy(update={"tenant": "other"})))
    with pytest.raises(FailedPrecondition, match="one id"):
        book.find(made.text)


@pytest.mark.parametrize(
    "change",
    [
        {"tenant": "../escape"},
        {"scopes": frozenset()},
        {"created": "yesterday"},
        {"expires": rfc3339(START)[:-1]},
        {"sha256": "00"},
        {"id": "../../etc"},
        {"label": "\x1b[2J"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_record_that_cannot_be_is_refused(
    store: TokenStore, book: TokenBook, change: dict[str, Any]
) -> None:
    made = store.create(READ)
    text = made.token.model_copy(update=change).model_dump_json(exclude_none=True)
    store.place.tokens.write_text(f'{{"version": 1, "tokens": [{text}]}}')
    with pytest.raises(FailedPrecondition, match="no list of tokens"):
        book.find(made.text)


def test_without_a_file_every_token_is_revoked(store: TokenStore, book: TokenBook) -> None:
    made = store.create(READ)
    assert book.find(made.text)
    store.place.tokens.unlink()
    assert book.find(made.text) is None
    store.place.lock.unlink()
    store.place.directory.rmdir()
    assert book.find(made.text) is None


def test_a_state_directory_that_is_a_file_is_told_of(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "file").touch()
    store = TokenStore(tmp_path / "file", clock)
    with pytest.raises(FailedPrecondition, match="Not a directory"):
        TokenBook(store.place, clock).find("x")
    with pytest.raises(OSError, match="file"):
        store.create(READ)
