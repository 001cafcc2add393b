"""The base of everything that goes over the wire: its names, its presence rules, its JSON and its JSON Schema."""

import base64
import json
import re
import types
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeVar, Union, get_args, get_origin

import pydantic_core
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
JSON_SCHEMA_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

# Our documents nest six levels at most; what is deeper is in no field of ours.
_NULL_DEPTH: Final = 16

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_DIGITS = re.compile(r"0|[1-9][0-9]{0,18}")
_DIGITS_PATTERN: Final = r"^(0|[1-9][0-9]{0,18})$"

T = TypeVar("T")

_encode_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def plain_text(value: str) -> str:
    """The text with each lone surrogate written out as `\\udXXX`, so that it can always be encoded as UTF-8."""
    if value.isascii():
        return value
    try:
        value.encode()  # much quicker than a search, and nearly always the end of it
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
    return value


def _plain_text_of_any(value: Any) -> Any:
    return plain_text(value) if isinstance(value, str) else value


def _integer(value: Any) -> Any:
    """Takes an integer as proto3 JSON allows it: a number or a string of digits. Never a bool."""
    if type(value) is int:
        return value
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    raise ValueError("takes a whole number that is not negative, or a string of its digits")


def _bytes(value: Any) -> Any:
    """Takes bytes as they are, and text as their base64."""
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise ValueError("takes base64 (RFC 4648, section 4, with padding)") from None


class Proto3:
    """Marks a field that follows proto3 JSON: at its default (empty, false, 0) it is left out."""

    __slots__ = ()


class Whole:
    """An integer from 0 to a maximum; a wide one is a string in JSON, as proto3 has it for 64 bits."""

    __slots__ = ("maximum", "wide")

    def __init__(self, maximum: int, *, wide: bool) -> None:
        self.maximum = maximum
        self.wide = wide

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        inner = core_schema.int_schema(strict=True, ge=0, le=self.maximum)
        return core_schema.no_info_before_validator_function(_integer, inner)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        number: JsonSchemaValue = {"type": "integer", "minimum": 0, "maximum": self.maximum}
        digits: JsonSchemaValue = {"type": "string", "pattern": _DIGITS_PATTERN}
        if handler.mode == "validation":
            return {"anyOf": [digits, number] if self.wide else [number, digits]}
        return digits if self.wide else number


proto3: Final = Proto3()

# Text that may come from hostile code: always encodable once it is in a model.
Text = Annotated[str, BeforeValidator(_plain_text_of_any)]
# Bytes in Python, base64 in JSON.
Base64 = Annotated[
    bytes,
    BeforeValidator(_bytes),
    WithJsonSchema({"type": "string", "contentEncoding": "base64"}),
]
Int32 = Annotated[int, Whole(INT32_MAX, wide=False)]
Int64 = Annotated[int, Whole(INT64_MAX, wide=True)]

_Encoder = Callable[[Any], Any]


def _each(encode: _Encoder | None) -> _Encoder:
    return list if encode is None else lambda values: [encode(value) for value in values]


def _encoder(annotation: Any, metadata: tuple[Any, ...] = ()) -> _Encoder | None:
    """How a value of this type becomes JSON-ready; None where it already is."""
    if any(isinstance(marker, Whole) and marker.wide for marker in metadata):
        return str
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *markers = get_args(annotation)
        return _encoder(inner, tuple(markers))
    if origin is Union or origin is types.UnionType:
        members = [member for member in get_args(annotation) if member is not type(None)]
        encoders = {_encoder(member) for member in members}
        if len(encoders) != 1:
            raise TypeError(f"{annotation} has no single form in JSON; give it one type")
        return encoders.pop()
    if origin is tuple:
        return _each(_encoder(get_args(annotation)[0]))
    if origin is dict:
        each = _each(_encoder(get_args(annotation)[1]))
        return lambda values: dict(zip(map(plain_text, values), each(values.values()), strict=True))
    if origin is Literal or annotation in (int, float, bool):
        return None
    if annotation is str:
        return plain_text
    if annotation is bytes:
        return lambda value: base64.b64encode(value).decode("ascii")
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return str
    if isinstance(annotation, type) and issubclass(annotation, Wire):
        return annotation.to_wire
    raise TypeError(f"{annotation!r} has no form in JSON; use a type that wire.py knows")


