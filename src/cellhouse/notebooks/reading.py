"""A notebook file, which anybody may have written, read within bounds: nbformat 4, and 3 and 2 brought up to it."""

from dataclasses import dataclass
from typing import Any, Final

from cellhouse.messages import BadJson, JsonLimits, parse_object
from cellhouse.model import InvalidArgument
from cellhouse.model.limits import SessionLimits
from cellhouse.notebooks.checking import Checker, Wrong
from cellhouse.notebooks.given import Cell, Given
from cellhouse.notebooks.limits import CELLS
from cellhouse.notebooks.old import cells_of_old
from cellhouse.notebooks.text import quoted

_OLDEST: Final = 2


_JSON: Final = JsonLimits(other_bytes=128 << 20, values=5_000_000, containers=1_000_000)


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Bytes of the file and of a code cell's UTF-8, cells, and what the JSON may hold besides long strings."""

    file_bytes: int = 512 << 20
    cells: int = CELLS
    code_bytes: int = SessionLimits().code_bytes
    json: JsonLimits = _JSON


class BadNotebook(InvalidArgument):
    """What was given is no notebook that can be run; the message names the cell that is at fault."""


def read_notebook(name: str, raw: bytes, limits: ReadLimits | None = None) -> Given:
    """The notebook in a file's bytes, as nbformat 4.5 has it. BadNotebook.

    `name` is what messages call it. Outputs of cells that will be run are not looked at, for they are replaced. What breaks
    the schema and means nothing is put right or left out, and told in `remarks`.
    """
    limits = limits or ReadLimits()
    if len(raw) > limits.file_bytes:
        raise _bad(
            name,
            f"more than {limits.file_bytes:,} bytes; clear its outputs (jupyter nbconvert --clear-output)",
        )
    try:
        # A long string is a view of `raw` until somebody asks for it, and nobody asks for that of an old output.
        document = parse_object(raw.removeprefix(b"\xef\xbb\xbf"), limits.json)
    except BadJson as error:
        raise _bad(name, f"{error}; a notebook is a JSON object, as Jupyter writes it") from None
    major, minor = _version(name, document)
    remarks: list[str] = []
    cells = document.get("cells") if major == 4 else cells_of_old(name, document, remarks)
    if not isinstance(cells, list):
        raise _bad(name, "it has no list of cells (`cells`); save it anew with Jupyter")
    if len(cells) > limits.cells:
        raise _bad(name, f"{len(cells):,} cells; at most {limits.cells:,} are run, so split it")
    checker = Checker(name, limits.code_bytes, remarks, newer=major == 4 and minor > 5, keeps_ids=minor > 4)
    made: list[Cell] = []
    try:
        for number, cell in enumerate(cells, 1):
            made.append(checker.cell(number, cell))
        metadata = checker.notebook_metadata(document.get("metadata", {}))
    except Wrong as error:
        raise _bad(name, str(error)) from None
    if major < 4 or minor < 5:
        remarks.insert(0, f"nbformat {major}.{minor} was brought up to 4.5")
    return Given(name, made, metadata, max(minor, 5) if major == 4 else 5, remarks)


def _version(name: str, document: dict[str, Any]) -> tuple[int, int]:
    numbers: list[int] = []
    for each in (document.get("nbformat"), document.get("nbformat_minor", 0)):
        if not isinstance(each, int) or isinstance(each, bool) or not 0 <= each < 10_000:
            raise _bad(
                name,
                "`nbformat` and `nbformat_minor` don't say which format it is in; save it anew with Jupyter",
            )
        numbers.append(each)
    major, minor = numbers
    if major < _OLDEST or major > 4:
        can = (
            "jupyter nbconvert --to notebook brings it up to 4"
            if major < _OLDEST
            else "save it as nbformat 4"
        )
        raise _bad(name, f"nbformat {major} is not read here, but {_OLDEST} to 4; {can}")
    return major, minor


def _bad(name: str, rule: str) -> BadNotebook:
    return BadNotebook.of_field(quoted(name, 200), rule)
