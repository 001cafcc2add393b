"""The tokens of a running service: what a file holds at this moment, looked up without telling by time."""

import hmac
import secrets
from typing import Final

from cellhouse.model import Clock, FailedPrecondition
from cellhouse.tokens.place import UNREADABLE, Mark, TokenPlace
from cellhouse.tokens.text import digest_of, id_of
from cellhouse.tokens.token import Token, tokens_of

_NOBODY: Final = secrets.token_bytes(32)
"""What a text is compared with where no token has its id: no text has this digest."""


class TokenBook:
    """Looks at the file again for each question, which costs two system calls, and reads it again where it has changed.

    So whoever makes or revokes a token is obeyed from the next request on. Where the file can't be trusted or read, no
    token is good: every question raises what is wrong with it, until that is mended.
    """

    def __init__(self, place: TokenPlace, clock: Clock) -> None:
        self._place, self._clock = place, clock
        self._mark: Mark | None = None
        self._known: dict[str, tuple[bytes, Token]] = {}
        self._fault: FailedPrecondition | None = None
        self._looked = False

    def find(self, text: str) -> Token | None:
        """The token with this text; None where it is malformed, unknown, revoked or expired, all in the same way.

        FailedPrecondition (TOKENS_UNSAFE, TOKENS_UNREADABLE) where nothing can be known.
        """
        known = self._now_known()
        given = digest_of(text)
        expected, token = known.get(id_of(text), (_NOBODY, None))
        same = hmac.compare_digest(given, expected)
        if not same or token is None or token.is_expired(self._clock.now()):
            return None
        return token

    def _now_known(self) -> dict[str, tuple[bytes, Token]]:
        mark = self._place.mark(self._place.tokens)
        if not self._looked or mark != self._mark:
            # The mark is from before the reading: what changes in between is seen by the next question.
            self._looked, self._mark, self._known, self._fault = True, mark, {}, None
            try:
                self._known = {
                    token.id: (bytes.fromhex(token.sha256), token) for token in read_tokens(self._place)
                }
            except FailedPrecondition as error:
                self._fault = error
        if self._fault is not None:
            raise self._fault
        return self._known


def read_tokens(place: TokenPlace) -> tuple[Token, ...]:
    """All tokens there, the expired ones too, oldest first. FailedPrecondition where the file can't be trusted or read."""
    data = place.read(place.tokens)
    if data is None:
        return ()
    try:
        return tokens_of(data)
    except ValueError as error:
        raise FailedPrecondition(
            f"{place.tokens} is no list of tokens ({error}), so no token in it is taken; put back what was there, or "
            "remove it and make new tokens",
            reason=UNREADABLE,
            metadata={"path": str(place.tokens)},
        ) from None
