"""Pages of a list: how long one may be, and the token by which the next one is asked for."""

import base64
import hashlib
from typing import Final

from cellhouse.model.errors import InvalidArgument

PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 1_000
_CHECK_BYTES: Final = 8


def page_length(page_size: int) -> int:
    """How many a page holds that was asked for with this size; 0 is the default. INVALID_ARGUMENT below."""
    if page_size < 0:
        raise InvalidArgument.of_field(
            "pageSize", f"{page_size} is negative; it takes 0 (the default) or more"
        )
    return min(page_size or PAGE_SIZE, PAGE_SIZE_MAX)


def token_after(listing: str, last: str) -> str:
    """The token of the page behind this entry of a list. It is of use with that list only."""
    return base64.urlsafe_b64encode(_check(listing, last) + last.encode()).decode()


def last_before(listing: str, page_token: str) -> str:
    """The entry behind which the page begins; "" without a token. INVALID_ARGUMENT for one that this list didn't give.

    No secret is in it: a token tells where to read on in what the caller may read anyhow.
    """
    if not page_token:
        return ""
    try:
        raw = base64.b64decode(page_token.encode("ascii"), altchars=b"-_", validate=True)
        last = raw[_CHECK_BYTES:].decode()
    except ValueError:
        pass
    else:
        # Compared as it is written: one value has one token.
        if last and page_token == token_after(listing, last):
            return last
    raise no_such_token()


def no_such_token() -> InvalidArgument:
    """A page is asked for by what is no token of this list."""
    return InvalidArgument.of_field(
        "pageToken",
        "it is none that this list gave; pass nextPageToken as it came, or none for the first page",
    )


def _check(listing: str, last: str) -> bytes:
    return hashlib.blake2b(f"{listing}\0{last}".encode(), digest_size=_CHECK_BYTES).digest()
