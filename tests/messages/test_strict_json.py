"""Hostile JSON: what is refused, what is kept, and that long strings are never copied whole."""

import contextlib
import json
import random

import pytest
from hypothesis import given, settings, strategies as st

from cellhouse import messages
from cellhouse.messages import BadJson, LongText, parse_object, strict_json, text_chunks
from cellhouse.messages.long_text import CHUNK_BYTES
from cellhouse.messages.strict_json import MESSAGE


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


@pytest.mark.parametrize("depth", [201, 990, 5_000, 99_000])
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


@pytest.mark.parametrize(
    ("value", "most"), [(b"[]", MESSAGE.containers), (b"{}", MESSAGE.containers), (b"1", MESSAGE.values)]
)
def test_a_document_with_too_many_values_is_refused(value: bytes, most: int) -> None:
    wanted = most - 3
    assert len(parse_object(b'{"a":[%b0]}' % (b"%b," % value * wanted))["a"]) == wanted + 1
    for size in (0, strict_json.SMALL_BYTES):
        with pytest.raises(BadJson, match="values"):
            parse_object(b'{"a":[%b0],"b":"%b"}' % (b"%b," % value * (most + 1), b"x" * size))


@pytest.mark.parametrize("size", [400_000, 4_000_000])
def test_text_is_one_value_whatever_is_in_it(size: int) -> None:
    lines = [',[{\\"' * 5_000] * (size // 25_000)
    assert parse_object(json.dumps({"a": lines}).encode()) == {"a": lines}
    assert len(parse_object(json.dumps({"a": "".join(lines)}).encode())) == 1


def test_a_large_document_with_an_invalid_long_string_is_refused() -> None:
    with pytest.raises(BadJson):
        parse_object(b'{"a":"' + b"x" * 2_000_000 + b'\\q"}')
    with pytest.raises(BadJson):
        parse_object(b'{"a":"' + b"x" * 2_000_000 + b'\xff"}')


@settings(deadline=None, max_examples=30)
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
        parse_object(b'{"a":[' + b'"",' * (MESSAGE.strings + 1) + b"0]}")


def test_a_long_key_is_refused() -> None:
    with pytest.raises(BadJson, match="key"):
        parse_object(b'{"' + b"x" * 2_000_000 + b'": 1}')


@settings(deadline=None)
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


_KEYS = st.text(alphabet="ab[]{},:", max_size=8)
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=40)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


def _whole(value: object) -> object:
    if isinstance(value, LongText):
        return "".join(value.chunks())
    if isinstance(value, dict):
        return {key: _whole(child) for key, child in value.items()}
    return [_whole(child) for child in value] if isinstance(value, list) else value


@settings(deadline=None)
@given(st.dictionaries(_KEYS, _VALUES, max_size=4), st.booleans())
def test_a_large_document_means_what_a_small_one_does(value: dict[str, object], ascii_only: bool) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strict_json, "SMALL_BYTES", 0)
        patch.setattr(strict_json, "CHUNK_BYTES", 8)
        assert _whole(parse_object(raw)) == value


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_an_object_or_are_refused(raw: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strict_json, "SMALL_BYTES", 0)
        patch.setattr(strict_json, "CHUNK_BYTES", 4)
        for document in (raw, b'{"a": "' + raw + b'"}'):
            with contextlib.suppress(BadJson):
                assert isinstance(parse_object(document), dict)


@pytest.mark.parametrize(
    "inside", [b'a"b', b"\\", b"\\x", b"\\u12", b"a\nb", b"\x00", b"\xff", b"\xed\xa0\x80", b"\xc3"]
)
def test_what_is_not_the_inside_of_a_json_string_is_no_long_text(inside: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        LongText(memoryview(inside))


def test_a_long_text_knows_its_raw_length_and_not_more() -> None:
    assert len(LongText(memoryview(b"a\\u00e9"))) == 7


def test_everything_public_is_named_once() -> None:
    assert set(messages.__all__) == {
        "MAX_DEPTH", "BadJson", "JsonLimits", "LongText", "Message", "RawText", "parse_object", "text_chunks",
    }  # fmt: skip
    for name in messages.__all__:
        assert getattr(messages, name) is not None
