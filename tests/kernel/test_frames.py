"""Frames in any pieces, and all the ways in which bytes are none."""

import json
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from cellhouse.kernel.frames import (
    HEAD,
    HEADER_BYTES,
    MAX_BUFFERS,
    SCRATCH_BYTES,
    Frame,
    FrameDecoder,
    FrameError,
    pack,
)
from cellhouse.messages import LongText

MIB = 1 << 20


def frame(content: bytes = b"{}", buffers: Sequence[bytes] = (), **header: Any) -> bytes:
    """What a kernel would send."""
    full = {"type": "t", "channel": "iopub", "parent": "p", "epoch": 0, **header}
    if buffers:
        full.setdefault("buffers", [len(part) for part in buffers])
    head = json.dumps(full).encode()
    return HEAD.pack(len(head), len(content), sum(map(len, buffers))) + head + content + b"".join(buffers)


def feed(decoder: FrameDecoder, data: bytes, *, at_most: int = 1 << 30) -> None:
    view = memoryview(data)
    while view:
        space = decoder.space()
        count = min(len(space), len(view), at_most)
        assert count > 0
        space[:count] = view[:count]
        decoder.took(count)
        view = view[count:]


def frames_of(data: bytes, *, at_most: int = 1 << 30, limit: int = 8 * MIB) -> list[Frame]:
    frames: list[Frame] = []
    decoder = FrameDecoder(frames.append, limit=limit)
    feed(decoder, data, at_most=at_most)
    assert not decoder.begun
    return frames


def error_of(data: bytes, *, limit: int = 8 * MIB) -> FrameError:
    with pytest.raises(FrameError) as caught:
        frames_of(data, limit=limit)
    return caught.value


def text(length: int) -> bytes:
    return b'{"text":"' + b"x" * (length - 11) + b'"}'


@pytest.mark.parametrize(
    ("content", "buffers"),
    [
        (b"{}", []),
        (b'{"a":1}', [b"one", b"", b"three"]),
        (text(SCRATCH_BYTES), []),
        (text(SCRATCH_BYTES - 70), []),
        (b"{}", [b"b" * SCRATCH_BYTES]),
        (text(2 * MIB), [b"b" * (MIB + 1), b"c"]),
        (text(MIB - 1), [b"b" * MIB]),
    ],
    ids=["empty", "buffers", "scratch", "nearly scratch", "large buffer", "both mapped", "one mapped"],
)
@pytest.mark.parametrize("at_most", [1 << 30, 100_000])
def test_a_frame_arrives_as_it_was_sent(content: bytes, buffers: list[bytes], at_most: int) -> None:
    data = frame(content, buffers, epoch=7, parent="me", type="display_data") + frame(b'{"next":1}')
    first, second = frames_of(data, at_most=at_most)
    assert (first.msg_type, first.channel, first.parent, first.epoch) == ("display_data", "iopub", "me", 7)
    assert bytes(first.content) == content
    message = first.message()
    assert [bytes(part) for part in message.buffers] == buffers
    assert message.size == len(content) + sum(map(len, buffers))
    assert second.message().content == {"next": 1}


def test_a_long_string_stays_where_it_is() -> None:
    (only,) = frames_of(frame(text(2 * MIB)))
    value = only.message().content["text"]
    assert isinstance(value, LongText)
    assert value.raw.obj is memoryview(only.content).obj


@settings(max_examples=40, deadline=None)
@given(
    parts=st.lists(
        st.tuples(
            st.sampled_from([0, 1, 50, SCRATCH_BYTES - 20, SCRATCH_BYTES + 1, MIB + 5]),
            st.lists(st.sampled_from([0, 3, SCRATCH_BYTES, MIB]), max_size=2),
        ),
        max_size=4,
    ),
    pieces=st.lists(st.integers(1, SCRATCH_BYTES * 2), max_size=9).map(lambda sizes: [*sizes, SCRATCH_BYTES]),
)
def test_any_frames_in_any_pieces_arrive_whole(parts: list[tuple[int, list[int]]], pieces: list[int]) -> None:
    sent = [(text(size + 11), [bytes([size % 251]) * more for more in buffers]) for size, buffers in parts]
    data = memoryview(b"".join(frame(content, buffers) for content, buffers in sent))
    frames: list[Frame] = []
    decoder = FrameDecoder(frames.append, limit=8 * MIB)
    at = 0
    while data:
        size = min(pieces[at % len(pieces)], len(data))
        feed(decoder, bytes(data[:size]))
        data = data[size:]
        at += 1
    assert [(bytes(one.content), bytes(one.buffers)) for one in frames] == [
        (content, b"".join(buffers)) for content, buffers in sent
    ]


def test_a_frame_arrives_byte_by_byte() -> None:
    assert len(frames_of(frame(b'{"a":[1,2]}', [b"x"]) * 3, at_most=1)) == 3


