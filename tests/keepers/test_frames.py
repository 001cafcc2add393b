"""Frames: whole ones out of any pieces, and nothing that is none."""

import struct

import pytest
from hypothesis import given, strategies as st

from cellhouse.keepers.frames import (
    FRAME_BYTES,
    Frames,
    Kind,
    ProtocolError,
    decode_json,
    encode,
    encode_json,
)

FRAME = st.tuples(st.sampled_from(Kind), st.integers(0, 2**32 - 1), st.binary(max_size=200))


@given(st.lists(FRAME, max_size=8), st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_frames_come_out_as_they_went_in_whatever_the_pieces(
    sent: list[tuple[Kind, int, bytes]], sizes: list[int]
) -> None:
    data = b"".join(encode(*frame) for frame in sent)
    frames, found, at, turn = Frames(), [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        found += list(frames.feed(data[at : at + size]))
        at, turn = at + size, turn + 1
    assert found == sent


@pytest.mark.parametrize("length", [0, 4, FRAME_BYTES + 1, 2**32 - 1])
def test_a_length_that_no_frame_has_is_refused_before_anything_is_held(length: int) -> None:
    with pytest.raises(ProtocolError, match=f"a frame of {length} bytes"):
        list(Frames().feed(struct.pack("!IBI", length, Kind.CALL, 1)))


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ProtocolError, match="kind 99"):
        list(Frames().feed(struct.pack("!IBI", 5, 99, 1)))


def test_a_frame_that_nobody_reads_is_not_written() -> None:
    with pytest.raises(ProtocolError, match="at most"):
        encode(Kind.RESULT, 1, bytes(FRAME_BYTES))


@pytest.mark.parametrize("document", [{"code": "print('\ud800')"}, {"a": [1, 2.5, None, True]}, "ä€😀", []])
def test_json_comes_back_as_it_was_lone_surrogates_included(document: object) -> None:
    assert decode_json(encode_json(document)) == document


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="no JSON"):
        decode_json(body)
