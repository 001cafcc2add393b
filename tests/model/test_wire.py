"""Presence, numbers, text: the rules that every document keeps."""

import json
from typing import Annotated

import pytest
from pydantic import ValidationError

from cellhouse.model import Base64, Int32, Int64, Text, Wire, plain_text, proto3


class Inner(Wire):
    count: Int64 = 0


class Sample(Wire):
    unmarked_text: Annotated[Text, proto3] = ""
    unmarked_list: Annotated[tuple[Text, ...], proto3] = ()
    unmarked_flag: Annotated[bool, proto3] = False
    unmarked_wide: Annotated[Int64, proto3] = 0
    unmarked_message: Inner | None = None
    marked_text: Text | None = None
    marked_list: tuple[Inner, ...] | None = None
    marked_wide: Int64 | None = None
    marked_narrow: Int32 | None = None
    marked_flag: bool | None = None
    marked_number: float | None = None
    marked_bytes: Base64 | None = None


def test_an_unmarked_field_at_its_default_is_left_out() -> None:
    assert Sample().to_wire() == {}
    assert Sample(unmarked_text="", unmarked_list=(), unmarked_flag=False, unmarked_wide=0).to_wire() == {}


def test_an_unmarked_field_with_a_value_is_written() -> None:
    sample = Sample(unmarked_text="a", unmarked_list=("",), unmarked_flag=True, unmarked_wide=1)
    assert sample.to_wire() == {
        "unmarkedText": "a",
        "unmarkedList": [""],
        "unmarkedFlag": True,
        "unmarkedWide": "1",
    }


def test_a_message_is_present_if_and_only_if_it_is_set() -> None:
    assert Sample(unmarked_message=Inner()).to_wire() == {"unmarkedMessage": {"count": "0"}}


def test_a_marked_field_that_was_observed_empty_is_written() -> None:
    sample = Sample(
        marked_text="",
        marked_list=(),
        marked_wide=0,
        marked_narrow=0,
        marked_flag=False,
        marked_number=0.0,
        marked_bytes=b"",
    )
    assert sample.to_wire() == {
        "markedText": "",
        "markedList": [],
        "markedWide": "0",
        "markedNarrow": 0,
        "markedFlag": False,
        "markedNumber": 0.0,
        "markedBytes": "",
    }


def test_null_on_input_means_absent() -> None:
    fields = Sample.model_fields.values()
    assert Sample.from_wire({field.alias: None for field in fields}) == Sample()
    assert Sample.from_json('{"markedList": [{"count": null}]}') == Sample(marked_list=(Inner(),))


def test_a_null_inside_a_list_of_text_is_refused() -> None:
    with pytest.raises(ValidationError):
        Sample.from_wire({"unmarkedList": [None]})


def test_wire_and_python_names_are_both_taken() -> None:
    assert Sample.from_wire({"unmarkedText": "a"}) == Sample.from_wire({"unmarked_text": "a"})


@pytest.mark.parametrize("given", [7, "7", 7.0])
def test_a_wide_integer_is_taken_as_number_or_string_and_written_as_string(given: object) -> None:
    assert Inner.from_wire({"count": given}).to_wire() == {"count": "7"}


@pytest.mark.parametrize("given", [2**63 - 1, str(2**63 - 1)])
def test_the_widest_integer_survives(given: object) -> None:
    assert Inner.from_wire({"count": given}).to_wire() == {"count": "9223372036854775807"}


@pytest.mark.parametrize(
    "given",
    [-1, "-1", 2**63, str(2**63), "", " 7", "7\n", "07", "7.0", "1_0", "٧", 7.5, 1e300, True, [7], {}],
)
def test_what_is_no_count_is_refused(given: object) -> None:
    with pytest.raises(ValidationError):
        Inner.from_wire({"count": given})


@pytest.mark.parametrize("given", [-1, 2**31, True, 1.5])
def test_a_narrow_integer_has_32_bits(given: object) -> None:
    with pytest.raises(ValidationError):
        Sample.from_wire({"markedNarrow": given})


def test_a_narrow_integer_is_a_number() -> None:
    assert Sample(marked_narrow=2**31 - 1).to_wire() == {"markedNarrow": 2147483647}


@pytest.mark.parametrize("given", [float("nan"), float("inf"), float("-inf")])
def test_no_document_holds_a_number_that_json_has_not(given: float) -> None:
    with pytest.raises(ValidationError):
        Sample(marked_number=given)
    with pytest.raises(ValueError, match="JSON compliant"):
        Sample().model_copy(update={"marked_number": given}).to_json()


@pytest.mark.parametrize(
    "text", ['{"markedNumber": NaN}', '{"unknown": Infinity}', "nothing", "", "[" * 10_000]
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="line 1"):
        Sample.from_json(text)


def test_bytes_are_base64_on_the_wire() -> None:
    sample = Sample(marked_bytes=b"\x00\xff")
    assert sample.to_wire() == {"markedBytes": "AP8="}
    assert Sample.from_wire({"markedBytes": "AP8="}) == sample
    with pytest.raises(ValidationError, match="base64"):
        Sample.from_wire({"markedBytes": "A P 8"})


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("plain", "plain"),
        ("é🦆", "é🦆"),
        ("a\ud800b", "a\\ud800b"),
        ("\udfff", "\\udfff"),
        # Two halves that Python keeps apart are two lone ones.
        ("\ud83e\udd86", "\\ud83e\\udd86"),
    ],
)
def test_a_lone_surrogate_becomes_its_literal_text(given: str, kept: str) -> None:
    assert plain_text(given) == kept
    sample = Sample(unmarked_text=given, unmarked_list=(given,), marked_text=given)
    assert sample.unmarked_text == kept
    assert json.loads(sample.to_json().encode()) == {
        "unmarkedText": kept,
        "unmarkedList": [kept],
        "markedText": kept,
    }


def test_a_surrogate_that_got_past_validation_is_still_encodable() -> None:
    sample = Sample.model_construct(unmarked_text="\ud800", unmarked_list=("\ud800",))
    assert json.loads(sample.to_json().encode()) == {"unmarkedText": "\\ud800", "unmarkedList": ["\\ud800"]}


def test_json_is_compact_and_not_escaped() -> None:
    assert Sample(unmarked_text="é", marked_narrow=1).to_json() == '{"unmarkedText":"é","markedNarrow":1}'


def test_an_error_does_not_repeat_what_was_sent() -> None:
    with pytest.raises(ValidationError) as caught:
        Sample.from_wire({"markedWide": "secret"})
    assert "secret" not in str(caught.value)
    assert "markedWide" in str(caught.value)


def test_a_proto3_field_must_default_to_the_empty_value() -> None:
    with pytest.raises(TypeError, match="must be the empty one"):

        class Wrong(Wire):
            flag: Annotated[bool, proto3] = True


def test_a_field_needs_one_form_in_json() -> None:
    with pytest.raises(TypeError, match="no single form"):

        class Wrong(Wire):
            either: Int64 | bool


def test_a_wide_integer_is_a_string_in_the_output_schema_and_either_in_the_input_schema() -> None:
    digits = {"type": "string", "pattern": "^(0|[1-9][0-9]{0,18})$"}
    number = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
    assert Inner.json_schema()["properties"]["count"] == digits
    assert Inner.json_schema("input")["properties"]["count"]["anyOf"] == [digits, number]
