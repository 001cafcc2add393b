"""Names and ids, good and bad."""

import re
import string

import pytest
from hypothesis import given, strategies as st

from cellhouse.model import (
    ExecutionName,
    InvalidArgument,
    RuntimeName,
    SessionName,
    check_artifact_id,
    check_execution_id,
    check_id,
    mint_artifact_id,
    mint_id,
    mint_uid,
)

GOOD_IDS = ["a", "z9", "a-b", "a--b", "rt-0", "a" * 63]
BAD_IDS = [
    "",
    "a" * 64,
    "A",
    "aB",
    "9a",
    "-a",
    "a-",
    "a_b",
    "a.b",
    "a b",
    "a\n",
    "\na",
    "a\0",
    "é",
    "а",  # Cyrillic
    "a/b",
    "..",
    "a\ud800",
    None,
    7,
    b"a",
]
GOOD_EXECUTION_IDS = ["a", "Z", "0", ".", "_", "~", "-", "a" * 128, "6f9619ff-8b86-d011-b42d-00c04fc964ff"]
BAD_EXECUTION_IDS = ["", "a" * 129, "a/b", "a b", "a\n", "é", "a+b", "a%20", "a:b", "\0", None, 7]


@pytest.mark.parametrize("value", GOOD_IDS)
def test_a_good_id(value: str) -> None:
    assert check_id(value) == value


@pytest.mark.parametrize("value", BAD_IDS)
def test_a_bad_id_names_the_field_and_the_rule(value: object) -> None:
    with pytest.raises(InvalidArgument, match="1 to 63 lower-case letters") as caught:
        check_id(value, "session")
    assert caught.value.metadata == {"field": "session"}
    assert str(caught.value).startswith("session: ")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("value", GOOD_EXECUTION_IDS)
def test_a_good_execution_id(value: str) -> None:
    assert check_execution_id(value) == value


@pytest.mark.parametrize("value", BAD_EXECUTION_IDS)
def test_a_bad_execution_id_names_the_field_and_the_rule(value: object) -> None:
    with pytest.raises(InvalidArgument, match="1 to 128 letters") as caught:
        check_execution_id(value)
    assert caught.value.metadata == {"field": "executionId"}


def test_a_long_value_is_not_repeated_whole() -> None:
    with pytest.raises(InvalidArgument, match=r"… \(1000000 characters\)") as caught:
        check_id("x" * 1_000_000)
    assert len(str(caught.value)) < 400


def test_names_and_their_parents() -> None:
    name = ExecutionName.parse("runtimes/rt-1/sessions/s/executions/E.1~x")
    assert name == ExecutionName("rt-1", "s", "E.1~x")
    assert str(name) == "runtimes/rt-1/sessions/s/executions/E.1~x"
    assert name.session_name == SessionName.parse("runtimes/rt-1/sessions/s")
    assert name.runtime_name == name.session_name.runtime_name == RuntimeName.parse("runtimes/rt-1")
    assert RuntimeName("rt-1").session("s").execution("E.1~x") == name


@pytest.mark.parametrize(
    "value",
    [
        "",
        "rt",
        "runtimes",
        "runtimes/",
        "runtimes//",
        "/runtimes/a",
        "runtimes/a/",
        "runtimes/A",
        "runtimes/a/sessions/b",
        "sessions/a",
        "runtimes/a\n",
        "Runtimes/a",
        "runtimes/..",
        "runtimes/%61",
        None,
        3,
    ],
)
def test_what_is_no_runtime_name(value: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        RuntimeName.parse(value, "name")
    assert caught.value.metadata == {"field": "name"}
    assert caught.value.reason == "INVALID_NAME"


@pytest.mark.parametrize(
    "value",
    [
        "runtimes/a",
        "runtimes/a/sessions",
        "runtimes/a/sessions/",
        "runtimes/a/sessions/b/",
        "runtimes/a/sessions/b/executions/c",
        "runtimes//sessions/b",
        "sessions/b/runtimes/a",
        "runtimes/a/sessions/" + "b" * 64,
    ],
)
def test_what_is_no_session_name(value: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^session: "):
        SessionName.parse(value)


@pytest.mark.parametrize(
    "value",
    [
        "runtimes/a/sessions/b",
        "runtimes/a/sessions/b/executions/",
        "runtimes/a/sessions/b/executions/c/d",
        "runtimes/a/sessions/b/executions/c d",
        "runtimes/a/sessions/B/executions/c",
    ],
)
def test_what_is_no_execution_name(value: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^execution: "):
        ExecutionName.parse(value)


def test_a_name_of_the_wrong_form_is_told_the_right_one() -> None:
    with pytest.raises(InvalidArgument, match=re.escape("runtimes/{runtime}/sessions/{session}")):
        SessionName.parse("runtimes/a")


@pytest.mark.parametrize(
    ("cls", "parts"), [(RuntimeName, ["A"]), (SessionName, ["a", ""]), (ExecutionName, ["a", "b", "/"])]
)
def test_a_bad_name_can_not_be_made_either(cls: type, parts: list[str]) -> None:
    with pytest.raises(InvalidArgument):
        cls(*parts)


ids = st.from_regex(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)


@given(ids, ids, st.text(alphabet=string.ascii_letters + string.digits + "._~-", min_size=1, max_size=128))
def test_names_round_trip(runtime: str, session: str, execution: str) -> None:
    name = ExecutionName(runtime, session, execution)
    assert ExecutionName.parse(str(name)) == name


@given(st.text())
def test_a_text_is_a_name_or_refused_and_never_something_else(value: str) -> None:
    try:
        name = ExecutionName.parse(value)
    except InvalidArgument:
        return
    assert str(name) == value


@pytest.mark.parametrize("prefix", ["rt", "rt-", "s"])
def test_a_minted_id_is_a_good_one(prefix: str) -> None:
    made = mint_id(prefix)
    assert check_id(made) == made
    assert re.fullmatch(prefix.rstrip("-") + "-[0-9a-z]{10}", made)
    assert mint_id(prefix) != made


def test_uids_are_ordered_and_unlike() -> None:
    made = [mint_uid() for _ in range(10_000)]
    assert made == sorted(set(made))
    assert all(re.fullmatch("[0-9a-f]{32}", uid) for uid in made)


def test_an_artifact_id() -> None:
    made = mint_artifact_id()
    assert check_artifact_id(made) == made
    assert re.fullmatch("art_[0-9A-Za-z]{22}", made)
    for bad in ("art_", made[:-1], made + "0", made + "\n", made.upper(), "art-" + made[4:]):
        with pytest.raises(InvalidArgument):
            check_artifact_id(bad)
