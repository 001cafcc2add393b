"""Pages by name."""

import base64
from dataclasses import dataclass

import pytest

from cellhouse.model import InvalidArgument
from cellhouse.runtime.paging import PAGE_SIZE, PAGE_SIZE_MAX, page_by_name


@dataclass(frozen=True)
class Thing:
    name: str


def things(count: int) -> list[Thing]:
    return [Thing(f"n{number:05}") for number in range(count)]


def test_pages_cover_everything_once_whatever_goes_meanwhile() -> None:
    all_of_them = things(10)
    page, token = page_by_name(reversed(all_of_them), 4, "")
    assert page == all_of_them[:4]
    page, token = page_by_name([thing for thing in all_of_them if thing.name != "n00003"], 4, token)
    assert page == all_of_them[4:8]
    page, token = page_by_name(all_of_them, 4, token)
    assert (page, token) == (all_of_them[8:], "")


def test_a_page_has_a_default_and_a_limit() -> None:
    many = things(PAGE_SIZE_MAX + 5)
    assert len(page_by_name(many, 0, "")[0]) == PAGE_SIZE
    assert len(page_by_name(many, 10**9, "")[0]) == PAGE_SIZE_MAX
    assert page_by_name([], 0, "") == ([], "")


@pytest.mark.parametrize("token", ["x", "é", "a" * 5, base64.urlsafe_b64encode(b"\xff").decode()])
def test_a_token_that_no_list_gave_is_refused(token: str) -> None:
    with pytest.raises(InvalidArgument, match="pageToken"):
        page_by_name(things(1), 0, token)


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="pageSize"):
        page_by_name(things(1), -1, "")
