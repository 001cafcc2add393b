"""Names of inputs and the file names that they become."""

import pytest
from hypothesis import given, strategies as st

from cellhouse.files import relative_path
from cellhouse.model import (
    CellhouseError,
    InvalidArgument,
    ResourceExhausted,
    check_input,
    input_file_name,
    inputs_variable,
    mint_artifact_id,
)

awkward = st.sampled_from(
    [".", "..", "/", "%", "%2F", "~", "%~", "\\", "\0", "\n", " ", "-", "ä", "a\u0308", "\u202e", "a"]
)
names = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60),
    st.lists(awkward, min_size=1, max_size=12).map("".join),
    st.tuples(st.text("ab\u00e9", min_size=150, max_size=400), awkward).map("".join),
)


@given(names)
def test_a_file_name_leads_nowhere(name: str) -> None:
    made = input_file_name(name)
    raw = made.encode()
    assert relative_path(made.replace("\\", "\\\\")) == raw
    assert b"/" not in raw
    assert len(raw) <= 255
    assert not made.startswith((".", "-"))
    assert made.isprintable()


@given(st.lists(names, unique=True, min_size=2, max_size=20))
def test_other_names_are_other_files(several: list[str]) -> None:
    assert len({input_file_name(name) for name in several}) == len(several)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("data.csv", "data.csv"),
        ("Umsätze 2031 (2).xlsx", "Umsätze 2031 (2).xlsx"),
        ("..", "%2E."),
        (".env", "%2Eenv"),
        ("a/b.csv", "a%2Fb.csv"),
        ("a%2Fb.csv", "a%252Fb.csv"),
        ("-rf", "%2Drf"),
        ("new\nline", "new%0Aline"),
    ],
)
def test_what_names_become(name: str, file: str) -> None:
    assert input_file_name(name) == file


def test_a_long_name_keeps_its_beginning_and_its_extension() -> None:
    made = input_file_name("x" * 1_000 + ".csv")
    assert made.startswith("xxxxxxxx")
    assert made.endswith(".csv")


@pytest.mark.parametrize("name", ["", "x" * 1_025, "\ud800", 7])
def test_what_is_no_name(name: object) -> None:
    with pytest.raises(InvalidArgument):
        input_file_name(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, 7, "some text", "art_short", {"data": "x"}])
def test_what_is_no_input(value: object) -> None:
    with pytest.raises(CellhouseError) as refused:
        check_input("x", value)
    assert refused.value.status == "INVALID_ARGUMENT"


def test_what_is_an_input() -> None:
    ref = mint_artifact_id()
    assert check_input("x", ref) == ref
    assert check_input("x", bytearray(b"ab")) == b"ab"


def test_there_is_room_for_so_many_only() -> None:
    with pytest.raises(ResourceExhausted) as refused:
        inputs_variable({f"input-{number}": f"/content/inputs/{number}" for number in range(2_000)})
    assert refused.value.metadata["limit"] == "CELLHOUSE_INPUTS"
