"""Pages of what lives in memory or in one file, so that a page goes on where the last one ended."""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from cellhouse.model.pages import last_before, no_such_token, page_length, token_after


class Named(Protocol):
    """Anything with a resource name."""

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)
T = TypeVar("T")


def page_by_name(
    listing: str, documents: Iterable[N], page_size: int, page_token: str
) -> tuple[list[N], str]:
    """A page and the token of the next one, empty on the last. What came or went meanwhile moves nothing else.

    `listing` names the list: `runtimes`, `runtimes/r/sessions`.
    """
    size, after = page_length(page_size), last_before(listing, page_token)
    found = sorted((each for each in documents if each.name > after), key=lambda each: each.name)
    more = len(found) > size
    return found[:size], token_after(listing, found[size - 1].name) if more else ""


def page_by_place(
    listing: str, entries: Sequence[T], page_size: int, page_token: str
) -> tuple[Sequence[T], str]:
    """The same of a list that only grows at its end."""
    size, last = page_length(page_size), last_before(listing, page_token) or "0"
    if not (last.isascii() and last.isdigit() and len(last) < 10 and int(last) <= len(entries)):
        raise no_such_token()
    begin = int(last)
    end = begin + size
    return entries[begin:end], token_after(listing, str(end)) if len(entries) > end else ""
