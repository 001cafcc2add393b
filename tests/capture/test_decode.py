"""Text made clean: pairs and characters cut at chunk borders, stray bytes, lone surrogates."""

import json
from itertools import pairwise

from hypothesis import given, strategies as st

from cellhouse.capture.decode import PIECE_BYTES, ByteDecoder, TextCleaner, clean, cleaned, gathered, pieces
from tests.capture.rig import long


def fed(chunks: list[str]) -> str:
    cleaner = TextCleaner()
    made = [piece for chunk in chunks for piece in cleaner.feed(chunk)] + list(cleaner.finish())
    assert all(piece.data == piece.text.encode() for piece in made)
    return "".join(piece.text for piece in made)


def decoded(chunks: list[bytes]) -> str:
    decoder = ByteDecoder()
    made = [piece for chunk in chunks for piece in decoder.feed(chunk)] + list(decoder.finish())
    assert all(piece.text and piece.data == piece.text.encode() for piece in made)
    return "".join(piece.text for piece in made)


def test_a_surrogate_pair_cut_in_two_is_joined() -> None:
    assert fed(["a\ud83d", "\ude00b"]) == "a😀b"
    assert fed(["a\ud83d", "", "\ude00b"]) == "a😀b"


def test_lone_surrogates_become_their_escape_as_text() -> None:
    assert fed(["report-\udcff.csv"]) == "report-\\udcff.csv"
    assert fed(["\ud83d", "x", "\ud83d"]) == "\\ud83dx\\ud83d"
    assert fed(["\ude00\ud83d"]) == "\\ude00\\ud83d"
    assert clean("\ud83d\ude00 \ud83d") == "😀 \\ud83d"
    assert json.loads('"' + clean("\udcff", backslash="\\\\") + '"') == "\\udcff"


def test_a_character_cut_in_two_is_never_a_replacement_character() -> None:
    data = "ä€😀".encode()
    assert decoded([data[i : i + 1] for i in range(len(data))]) == "ä€😀"


def test_stray_bytes_become_replacement_characters() -> None:
    assert decoded([b"a\xff\xfeb\xe2\x82"]) == "a\ufffd\ufffdb\ufffd"
    assert decoded([b"\xf0\x9f", b"x"]) == "\ufffdx"


def test_bytes_that_are_text_already_are_not_copied() -> None:
    """A hundred megabytes of prints come this way."""
    data = b"x" * (PIECE_BYTES - 3) + "€".encode()
    (piece,) = ByteDecoder().feed(data)
    assert piece.data is data


def test_a_chunk_of_bytes_is_one_piece_wherever_it_is_cut() -> None:
    data = "ä€😀".encode() * 50_000
    decoder = ByteDecoder()
    for start in range(0, len(data), PIECE_BYTES):
        assert len(list(decoder.feed(data[start : start + PIECE_BYTES]))) == 1
    assert list(decoder.finish()) == []


def test_pieces_of_bytes_are_bounded() -> None:
    for data in (b"x" * 200_000, "ä€😀".encode() * 50_000, b"\xff" * 200_000, b"\xe2\x82" * 100_000):
        decoder = ByteDecoder()
        list(decoder.feed(b"\xf0\x9f\x98"))
        made = [*decoder.feed(data), *decoder.finish()]
        assert "".join(piece.text for piece in made) == (b"\xf0\x9f\x98" + data).decode("utf-8", "replace")
        assert all(len(piece.text) <= PIECE_BYTES and len(piece.data) <= PIECE_BYTES + 3 for piece in made)


def test_pieces_are_bounded_in_bytes_and_lose_nothing() -> None:
    for text in ("x" * 200_000, "ä€😀" * 70_000, ""):
        made = list(pieces(text))
        assert "".join(piece.text for piece in made) == text
        assert all(0 < len(piece.data) <= PIECE_BYTES for piece in made)


def test_a_long_text_is_cleaned_chunk_by_chunk() -> None:
    text = "ä€😀\n" * 50_000
    assert "".join(piece.text for piece in cleaned(long(text))) == text


def test_small_pieces_are_put_together() -> None:
    made = list(gathered(piece for _ in range(10_000) for piece in pieces("0123456789é")))
    assert len(made) == 2
    assert "".join(piece.text for piece in made) == "0123456789é" * 10_000
    assert all(piece.data == piece.text.encode() and len(piece.data) <= PIECE_BYTES for piece in made)
    assert list(gathered([])) == []


@given(st.lists(st.text(st.characters(codec=None), max_size=6)))
def test_how_text_is_cut_makes_no_difference(chunks: list[str]) -> None:
    assert fed(chunks) == clean("".join(chunks))
    fed(chunks).encode()


@given(
    st.one_of(st.binary(max_size=40), st.text("aäߺ€﷽😀\ufffd", max_size=12).map(str.encode)),
    st.lists(st.integers(0, 40)),
)
def test_how_bytes_are_cut_makes_no_difference(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(data)]
    assert decoded([data[a:b] for a, b in pairwise(edges)]) == data.decode("utf-8", "replace")
