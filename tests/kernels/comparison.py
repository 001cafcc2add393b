"""Two recordings of one cell beside each other."""

import difflib
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from tests.kernels.cell import Cell
from tests.kernels.recording import Item, Recording

APART = ("execute_input", "input")
"""They come on channels of their own, or say nothing of the code: nobody counts on where they stand among the rest."""
SHOWN_LINES = 40
SHOWN_CHARS = 2_000
COMPARED_LINES = 5_000
"""Longer text is compared by its digest."""


def difference(cell: Cell, first: Sequence[Recording], second: Sequence[Recording]) -> str:
    """What the second tells otherwise than the first, as a readable diff; empty where it tells the same.

    Where text came by the descriptors of the first's process, or the cell leaves its order to chance, only
    the lines count, not where they stand.
    """
    loose = cell.loose or any(part.raw for part in first)
    one, other = (
        list(_lines(recordings, loose=loose, terminal=cell.terminal)) for recordings in (first, second)
    )
    if one == other:
        return ""
    diff = list(difflib.unified_diff(one, other, lineterm="", n=1))[2:]
    return "\n".join(_shown(line) for line in diff[:SHOWN_LINES])


def _shown(line: str) -> str:
    if len(line) <= SHOWN_CHARS:
        return line
    return f"{line[:SHOWN_CHARS]} … {len(line)} characters, digest {_digest(line[1:])}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12]


def _lines(recordings: Sequence[Recording], *, loose: bool, terminal: bool) -> Iterator[str]:
    for number, recording in enumerate(recordings):
        yield f"# part {number}"
        apart = [item for item in recording.items if item[0] in APART]
        told = list(_joined(item for item in recording.items if item[0] not in APART))
        for item in [*sorted(apart), *(_without_order(told) if loose else told)]:
            yield from _lines_of(_without_returns(item) if terminal else item)


def _without_returns(item: Item) -> Item:
    return item[:1] + tuple(
        part.replace("\r\n", "\n") if isinstance(part, str) else part for part in item[1:]
    )


def _joined(items: Iterable[Item]) -> Iterator[Item]:
    """Neighbouring texts as one: something between them may have gone."""
    for is_text, group in groupby(items, lambda item: item[0] == "text"):
        if is_text:
            texts = list(group)
            yield ("text", *("".join(text[at] for text in texts) for at in (1, 2)))
        else:
            yield from group


def _lines_of(item: Item) -> Iterator[str]:
    match item:
        case ("text", stdout, stderr):
            for name, text in (("stdout", stdout), ("stderr", stderr)):
                lines = text.splitlines(keepends=True)
                if len(lines) <= COMPARED_LINES:
                    yield from (f"{name} {line!r}" for line in lines)
                else:
                    yield f"{name} of {len(lines)} lines, digest {_digest(text)}"
        case (kind, *rest):
            yield f"{kind} {json.dumps(rest, ensure_ascii=False, default=repr)}"


def _without_order(items: Sequence[Item]) -> Iterator[Item]:
    """The text of all of it first, its lines sorted; then what is no text."""
    texts = [item for item in items if item[0] == "text"]
    joined = ["".join(text[at] for text in texts) for at in (1, 2)]
    yield ("text", *("\n".join(sorted(text.splitlines())) for text in joined))
    yield from (item for item in items if item[0] != "text")
