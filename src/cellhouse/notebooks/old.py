"""Cells of the notebook formats before 4, as cells of 4. Their outputs are not taken over."""

from typing import Any, Final

from cellhouse.notebooks.text import quoted

_HEADINGS: Final = 6


def cells_of_old(name: str, document: dict[str, Any], remarks: list[str]) -> list[Any] | None:
    """All cells of all worksheets of nbformat 2 and 3; None where there is no list of them."""
    sheets = document.get("worksheets")
    if not isinstance(sheets, list):
        return None
    found: list[Any] = []
    had_outputs = 0
    for sheet in sheets:
        cells = sheet.get("cells") if isinstance(sheet, dict) else None
        if not isinstance(cells, list):
            return None
        for cell in cells:
            had_outputs += bool(isinstance(cell, dict) and cell.get("outputs"))
            found.append(_cell(cell) if isinstance(cell, dict) else cell)
    if had_outputs:
        remarks.append(f"{quoted(name, 200)}: outputs of {had_outputs} cells of the old format were left out")
    return found


def _cell(cell: dict[str, Any]) -> dict[str, Any]:
    kind, metadata = cell.get("cell_type"), cell.get("metadata", {})
    if kind == "code":
        return {
            "cell_type": "code",
            "metadata": metadata,
            "source": _joined(cell.get("input", "")),
            "outputs": [],
        }
    source = _joined(cell.get("source", ""))
    if kind == "heading":
        level = cell.get("level", 1)
        level = level if isinstance(level, int) and 1 <= level <= _HEADINGS else 1
        if isinstance(source, str):
            source = f"{'#' * level} {' '.join(source.splitlines())}"
    if kind in ("heading", "html"):
        kind = "markdown"
    return {"cell_type": kind, "metadata": metadata, "source": source}


def _joined(source: Any) -> Any:
    """A text: lists of lines had no line ends in these formats, where the first one has none. What is neither stays."""
    if not isinstance(source, list) or not all(isinstance(line, str) for line in source):
        return source
    return ("" if source and source[0].endswith(("\n", "\r")) else "\n").join(source)
