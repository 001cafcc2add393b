"""A display as an nbformat output: strict JSON on disk, whatever the kernel sent."""

import json
from typing import Any

import nbformat
import pytest
from hypothesis import given, strategies as st

from cellhouse.capture.bundle import Bundle
from cellhouse.messages import LongText
from cellhouse.model import CaptureLimits
from tests.capture.rig import PNG, long

LIMITS = CaptureLimits()


def bundle(data: Any, kind: Any = "display_data", **content: Any) -> Bundle:
    return Bundle({"data": data, **content}, kind, LIMITS)


def document(made: Bundle) -> Any:
    raw = b"".join(made.chunks())
    assert len(raw) == made.size
    assert b"".join(made.chunks()) == raw

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not strict JSON")

    return json.loads(raw.decode(), parse_constant=refuse)


def check_nbformat(output: Any) -> None:
    cell = nbformat.v4.new_code_cell(outputs=[nbformat.from_dict(output)])  # type: ignore[no-untyped-call]
    nbformat.validate(nbformat.v4.new_notebook(cells=[cell]))  # type: ignore[no-untyped-call]


def test_a_display_is_an_nbformat_output() -> None:
    data = {"text/plain": "<Figure>", "image/png": PNG + "\n", "application/json": {"a": [1, None, "ä"]}}
    made = bundle(data, metadata={"image/png": {"width": 9}})
    assert made.mime_types == ("image/png", "application/json")
    output = document(made)
    assert output == {"output_type": "display_data", "data": data, "metadata": {"image/png": {"width": 9}}}
    check_nbformat(output)


def test_a_value_has_its_execution_count() -> None:
    output = document(bundle({"text/html": "<b>"}, "execute_result", execution_count=7))
    assert output["execution_count"] == 7
    check_nbformat(output)
    for garbage in (None, "7", True, 2**40):
        assert (
            document(bundle({"text/html": ""}, "execute_result", execution_count=garbage))["execution_count"]
            is None
        )


def test_long_text_goes_to_disk_as_it_came() -> None:
    text = 'a "quoted" <b>\n' * 20_000 + "ä€😀"
    made = bundle(
        {"text/html": long(text), "application/json": {"deep": [long(text)]}, "text/plain": long("p" * 9)}
    )
    assert document(made)["data"] == {
        "text/html": text,
        "application/json": {"deep": [text]},
        "text/plain": "p" * 9,
    }
    escaped = LongText(memoryview(b"\\u00e4\\ud83d\\ude00\\/\\n"))
    assert document(bundle({"text/html": escaped}))["data"] == {"text/html": "ä😀/\n"}
    made.detach()
    assert document(made)["data"]["text/html"] == text


def test_a_long_string_is_the_same_as_a_short_one() -> None:
    text = 'ä"\\\n\x00\u2028😀' * 30_000 + "\ud800"
    assert document(bundle({"text/html": text}))["data"]["text/html"] == text[:-1] + "\\ud800"


def test_surrogates_become_text() -> None:
    data = {"application/json": {"k\udcff": ["\ud83d\ude00", "\\ud800", "\ud800"]}, "text/html": "\udcff"}
    assert document(bundle(data))["data"] == {
        "application/json": {"k\\udcff": ["😀", "\\ud800", "\\ud800"]},
        "text/html": "\\udcff",
    }


def test_nan_is_invalid_and_costs_only_its_own_representation() -> None:
    alone = bundle({"application/json": {"mean": float("nan")}, "text/plain": "{}"})
    assert not alone.valid
    assert alone.rich
    assert alone.mime_types == ("application/json",)
    beside = bundle({"application/json": {"mean": float("nan")}, "text/html": "<table>", "text/plain": "{}"})
    assert beside.valid
    assert beside.mime_types == ("text/html",)
    assert beside.cause == "application/json: not strict JSON"
    assert document(beside)["data"] == {"text/html": "<table>", "text/plain": "{}"}


@pytest.mark.parametrize(
    "data",
    [
        {"image/png": "not base64 at all: §§§"},
        {"text/html": {"no": "text"}},
        {"text/html": None},
        {"html": "<b>"},
        {"": "<b>"},
        {3: "<b>"},
        {"x" * 1_000 + "/y": "<b>"},
        {"application/json": {("a", "b"): 1}},
        {"application/json": object()},
        {"application/json": float("inf")},
        {f"text/x{i}": "" for i in range(65)},
    ],
)
def test_garbage_is_invalid_and_still_named(data: Any) -> None:
    made = bundle(data)
    assert not made.valid
    assert made.size == 0
    assert made.mime_types
    assert all(0 < len(name) <= 256 for name in made.mime_types)
    assert made.faults


def test_deep_json_is_invalid() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert not bundle({"application/json": deep}).valid


@pytest.mark.parametrize("metadata", [[], "x", 3, {"a": float("nan")}, {"a": {1, 2}}])
def test_bad_metadata_costs_only_itself(metadata: Any) -> None:
    made = bundle({"text/html": "<b>"}, metadata=metadata)
    assert made.valid
    assert document(made)["metadata"] == {}
    assert "metadata" in made.cause


def test_plain_text_alone_is_not_rich() -> None:
    made = bundle({"text/plain": ["a\n", "b"]})
    assert not made.rich
    assert made.plain == "a\nb"
    assert not bundle({"text/plain": 3}).rich
    assert not bundle({}).faults
    assert bundle("no object").faults


JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters(codec=None), max_size=8)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
NAMES = st.sampled_from(
    [
        "text/plain",
        "text/html",
        "image/png",
        "image/svg+xml",
        "application/json",
        "application/x+json",
        "bad",
        "",
    ]
)


@given(st.dictionaries(NAMES, JSON, max_size=5), JSON)
def test_whatever_is_sent_the_file_is_strict_json(data: Any, metadata: Any) -> None:
    made = bundle(data, metadata=metadata)
    if made.valid:
        output = document(made)
        assert set(output["data"]) >= set(made.mime_types)
        check_nbformat(output)
    else:
        assert made.size == 0
