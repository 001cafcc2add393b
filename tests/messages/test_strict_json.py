"""Hostile JSON: what is refused, what is kept, and that long strings are never copied whole."""

import json
import random

import pytest
from hypothesis import given, strategies as st

from cellhouse.messages import BadJson, LongText, parse_object, text_chunks
from cellhouse.messages.long_text import CHUNK_BYTES
from cellhouse.messages.strict_json import MAX_STRINGS


def _long(text: str) -> LongText:
    return LongText(memoryview(json.dumps(text).encode()[1:-1]))


def test_a_small_object_is_parsed_whole() -> None:
    assert parse_object(b'{"a": [1, "x"], "b": null}') == {"a": [1, "x"], "b": None}


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"1", b"{", b'{"a":}', b'{"a":"\xff"}', b"\xff\xfe{}", b'{"a":' + b"9" * 5000 + b"}"]
)
def test_what_is_no_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(BadJson):
        parse_object(raw)


@pytest.mark.parametrize("depth", [201, 990, 5_000, 500_000])
def test_deep_json_is_refused(depth: int) -> None:
    with pytest.raises(BadJson, match="deeper"):
        parse_object(b'{"a":' + b"[" * depth + b"]" * depth + b"}")


def test_wide_json_is_not_taken_for_deep() -> None:
    raw = json.dumps({"a": [[i] for i in range(1000)]}).encode()
    assert len(parse_object(raw)["a"]) == 1000


def test_a_long_string_of_a_large_document_stays_where_it_is() -> None:
    text = 'ä€😀"\\\n' * 300_000
    raw = bytearray(json.dumps({"data": {"text/html": text, "text/plain": "short"}}).encode())
    data = parse_object(memoryview(raw))["data"]
    assert data["text/plain"] == "short"
    html = data["text/html"]
    assert isinstance(html, LongText)
    assert html.raw.obj is raw
    assert "".join(html.chunks()) == text


def test_a_large_document_with_too_many_values_is_refused() -> None:
    with pytest.raises(BadJson, match="values"):
        parse_object(b'{"a":[' + b"[]," * 2_000_001 + b"0]}")


def test_a_large_document_with_an_invalid_long_string_is_refused() -> None:
    with pytest.raises(BadJson):
        parse_object(b'{"a":"' + b"x" * 2_000_000 + b'\\q"}')
    with pytest.raises(BadJson):
        parse_object(b'{"a":"' + b"x" * 2_000_000 + b'\xff"}')


@given(
    st.lists(
        st.text(alphabet=st.sampled_from(['"', "\\", "\n", "u", "d", "8", "ä", "€", "😀", "x"])), min_size=1
    ),
    st.booleans(),
)
def test_a_large_document_reads_as_any_other(tails: list[str], ascii_only: bool) -> None:
    texts = ["y" * (CHUNK_BYTES - len(tail) // 2) + tail for tail in tails]
    plain = {"short": 'a"\\', "pad": "p" * (1 << 20), "long": texts, "nested": [{"more": texts[0] + '\\"'}]}
    read = parse_object(json.dumps(plain, ensure_ascii=ascii_only).encode())
    assert "".join(text_chunks(read["pad"])) == plain["pad"]
    assert ["".join(text_chunks(text)) for text in read["long"]] == texts
    assert "".join(text_chunks(read["nested"][0]["more"])) == texts[0] + '\\"'
    assert read["short"] == 'a"\\'


@pytest.mark.parametrize(
    "end", [b"", b"\\", b'\\"', b"\\\\\\", b'\\"}', b'\n"}', b'\x01"}', b'\\ud8"}', b'\xed\xa0\x80"}']
)
@pytest.mark.parametrize("begin", [b"x", b"\\\\"])
def test_a_large_document_with_a_long_string_that_does_not_end_well_is_refused(
    begin: bytes, end: bytes
) -> None:
    with pytest.raises(BadJson):
        parse_object(b'{"a":"' + begin * 1_000_000 + end)


def test_a_large_document_with_a_lone_surrogate_in_a_long_string_is_read() -> None:
    read = parse_object(b'{"a":"' + b"x" * 2_000_000 + b'\\udc00","b":"\\ud83d\\ude00"}')
    assert "".join(text_chunks(read["a"])) == "x" * 2_000_000 + "\\udc00"
    assert read["b"] == "😀"


def test_a_large_document_with_too_many_strings_is_refused() -> None:
    with pytest.raises(BadJson, match="strings"):
        parse_object(b'{"a":[' + b'"",' * (MAX_STRINGS + 1) + b"0]}")


def test_a_long_key_is_refused() -> None:
    with pytest.raises(BadJson, match="key"):
        parse_object(b'{"' + b"x" * 2_000_000 + b'": 1}')


@given(st.text(alphabet=st.sampled_from(['"', "\\", "\n", "u", "d", "8", "ä", "€", "😀", "x"]), min_size=0))
def test_chunks_of_a_long_text_join_to_the_text_wherever_they_are_cut(tail: str) -> None:
    pad = "y" * (CHUNK_BYTES - random.Random(len(tail)).randrange(0, 14))
    text = pad + tail + "z"
    for ascii_only in (True, False):
        raw = json.dumps(text, ensure_ascii=ascii_only).encode()[1:-1]
        assert "".join(LongText(memoryview(raw)).chunks()) == text


def test_lone_surrogates_become_visible_text_and_pairs_stay() -> None:
    raw = memoryview(b"a\\ud800b \\ud83d\\ude00 \\udc00")
    assert "".join(LongText(raw).chunks()) == "a\\ud800b 😀 \\udc00"


def test_an_escaped_backslash_before_ud800_is_no_surrogate() -> None:
    raw = memoryview(b"\\\\ud800")
    assert "".join(LongText(raw).chunks()) == "\\ud800"
    assert LongText(raw).raw is raw


def test_text_chunks_serves_both_forms() -> None:
    text = "ab" * CHUNK_BYTES
    assert "".join(text_chunks(text)) == "".join(text_chunks(_long(text))) == text
    assert all(len(piece) <= CHUNK_BYTES for piece in text_chunks(text))
