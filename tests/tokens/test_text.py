"""The text of a token: recognised by anybody, guessed by nobody."""

import re

import pytest
from hypothesis import given, strategies as st

from cellhouse.tokens.text import MAX_CHARS, PATTERN, digest_of, id_of, is_id, mint_token


def test_a_minted_token_is_recognised_and_carries_its_id() -> None:
    token, text = mint_token()
    assert re.fullmatch(PATTERN, text)
    assert is_id(token)
    assert id_of(text) == token


def test_no_two_are_alike() -> None:
    minted = [mint_token() for _ in range(500)]
    assert len({token for token, _ in minted}) == len({text for _, text in minted}) == 500


def test_a_secret_has_256_bits() -> None:
    secrets = [mint_token()[1].split("_")[2][:43] for _ in range(200)]
    assert 62**43 > 2**256
    # Every place takes many values but the first, which holds what is left of 256 bits.
    assert all(len({secret[place] for secret in secrets}) > 20 for place in range(1, 43))


@pytest.mark.parametrize("place", range(0, 70, 3))
def test_the_checksum_finds_one_wrong_character(place: int) -> None:
    _, text = mint_token()
    wrong = text[:place] + ("a" if text[place] != "a" else "b") + text[place + 1 :]
    assert id_of(wrong) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cellhouse_",
        "cellhouse_0123456789_" + "a" * 49,
        "cellhouse_0123456789_" + "é" * 49,
        "cellhouse_٠١٢٣٤٥٦٧٨٩_" + "a" * 49,
        "a" * 1_000_000,
        "\ud800",
        "\0",
    ],
)
def test_what_is_no_token_has_no_id(text: str) -> None:
    assert id_of(text) == ""


@pytest.mark.parametrize("around", ["{} ", " {}", "{}\n", "{}a", "x{}"])
def test_nothing_may_stand_around_it(around: str) -> None:
    assert id_of(around.format(mint_token()[1])) == ""


@given(st.text(max_size=2 * MAX_CHARS))
def test_any_text_has_a_digest(text: str) -> None:
    assert len(digest_of(text)) == 32


def test_a_digest_is_of_the_whole_token() -> None:
    _, text = mint_token()
    assert digest_of(text) != digest_of(text[:-1])
    assert digest_of(text) == digest_of(str(text))


@pytest.mark.parametrize("text", ["", "short", "0123456789a", "012345678A", "012345678\n", "../../../.."])
def test_what_is_no_id_is_none(text: str) -> None:
    assert not is_id(text)
