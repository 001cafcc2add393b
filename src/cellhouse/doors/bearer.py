"""Callers by their tokens: `Authorization: Bearer …` (RFC 6750), and nothing else that a request could say."""

from typing import Final

from cellhouse.doors.callers import Caller
from cellhouse.model import CallReason, FailedPrecondition, Unauthenticated, Unavailable
from cellhouse.runtime.logs import logger
from cellhouse.tokens import TokenBook

_logger = logger()

_REFUSED: Final = (
    "Authorization: this takes a token of this service that has not been revoked and has not expired, as "
    "`Authorization: Bearer cellhouse_…`; a query string or a cookie is not looked at. `cellhouse token create` makes one"
)


class BearerAuthenticator:
    """Asks the book for each request, so that a token is good from its making to its revoking, at once."""

    def __init__(self, book: TokenBook) -> None:
        self._book = book
        self._told = ""

    def authenticate(self, authorization: str | None) -> Caller:
        """Whose the token is. UNAUTHENTICATED, in the same words whatever was wrong with it.

        UNAVAILABLE for every caller alike where the tokens can't be trusted or read; the log says why, once.
        """
        try:
            token = self._book.find(_bearer(authorization))
        except FailedPrecondition as error:
            if error.message != self._told:  # once, and not for each that calls
                self._told = error.message
                _logger.error("no token is taken", reason=error.reason, why=error.message)
            raise Unavailable(
                "the service can't check tokens at present, and its log says why; try again when that is mended",
                reason=error.reason,
            ) from None
        self._told = ""
        if token is None:
            raise Unauthenticated(_REFUSED, reason=CallReason.NO_TOKEN)
        return Caller(token.tenant, token.id, token.scopes)


def _bearer(authorization: str | None) -> str:
    """The token in the header's value; empty where there is none. The scheme's case means nothing (RFC 9110)."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip(" ") if scheme.lower() == "bearer" else ""
