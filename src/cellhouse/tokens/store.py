"""Making, listing and revoking tokens: each change replaces the file, one at a time."""

import fcntl
import os
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from cellhouse.files import write_atomic
from cellhouse.model import (
    Clock,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    Unavailable,
    rfc3339,
)
from cellhouse.tokens.book import read_tokens
from cellhouse.tokens.place import UNREADABLE, TokenPlace
from cellhouse.tokens.scope import Scope
from cellhouse.tokens.text import digest_of, id_of, is_id, mint_token
from cellhouse.tokens.token import LOCAL_TENANT, MAX_TOKENS, Token, document_of

LOCK_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.01
LOCAL_LABEL: Final = "made by serve for this account"


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just made: the one time that its text is told."""

    token: Token
    text: str

    def __repr__(self) -> str:
        return f"NewToken({self.token.id})"  # a text that is not there can't get into a log


class TokenStore:
    """The tokens of one state directory. Blocks for some milliseconds; not for an event loop."""

    def __init__(self, state_dir: Path, clock: Clock) -> None:
        self.place = TokenPlace.of(state_dir)
        self._clock = clock

    def list(self) -> tuple[Token, ...]:
        """All that were not revoked, the expired ones too, oldest first."""
        return read_tokens(self.place)

    def valid(self) -> tuple[Token, ...]:
        """Those that are good for something now."""
        now = self._clock.now()
        return tuple(token for token in self.list() if not token.is_expired(now))

    def create(
        self,
        scopes: Collection[Scope],
        *,
        tenant: str = LOCAL_TENANT,
        expires: datetime | None = None,
        label: str = "",
    ) -> NewToken:
        """A new token. InvalidArgument where what it is to be can't be."""
        with self._changing():
            made = self._mint(scopes, tenant, expires, label)
            self._write((*self._room(), made.token))
            return made

    def revoke(self, token: str) -> Token:
        """Take the token with this id back: it is good for nothing any more. NOT_FOUND where there is none."""
        if not is_id(token):
            hint = "; that is a token's text, which has no business on a command line" if id_of(token) else ""
            raise InvalidArgument.of_field(
                "id",
                f"a token's id is 10 lower-case letters and digits, as `cellhouse token list` shows it{hint}",
            )
        with self._changing():
            tokens = self.list()
            for found in tokens:
                if found.id == token:
                    self._write(tuple(each for each in tokens if each.id != token))
                    self._forget_local(token)
                    return found
        raise NotFound(
            f"token {token}: there is none with this id; `cellhouse token list` shows those there are",
            reason="NO_SUCH_TOKEN",
            metadata={"token": token},
        )

    def ensure(self) -> NewToken | None:
        """Where no valid token is there: one of all scopes, whose text stands in the file `local` from now on."""
        self.place.make()
        with self._changing():
            if self.valid():
                return None
            made = self._mint(frozenset(Scope), LOCAL_TENANT, None, LOCAL_LABEL)
            # The text first: a token whose text nobody has would count as one that is there.
            write_atomic(self.place.local, made.text.encode() + b"\n", durable=True)
            self._write((*self._room(), made.token))
            return made

    def local(self) -> str | None:
        """The text of the token that `ensure` made, for a client of the same account; None where there is none.

        Whether it is still good only the service can tell. FailedPrecondition where others could have written it.
        """
        data = self.place.read(self.place.local)
        if data is None:
            return None
        text = data.decode("ascii", "replace").strip()
        if not id_of(text):
            raise FailedPrecondition(
                f"{self.place.local} holds no token; remove it",
                reason=UNREADABLE,
                metadata={"path": str(self.place.local)},
            )
        return text

    def _forget_local(self, token: str) -> None:
        """A client of this account need not try it any more. What is no token's text there is left for `local` to tell."""
        with suppress(FailedPrecondition):
            if id_of(self.local() or "") == token:
                self.place.local.unlink(missing_ok=True)

    def _mint(self, scopes: Collection[Scope], tenant: str, expires: datetime | None, label: str) -> NewToken:
        taken = {token.id for token in self.list()}
        while True:
            token, text = mint_token()
            if token not in taken:
                break
        try:
            made = Token(
                id=token,
                tenant=tenant,
                scopes=frozenset(scopes),
                created=rfc3339(self._clock.now()),
                expires=None if expires is None else rfc3339(expires),
                label=label,
                sha256=digest_of(text).hex(),
            )
        except ValidationError as error:
            raise InvalidArgument.of_validation("token", error) from None
        return NewToken(made, text)

    def _room(self) -> tuple[Token, ...]:
        tokens = self.list()
        if len(tokens) >= MAX_TOKENS:
            raise ResourceExhausted(
                f"there are {len(tokens)} tokens, which is the limit (MAX_TOKENS); revoke some, the expired ones first",
                reason="TOO_MANY_TOKENS",
                limit="MAX_TOKENS",
                retryable=False,
            )
        return tokens

    def _write(self, tokens: tuple[Token, ...]) -> None:
        """Replaces the file. Its time is later than any that it had, so that a reader can tell the two by it."""
        path = self.place.tokens
        try:
            before = path.lstat().st_mtime_ns
        except FileNotFoundError:
            before = 0
        write_atomic(path, document_of(tokens), durable=True)
        moment = max(path.lstat().st_mtime_ns, before + 1)
        os.utime(path, ns=(moment, moment), follow_symlinks=False)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """One at a time, of all processes. UNAVAILABLE where somebody takes too long."""
        self.place.make()
        fd = os.open(self.place.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            until = time.monotonic() + LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= until:
                        raise Unavailable(
                            f"{self.place.lock} has been held for {LOCK_SECONDS:g} s by somebody who changes tokens; "
                            "try again",
                            reason="TOKENS_LOCKED",
                        ) from None
                time.sleep(_PAUSE_SECONDS)
            yield
        finally:
            os.close(fd)
