"""Jupyter frames: what is signed, what is refused, what is let through with a defect."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

import pytest

from cellhouse.kernel.wire import (
    DELIMITER,
    MAX_HEADER_BYTES,
    MAX_METADATA_BYTES,
    MAX_NAME_CHARS,
    BadMessage,
    Wire,
)
from cellhouse.messages import LongText, Message

KEY = b"key of this kernel"
WIRE = Wire(KEY, "session-1")
HEADER = {"msg_id": "abc_1_2", "msg_type": "stream", "session": "s", "date": "2026-01-01T00:00:00Z"}


def dump(value: Any) -> bytes:
    return json.dumps(value).encode()


def signed(*parts: bytes, key: bytes = KEY) -> list[bytes]:
    digest = hmac.new(key, b"".join(parts), hashlib.sha256).hexdigest().encode()
    return [DELIMITER, digest, *parts]


def frames(
    *, header: object = HEADER, parent: object = b"{}", metadata: object = b"{}", content: object = b"{}"
) -> list[bytes]:
    parts = (header, parent, metadata, content)
    return signed(*(part if isinstance(part, bytes) else dump(part) for part in parts))


def unpack(raw: list[bytes]) -> Message:
    return WIRE.unpack("iopub", [memoryview(frame) for frame in raw], sum(map(len, raw)))


def refusal(raw: list[bytes]) -> str:
    with pytest.raises(BadMessage) as caught:
        unpack(raw)
    return str(caught.value)


def test_a_message_is_read_whole() -> None:
    raw = frames(parent={"msg_id": "parent"}, metadata={"m": 1}, content={"text": "ü"})
    message = unpack([*raw, b"buffer one", b""])
    assert message.channel == "iopub"
    assert (message.msg_type, message.msg_id, message.parent_id) == ("stream", "abc_1_2", "parent")
    assert message.content == {"text": "ü"}
    assert message.metadata == {"m": 1}
    assert [bytes(buffer) for buffer in message.buffers] == [b"buffer one", b""]
    assert message.size == sum(map(len, raw)) + 10
    assert message.defect == ""


def test_what_is_packed_is_signed_and_reads_back() -> None:
    packed = WIRE.pack(
        "execute_request",
        {"code": "\ud800ü\n"},
        msg_id="m1",
        parent={"msg_id": "p"},
        metadata={"k": "v"},
    )
    message = unpack(packed)
    assert (message.msg_id, message.msg_type, message.parent_id) == ("m1", "execute_request", "p")
    assert message.content == {"code": "\ud800ü\n"}
    assert message.metadata == {"k": "v"}
    header = json.loads(packed[2])
    assert header["version"] == "5.4"
    assert header["session"] == "session-1"


def test_topic_frames_before_the_delimiter_are_skipped() -> None:
    assert unpack([b"kernel.x.stream", b"", *frames()]).msg_type == "stream"


@pytest.mark.parametrize(
    "raw",
    [
        [],
        [b""],
        [DELIMITER],
        frames()[:-1],
        [b"x"] * 8 + frames(),
        [b"<ids|msg>", *frames()[1:]],
    ],
    ids=["nothing", "empty", "delimiter only", "a part short", "delimiter too late", "no delimiter"],
)
def test_frames_of_no_message_are_refused(raw: list[bytes]) -> None:
    assert refusal(raw) == "frames of no Jupyter message"


@pytest.mark.parametrize(
    "signature",
    [
        b"",
        b"0" * 64,
        frames()[1][:-1],
        frames()[1] + b"0",
        frames()[1].upper(),
        frames()[1] * 1000,
        bytes(64),
        "ü".encode() * 32,
    ],
    ids=["empty", "zeros", "short", "long", "upper case", "huge", "NULs", "no ASCII"],
)
def test_a_wrong_signature_is_refused(signature: bytes) -> None:
    raw = frames()
    assert refusal([raw[0], signature, *raw[2:]]) == "wrong signature"


@pytest.mark.parametrize("part", [2, 3, 4, 5])
def test_a_part_changed_after_signing_is_refused(part: int) -> None:
    raw = frames()
    raw[part] = dump({"msg_id": "other"})
    assert refusal(raw) == "wrong signature"


def test_another_key_is_refused() -> None:
    parts = [dump(HEADER), b"{}", b"{}", b"{}"]
    assert refusal(signed(*parts, key=b"another")) == "wrong signature"


@pytest.mark.parametrize(
    ("what", "limit"),
    [("header", MAX_HEADER_BYTES), ("parent", MAX_HEADER_BYTES), ("metadata", MAX_METADATA_BYTES)],
)
def test_headers_have_a_limit(what: str, limit: int) -> None:
    def of_size(size: int) -> Mapping[str, object]:
        base = HEADER if what == "header" else {"msg_id": "p"}
        room = size - len(dump({**base, "pad": ""}))
        return {what: {**base, "pad": "x" * room}}

    assert unpack(frames(**of_size(limit))).msg_type == "stream"
    assert f"of {limit + 1} bytes, limit {limit}" in refusal(frames(**of_size(limit + 1)))


@pytest.mark.parametrize(
    "bad", [b"", b"[]", b"null", b"{", b"\xff", b'{"a":' + b"[" * 300 + b"]" * 300 + b"}", b"1"]
)
@pytest.mark.parametrize("what", ["header", "parent", "metadata"])
def test_a_header_that_is_no_small_object_is_refused(what: str, bad: bytes) -> None:
    raw = frames()
    raw[{"header": 2, "parent": 3, "metadata": 4}[what]] = bad
    assert "that is" in refusal(signed(*raw[2:]))


@pytest.mark.parametrize("bad", [None, 1, ["x"], {}, "x" * (MAX_NAME_CHARS + 1), "\ud800", "a\udfff"])
@pytest.mark.parametrize("name", ["msg_id", "msg_type"])
def test_a_header_without_usable_names_is_refused(name: str, bad: object) -> None:
    assert f"a {name} that is no string" in refusal(frames(header={**HEADER, name: bad}))
    without = {key: value for key, value in HEADER.items() if key != name}
    assert f"a {name} that is no string" in refusal(frames(header=without))


@pytest.mark.parametrize("bad", [None, 7, ["x"], {}, "x" * (MAX_NAME_CHARS + 1), "\udc00"])
def test_a_parent_with_an_unusable_name_is_refused(bad: object) -> None:
    assert "a parent msg_id that is no string" in refusal(frames(parent={"msg_id": bad}))


def test_each_message_has_its_own_parent() -> None:
    parents: list[object] = [
        {"msg_id": "a"},
        {"msg_id": "a"},
        {"msg_id": "b"},
        {},
        {"msg_id": "a"},
        b"{ }",
        {"msg_id": ""},
    ]
    assert [unpack(frames(parent=parent)).parent_id for parent in parents] == ["a", "a", "b", "", "a", "", ""]


def test_a_parent_that_is_refused_is_refused_again() -> None:
    for _ in range(2):
        assert "a parent msg_id that is no string" in refusal(frames(parent={"msg_id": 7}))
    assert unpack(frames(parent={"msg_id": "a"})).parent_id == "a"


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 200])
def test_keys_of_any_length_sign_as_hmac_has_it(length: int) -> None:
    key = bytes(range(length))
    raw = signed(dump(HEADER), b"{}", b"{}", b"{}", key=key)
    wire = Wire(key, "session-1")
    assert wire.unpack("iopub", raw, 0).msg_id == HEADER["msg_id"]
    packed = wire.pack("x", {}, msg_id="m")
    assert packed == signed(*packed[2:], key=key)


def test_a_message_without_a_parent_has_none() -> None:
    assert unpack(frames(parent={})).parent_id == ""


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"a": tru}', "not JSON"),
        (b'{"a": "\xff"}', "not JSON"),
        (b'{"a": ' + b"[" * 250 + b"]" * 250 + b"}", "deeper than 200 levels"),
        (b'{"a": ' + b"[" * 90_000, "deeper than 200 levels"),
        (b'{"a": ' + b"7" * 10_000 + b"}", "not JSON"),
    ],
    ids=["nothing", "a list", "broken", "no UTF-8", "deep", "very deep", "a long number"],
)
def test_unreadable_content_is_a_defect_and_no_refusal(content: bytes, why: str) -> None:
    message = unpack(frames(parent={"msg_id": "p"}, content=content))
    assert message.content == {}
    assert why in message.defect
    assert (message.msg_type, message.parent_id) == ("stream", "p")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_no_json_pass_as_floats(number: str) -> None:
    """Whoever writes JSON refuses them at their place; the rest of the message is good."""
    message = unpack(frames(content=f'{{"data": {{"n": {number}}}}}'.encode()))
    assert isinstance(message.content["data"]["n"], float)
    assert not message.defect


def test_long_text_of_a_large_message_is_not_copied() -> None:
    body = bytearray(dump({"data": {"text/html": "x" * (2 << 20)}}))
    views = [memoryview(part) for part in signed(dump(HEADER), b"{}", b"{}", bytes(body))]
    views[5] = memoryview(body)
    text = WIRE.unpack("iopub", views, len(body)).content["data"]["text/html"]
    assert isinstance(text, LongText)
    assert text.raw.obj is body