class _WireSchema(GenerateJsonSchema):
    """JSON Schema as the wire has it: no nulls, and `required` is what is always written."""

    schema_dialect = JSON_SCHEMA_DIALECT

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        # In a document that we made, a field that is absent has no default: it says something.
        if self.mode == "serialization" or schema.get("default") is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        cls = schema["cls"]
        if self.mode == "serialization" and issubclass(cls, Wire):
            made.pop("required", None)
            if required := cls.always_written():
                made["required"] = list(required)
        return made


def without_nulls(value: Any, depth: int = _NULL_DEPTH) -> Any:
    """The document without members that are null; proto3 JSON takes such a one as absent."""
    if depth and isinstance(value, dict):
        return {key: without_nulls(item, depth - 1) for key, item in value.items() if item is not None}
    if depth and isinstance(value, list):
        return [without_nulls(item, depth - 1) for item in value]
    return value


def read_leniently(read: Callable[[Any], T], obj: Any) -> T:
    """Reads a document; where that fails, once more without its nulls. They are rare, so not looked for before."""
    try:
        return read(obj)
    except ValidationError as error:
        if all(
            found["input"] is not None for found in error.errors(include_url=False, include_context=False)
        ):
            raise
    return read(without_nulls(obj))


class Wire(BaseModel):
    """A frozen document. Lower-camel-case names on the wire, snake case in Python; both are taken on input.

    A field marked `proto3` is left out at its default; any other is left out only when it is None, so an
    observed 0 or empty list is written. Null is never written; on input it means absent. Fields that are not
    known are ignored. Lists are tuples in Python.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
    )

    # (attribute, name on the wire, left out at its default, encoder)
    _plan: ClassVar[tuple[tuple[str, str, bool, _Encoder | None], ...]] = ()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        cls._plan = tuple(cls._planned(name, field) for name, field in cls.model_fields.items())

    @classmethod
    def _planned(cls, name: str, field: FieldInfo) -> tuple[str, str, bool, _Encoder | None]:
        unmarked = any(isinstance(marker, Proto3) for marker in field.metadata)
        if unmarked and not field.is_required() and field.get_default(call_default_factory=True):
            raise TypeError(f"{cls.__name__}.{name} is marked proto3, so its default must be the empty one")
        return name, field.alias or name, unmarked, _encoder(field.annotation, tuple(field.metadata))

    @classmethod
    def always_written(cls) -> tuple[str, ...]:
        """The wire names that are in every document that this class makes."""
        fields = cls.model_fields
        return tuple(
            alias
            for name, alias, unmarked, _ in cls._plan
            if not unmarked and (fields[name].is_required() or fields[name].get_default() is not None)
        )

    def to_wire(self) -> dict[str, Any]:
        """The document as JSON-ready dicts, lists, strings, numbers and bools, by the presence rules."""
        values = self.__dict__
        made: dict[str, Any] = {}
        for name, alias, unmarked, encode in self._plan:
            value = values[name]
            if value is None or (unmarked and not value):
                continue
            made[alias] = value if encode is None else encode(value)
        return made

    def to_json(self) -> str:
        """The document as compact JSON. It can always be encoded as UTF-8, and has no NaN or infinity."""
        return _encode_json(self.to_wire())

    @classmethod
    def from_wire(cls, obj: Any) -> Self:
        """Reads a JSON-ready object. Raises pydantic.ValidationError (a ValueError) that names each bad field."""
        return read_leniently(cls.model_validate, obj)

    @classmethod
    def from_json(cls, data: str | bytes) -> Self:
        """Reads JSON text. Raises ValueError where it is not JSON, is too deep, or doesn't fit the fields."""
        return cls.from_wire(pydantic_core.from_json(data, allow_inf_nan=False))

    @classmethod
    def json_schema(cls, mode: Literal["output", "input"] = "output") -> dict[str, Any]:
        """JSON Schema (draft 2020-12) of the documents that this class makes, or of those that it takes."""
        return wire_schema(cls, mode)


def wire_schema(model: Any, mode: Literal["output", "input"] = "output") -> dict[str, Any]:
    """JSON Schema of a Wire class, or of a union of them."""
    made = TypeAdapter(model).json_schema(
        by_alias=True,
        schema_generator=_WireSchema,
        mode="serialization" if mode == "output" else "validation",
    )
    return {"$schema": JSON_SCHEMA_DIALECT, **made}
