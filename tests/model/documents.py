"""Any document that the model can make, as hypothesis strategies."""

import functools
import types
from enum import StrEnum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st

from cellhouse import model as m
from cellhouse.model.error_info import METADATA_KEY_PATTERN, REASON_PATTERN
from cellhouse.model.wire import INT32_MAX, INT64_MAX, Whole, Wire

awkward = st.sampled_from(
    ["", "a", "\0", '"', "\\", "\x1b[0m", "\r", "\u2028", "é", "🦆", "\ud800", "\udfff"]
)
texts = st.one_of(st.text(max_size=12), st.lists(awkward, max_size=5).map("".join))
reasons = st.from_regex(REASON_PATTERN[1:-1], fullmatch=True)
metadata = st.dictionaries(st.from_regex(METADATA_KEY_PATTERN[1:-1], fullmatch=True), texts, max_size=3)
counts = st.integers(0, INT64_MAX)
seconds = st.floats(min_value=0, allow_nan=False, allow_infinity=False)

mint_patterns = st.none() | st.lists(st.text(min_size=1, max_size=5), max_size=2).map(tuple)

error_infos = st.builds(m.ErrorInfo, reason=reasons, domain=texts, metadata=metadata)


def _whole(markers: tuple[Any, ...]) -> st.SearchStrategy[Any] | None:
    for marker in markers:
        if isinstance(marker, Whole):
            return st.integers(0, INT64_MAX if marker.wide else INT32_MAX)
    return None


def of_type(annotation: Any, markers: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:
    """Any value of a field's type."""
    if (whole := _whole(markers)) is not None:
        return whole
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if origin is Annotated:
        return of_type(arguments[0], tuple(arguments[1:]))
    if origin is Union or origin is types.UnionType:
        return st.one_of(*(of_type(member) for member in arguments))
    if origin is tuple:
        return st.lists(of_type(arguments[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(texts, of_type(arguments[1]), max_size=3)
    if origin is Literal:
        return st.sampled_from(arguments)
    if annotation is type(None):
        return st.none()
    if annotation is str:
        return texts
    if annotation is bool:
        return st.booleans()
    if annotation is bytes:
        return st.binary(max_size=8)
    if annotation is int:
        return st.integers(0, 2**31)
    if annotation is float:
        return seconds.filter(lambda value: value > 0)
    if issubclass(annotation, StrEnum):
        return st.sampled_from(annotation)
    if issubclass(annotation, Wire):
        return of_class(annotation)
    raise TypeError(f"no strategy for {annotation!r}")


def _fields(cls: type[Wire], **given: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    every = {
        name: given[name] if name in given else of_type(field.annotation, tuple(field.metadata))
        for name, field in cls.model_fields.items()
    }
    required = {name: every[name] for name, field in cls.model_fields.items() if field.is_required()}
    optional = {name: strategy for name, strategy in every.items() if name not in required}
    return st.fixed_dictionaries(required, optional=optional)


mime_types = st.lists(texts, min_size=1, max_size=3).map(tuple)


def _written_or_dropped(fields: dict[str, Any]) -> dict[str, Any]:
    if fields.get("error_info") is None:
        return {
            **fields,
            "file_path": fields.get("file_path") or "/content/.dsm_outputs/m/out-000.json",
            "error_info": None,
        }
    return {**fields, "file_path": None, "size_bytes": 0}


def _sized_or_dropped(fields: dict[str, Any]) -> dict[str, Any]:
    size = fields.get("size_bytes") or 0
    return {**fields, "size_bytes": size if fields.get("error_info") is None else None}


def _text_or_display(fields: dict[str, Any]) -> dict[str, Any]:
    if fields.get("text") is not None:
        return {**fields, "name": fields.get("name") or "stdout", "mime_types": None, "size_bytes": None}
    types_ = fields.get("mime_types") or ("image/png",)
    return {
        **fields,
        "name": None,
        "text": None,
        "mime_types": types_,
        "size_bytes": fields.get("size_bytes") or 0,
    }


def _consistent(fields: dict[str, Any]) -> dict[str, Any]:
    finished = fields["state"] is m.ExecutionState.FINISHED
    outcome = (fields.get("outcome") or m.Outcome.OK) if finished else None
    failed = finished and outcome is not m.Outcome.OK
    cut = fields.get("truncation")
    return {
        **fields,
        "outcome": outcome,
        "execution_error": (fields.get("execution_error") or m.ExecutionError()) if failed else None,
        "output_truncated": cut is not None and cut.cuts_output,
        "rich_outputs_dropped": bool(fields.get("rich_outputs")),
    }


def _one_target(fields: dict[str, Any]) -> dict[str, Any]:
    if fields.get("session") is None:
        return {**fields, "runtime": fields.get("runtime") or "runtimes/a", "session": None}
    return {**fields, "runtime": None}


@functools.cache
def of_class(cls: type[Wire]) -> st.SearchStrategy[Any]:
    """Any document of a class that keeps the rules between its fields."""
    if cls is m.ErrorInfo:
        return error_infos
    if cls is m.RichOutput:
        return _fields(cls, mime_types=mime_types).map(_written_or_dropped).map(lambda fields: cls(**fields))
    if cls is m.DisplayEvent:
        return _fields(cls, mime_types=mime_types).map(_sized_or_dropped).map(lambda fields: cls(**fields))
    if cls is m.LateEvent:
        return _fields(cls).map(_text_or_display).map(lambda fields: cls(**fields))
    if cls is m.ExecuteCodeResult:
        return _fields(cls).map(_consistent).map(lambda fields: cls(**fields))
    if cls is m.ExecuteCodeRequest:
        given = {
            "execution_id": st.from_regex(r"[A-Za-z0-9._~-]{0,128}", fullmatch=True),
            "output_limit": st.integers(1, m.OUTPUT_LIMIT_MAX),
            "environment": st.dictionaries(
                st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True), st.text(max_size=3), max_size=2
            ),
            "code": st.text(max_size=20),
            "session": st.none() | st.text(max_size=20),
            "runtime": st.none() | st.text(max_size=20),
            "mint": mint_patterns,
        }
        return _fields(cls, **given).map(_one_target).map(lambda fields: cls(**fields))
    if cls is m.NetworkPolicy:
        patterns = st.from_regex(r"(\*\.)?[a-z]{1,9}\.[a-z]{1,9}:[1-9][0-9]{0,3}", fullmatch=True)
        listed = st.lists(patterns, min_size=1, max_size=3).map(lambda allow: cls.from_wire({"allow": allow}))
        return (
            st.sampled_from(["none", "open"]).map(lambda policy: cls.from_wire({"policy": policy})) | listed
        )
    if cls is m.RuntimeLimits:
        given = {
            "cpus": st.floats(0.01, 1e6),
            **{
                name: st.integers(2**26, 2**31 - 1)
                for name in cls.model_fields
                if name not in ("cpus", "exact")
            },
        }
        return _fields(cls, **given).map(lambda fields: cls(**fields))
    if cls is m.RuntimeSpec:
        return _fields(cls, mint=mint_patterns).map(lambda fields: cls(**fields))
    given = {"reason": reasons} if "reason" in cls.model_fields else {}
    return _fields(cls, **given).map(lambda fields: cls(**fields))


EVENT_CLASSES: tuple[type[Wire], ...] = get_args(get_args(m.Event)[0])

WIRE_CLASSES: tuple[type[Wire], ...] = tuple(
    cls
    for cls in (getattr(m, name) for name in m.__all__)
    if isinstance(cls, type) and issubclass(cls, Wire) and cls is not Wire
)
