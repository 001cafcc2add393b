"""Any document that a model makes fits its own schema, is plain JSON, and reads back as itself."""

import functools
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st

from cellhouse.model import NetworkPolicy, RuntimeLimits, Wire, event_json_schema, parse_event
from tests.model.documents import EVENT_CLASSES, WIRE_CLASSES, of_class


def nulls(value: Any) -> bool:
    if isinstance(value, dict):
        return any(nulls(item) for item in value.values())
    if isinstance(value, list):
        return any(nulls(item) for item in value)
    return value is None


def validator(schema: dict[str, Any]) -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@functools.cache
def validators(cls: type[Wire]) -> tuple[jsonschema.Draft202012Validator, jsonschema.Draft202012Validator]:
    return validator(cls.json_schema()), validator(cls.json_schema("input"))


@functools.cache
def event_validator() -> jsonschema.Draft202012Validator:
    return validator(event_json_schema())


@pytest.mark.parametrize("cls", WIRE_CLASSES, ids=lambda cls: cls.__name__)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_document_fits_its_schema_and_round_trips(cls: type[Wire], data: st.DataObject) -> None:
    document = data.draw(of_class(cls))
    text = document.to_json()
    assert text.encode()
    written = json.loads(text)
    assert written == document.to_wire()
    assert not nulls(written)
    for made_or_taken in validators(cls):
        made_or_taken.validate(written)
    assert cls.from_wire(written) == document
    assert cls.from_json(text) == document
    assert cls.from_json(text.encode()) == document


@pytest.mark.parametrize("cls", WIRE_CLASSES, ids=lambda cls: cls.__name__)
def test_required_in_a_schema_is_what_is_always_written(cls: type[Wire]) -> None:
    schema = cls.json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert tuple(schema.get("required", ())) == cls.always_written()
    assert '"null"' not in json.dumps(schema)


@pytest.mark.parametrize("cls", EVENT_CLASSES, ids=lambda cls: cls.__name__)
@settings(max_examples=15, deadline=None)
@given(data=st.data(), seq=st.integers(1, 2**53 - 1))
def test_an_event_is_known_by_its_type(cls: type[Wire], data: st.DataObject, seq: int) -> None:
    event = data.draw(of_class(cls)).stamped(seq, "2026-01-02T03:04:05.678Z")
    written = event.to_wire()
    assert list(written)[:2] == ["seq", "time"]
    assert (written["seq"], written["time"]) == (seq, "2026-01-02T03:04:05.678Z")
    event_validator().validate(written)
    for form in (written, event.to_json(), event.to_json().encode()):
        read = parse_event(form)
        assert type(read) is cls
        assert read == event


@pytest.mark.parametrize("cls", WIRE_CLASSES, ids=lambda cls: cls.__name__)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_unknown_fields_and_nulls_are_ignored_on_input(cls: type[Wire], data: st.DataObject) -> None:
    document = data.draw(of_class(cls))
    written = document.to_wire()
    absent = {
        field.alias: None
        for name, field in cls.model_fields.items()
        if field.alias not in written and not field.is_required() and field.alias
    }
    # Of these nothing may be ignored: it would be a wall that is not there.
    future = {} if cls in (RuntimeLimits, NetworkPolicy) else {"fromTheFuture": {"deep": [None, 1]}}
    assert cls.from_wire({**written, **absent, **future}) == document


@pytest.mark.parametrize("cls", WIRE_CLASSES, ids=lambda cls: cls.__name__)
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_documents_are_frozen(cls: type[Wire], data: st.DataObject) -> None:
    document = data.draw(of_class(cls))
    with pytest.raises(ValueError, match="frozen"):
        setattr(document, next(iter(cls.model_fields)), "other")
