"""Pages of what lives in memory: in the order of names, so that a page goes on where the last one ended."""

import base64
import binascii
from collections.abc import Iterable
from typing import Protocol, TypeVar

from cellhouse.model import InvalidArgument

PAGE_SIZE = 100
PAGE_SIZE_MAX = 1_000


class Named(Protocol):
    """Anything with a resource name."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


def page_by_name(documents: Iterable[T], page_size: int, page_token: str) -> tuple[list[T], str]:
    """A page and the token of the next one, empty on the last. What came or went meanwhile moves nothing else."""
    if page_size < 0:
        raise InvalidArgument.of_field(
            "pageSize", f"{page_size} is negative; it takes 0 (the default) or more"
        )
    size = min(page_size or PAGE_SIZE, PAGE_SIZE_MAX)
    after = _name(page_token)
    found = sorted((each for each in documents if each.name > after), key=lambda each: each.name)
    more = len(found) > size
    return found[:size], _token(found[size - 1].name) if more else ""


def _token(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _name(page_token: str) -> str:
    try:
        return base64.b64decode(page_token.encode("ascii"), altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        raise InvalidArgument.of_field(
            "pageToken",
            "it is none that a list gave; pass nextPageToken as it came, or none for the first page",
        ) from None
