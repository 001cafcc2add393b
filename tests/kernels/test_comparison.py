"""The comparison overlooks what chance decides, and nothing else."""

import base64
from pathlib import Path

import pytest

from tests.kernels.cell import Cell
from tests.kernels.comparison import difference
from tests.kernels.normal import Normal
from tests.kernels.recording import Item, Recording

CELL = Cell("a-cell", "1")
REPLY: Item = ("reply", {"status": "ok", "counted": 1})


def told(*items: Item, raw: bool = False) -> list[Recording]:
    return [Recording((*items, REPLY), raw)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<Thing at 0x7f00aa11bb22>", "<Thing at 0x7f99cc33dd44>"),
        ("/here/ipykernel_12/345.py:3: Warning", "<ipython-input-7-0123456789ab>:3: Warning"),
        ("Wall time: 5.12 μs", "Wall time: 3 ms"),
        ("3/3 [00:00<00:00, 10.5it/s]", "3/3 [00:01<00:00, 2.1it/s]"),
        ("Cell In[3], line 1", "Cell In[12], line 1"),
        ("invalid syntax (123456789.py, line 1)", "invalid syntax (<ipython-input-1-aa00>, line 1)"),
    ],
)
def test_what_chance_decides_is_the_same(one: str, other: str) -> None:
    assert Normal(Path("/here")).text(one) == Normal(Path("/here")).text(other)


def test_ids_stay_apart_from_each_other() -> None:
    a, b = "0123456789abcdef" * 2, "fedcba9876543210" * 2
    assert Normal(Path("/x")).text(f"{a} {b} {a}") == "<id 1> <id 2> <id 1>"


def test_numbers_that_are_no_times_stay() -> None:
    text = "3333333333333333 1.5 0.25\n10 stones"
    assert Normal(Path("/x")).text(text) == text


def test_a_picture_is_told_by_its_size() -> None:
    def png(width: int, filling: bytes) -> str:
        head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4, "big") + (3).to_bytes(4, "big")
        return base64.b64encode(head + filling).decode()

    normal = Normal(Path("/x"))
    first = normal.bundle({"image/png": png(2, b"a" * 500)})
    assert first == {"image/png": "<png 2x3, 2**10 bytes>"}
    assert first == normal.bundle({"image/png": png(2, b"b" * 501)})
    assert first != normal.bundle({"image/png": png(4, b"a" * 500)})
    assert first != normal.bundle({"image/png": png(2, b"a" * 5000)})


@pytest.mark.parametrize(
    "other",
    [
        told(("text", "a\n", "")),
        told(("text", "a\nb", "")),
        told(("text", "b\na\n", "")),
        told(("text", "a\n", "b\n")),
        told(("text", "a\nb\n", ""), ("clear_output", {"wait": False})),
        told(),
    ],
)
def test_lost_moved_and_added_output_is_found(other: list[Recording]) -> None:
    assert difference(CELL, told(("text", "a\nb\n", "")), other)


def test_text_that_stands_elsewhere_is_found() -> None:
    shown: Item = ("display_data", {"text/plain": "1"}, {}, None)
    first = told(("text", "a\n", ""), shown, ("text", "b\n", ""))
    second = told(("text", "a\nb\n", ""), shown)
    assert difference(CELL, first, second)
    # What came by a descriptor has no place that the reference kernel could know.
    assert not difference(CELL, told(*first[0].items[:-1], raw=True), second)
    assert difference(CELL, told(("text", "a\nc\n", ""), shown, raw=True), second)


def test_a_lost_part_of_the_session_is_found() -> None:
    assert difference(CELL, [*told(), *told()], told())


def test_line_ends_of_a_terminal_count_where_nothing_runs_in_one() -> None:
    in_a_terminal = Cell("a-cell", "!echo a", terminal=True)
    first, second = told(("text", "a\r\n", "")), told(("text", "a\n", ""))
    assert difference(CELL, first, second)
    assert not difference(in_a_terminal, first, second)