def test_a_large_frame_whose_head_comes_byte_by_byte() -> None:
    frames: list[Frame] = []
    decoder = FrameDecoder(frames.append)
    data = frame(text(SCRATCH_BYTES * 2))
    feed(decoder, data[:200], at_most=1)
    feed(decoder, data[200:])
    assert [len(one.content) for one in frames] == [SCRATCH_BYTES * 2]


def test_what_is_begun_is_known() -> None:
    decoder = FrameDecoder(lambda _: None)
    large = frame(text(SCRATCH_BYTES * 2))
    begun = []
    for data in (b"", frame()[:-1], frame()[-1:], large[: SCRATCH_BYTES + 5], large[SCRATCH_BYTES + 5 :]):
        feed(decoder, data)
        begun.append(decoder.begun)
    assert begun == [False, True, False, True, False]


# hostile


@pytest.mark.parametrize(
    ("lengths", "size", "limit"),
    [
        ((10, MIB, 1), MIB + 1, MIB),
        ((10, 0, 2**64 - 1), 2**64 - 1, MIB),
        ((10, 2**32 - 1, 0), 2**32 - 1, MIB),
        ((HEADER_BYTES + 1, 2, 0), HEADER_BYTES + 1, HEADER_BYTES),
    ],
)
def test_a_size_above_the_limit_is_refused_as_it_is_announced(
    lengths: tuple[int, int, int], size: int, limit: int
) -> None:
    error = error_of(HEAD.pack(*lengths), limit=MIB)
    assert (error.oversized, error.limit) == (size, limit)
    assert f"{size} bytes, limit {limit}" in str(error)


def test_what_is_only_announced_takes_no_memory() -> None:
    head = json.dumps({"type": "t", "channel": "iopub", "buffers": [64 * MIB]}).encode()
    decoder = FrameDecoder(lambda _: None)
    tracemalloc.start()
    try:
        feed(decoder, HEAD.pack(len(head), 64 * MIB, 64 * MIB) + head + b"{")
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 5000, "deeper than 200 levels"),
        (b'{"a":' * 300 + b"1" + b"}" * 300, ""),
        (b"{}", "no channel"),
        (b'{"type":"t","channel":"control"}', "no channel"),
        (b'{"type":"t","channel":["iopub"]}', "no channel"),
        (b'{"channel":"iopub"}', "type is no ASCII string"),
        (b'{"type":"t","channel":"iopub","parent":1}', "parent is no ASCII string"),
        (b'{"type":"t","channel":"iopub","parent":"\\ud800"}', "parent is no ASCII string"),
        (b'{"type":"%b","channel":"iopub"}' % (b"t" * 257), "type is no ASCII string"),
        (b'{"type":"t","channel":"iopub","epoch":-1}', "epoch"),
        (b'{"type":"t","channel":"iopub","epoch":true}', "epoch"),
        (b'{"type":"t","channel":"iopub","epoch":1e3}', "epoch"),
        (b'{"type":"t","channel":"iopub","epoch":18446744073709551616}', "epoch"),
        (b'{"type":"t","channel":"iopub","metadata":[1]}', "metadata"),
        (b'{"type":"t","channel":"iopub","buffers":3}', "no list of lengths"),
        (b'{"type":"t","channel":"iopub","buffers":[true]}', "no list of lengths"),
        (b'{"type":"t","channel":"iopub","buffers":[-1,1]}', "no list of lengths"),
        (b'{"type":"t","channel":"iopub","buffers":[4]}', "whose lengths make 4"),
        (
            b'{"type":"t","channel":"iopub","buffers":[%b]}' % b",".join([b"0"] * (MAX_BUFFERS + 1)),
            "limit 1024",
        ),
    ],
)
def test_a_header_that_is_none(head: bytes, said: str) -> None:
    assert said in str(error_of(HEAD.pack(len(head), 2, 0) + head + b"{}"))


def test_buffers_that_the_header_does_not_know() -> None:
    assert "whose lengths make 0" in str(
        error_of(HEAD.pack(33, 2, 3) + b'{"type":"t","channel":"iopub"}   ' + b"{}abc")
    )


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b'{"a":' * 300 + b"1" + b"}" * 300])
def test_content_that_can_not_be_read_is_a_defect(content: bytes) -> None:
    (only,) = frames_of(frame(content))
    message = only.message()
    assert message.content == {}
    assert message.defect


@given(st.binary(max_size=300))
def test_any_bytes_are_frames_or_an_error(data: bytes) -> None:
    decoder = FrameDecoder(lambda one: None, limit=MIB)
    try:
        feed(decoder, data)
    except FrameError:
        return


def test_what_is_packed_is_a_frame() -> None:
    data = pack("execute_request", "id-1", {"code": "print('ä\ud800')"})
    head, content, buffers = HEAD.unpack_from(data)
    assert json.loads(data[16 : 16 + head]) == {"type": "execute_request", "id": "id-1"}
    assert json.loads(data[16 + head :]) == {"code": "print('ä\ud800')"}
    assert (len(data), buffers) == (16 + head + content, 0)
