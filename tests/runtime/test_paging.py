"""Pages by name."""

import base64
from dataclasses import dataclass

import pytest
from hypothesis import given, strategies as st

from cellhouse.model import InvalidArgument
from cellhouse.model.pages import PAGE_SIZE, PAGE_SIZE_MAX, token_after
from cellhouse.runtime.paging import page_by_name, page_by_place


@dataclass(frozen=True)
class Thing:
    name: str


def things(count: int) -> list[Thing]:
    return [Thing(f"n{number:05}") for number in range(count)]


def test_pages_cover_everything_once_whatever_goes_meanwhile() -> None:
    all_of_them = things(10)
    page, token = page_by_name("things", reversed(all_of_them), 4, "")
    assert page == all_of_them[:4]
    page, token = page_by_name("things", [thing for thing in all_of_them if thing.name != "n00003"], 4, token)
    assert page == all_of_them[4:8]
    page, token = page_by_name("things", all_of_them, 4, token)
    assert (page, token) == (all_of_them[8:], "")


def test_a_page_has_a_default_and_a_limit() -> None:
    many = things(PAGE_SIZE_MAX + 5)
    assert len(page_by_name("things", many, 0, "")[0]) == PAGE_SIZE
    assert len(page_by_name("things", many, 10**9, "")[0]) == PAGE_SIZE_MAX
    assert page_by_name("things", [], 0, "") == ([], "")


TOKEN = page_by_name("things", things(3), 1, "")[1]
NO_TOKENS = {
    "no base64": "x",
    "not ASCII": "é",
    "no whole base64": "a" * 5,
    "no UTF-8": base64.urlsafe_b64encode(b"\xff").decode(),
    "a name alone": base64.urlsafe_b64encode(b"n00000").decode(),
    "made up": base64.urlsafe_b64encode(b"12345678zzzz").decode(),
    "another name's": base64.urlsafe_b64encode(base64.urlsafe_b64decode(TOKEN)[:8] + b"n00001").decode(),
    "a part of one": TOKEN[:-4],
    "more than one": TOKEN + TOKEN,
    "another list's": page_by_name("others", things(3), 1, "")[1],
    "of nothing": token_after("things", ""),
}


@pytest.mark.parametrize("token", NO_TOKENS.values(), ids=NO_TOKENS)
def test_a_token_that_this_list_did_not_give_is_refused(token: str) -> None:
    with pytest.raises(InvalidArgument, match="pageToken"):
        page_by_name("things", things(3), 0, token)


@given(st.text(max_size=40))
def test_whatever_is_passed_is_a_token_or_refused(token: str) -> None:
    for page in (page_by_name("things", things(1), 0, ""), page_by_place("things", [1], 0, "")):
        assert page[1] == ""
    if token:
        with pytest.raises(InvalidArgument, match="pageToken"):
            page_by_name("things", things(1), 0, token)
        with pytest.raises(InvalidArgument, match="pageToken"):
            page_by_place("things", [1], 0, token)


def test_pages_by_place_go_on_where_they_ended_also_when_more_has_come() -> None:
    entries = list(range(5))
    page, token = page_by_place("log", entries, 2, "")
    assert page == [0, 1]
    page, token = page_by_place("log", [*entries, 5], 2, token)
    assert page == [2, 3]
    assert page_by_place("log", [*entries, 5], 2, token) == ([4, 5], "")


@pytest.mark.parametrize("last", ["6", "-1", "x", "²", "9" * 30])
def test_a_place_that_is_not_there_is_refused(last: str) -> None:
    with pytest.raises(InvalidArgument, match="pageToken"):
        page_by_place("log", list(range(5)), 2, token_after("log", last))


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="pageSize"):
        page_by_name("things", things(1), -1, "")
