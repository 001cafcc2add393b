"""A notebook made harmless for a page: each output as one thing that neither runs nor asks anybody for anything.

Pictures stand as `data:` URLs, HTML in an `<iframe sandbox>` of its own, all else as text.
"""

import base64
import html
import re
from typing import Any, Final, Literal

from cellhouse.notebooks.notes import MARK, NotebookOutput, note, types_of
from cellhouse.notebooks.text import coloured, plain

Target = Literal["html", "md"]

_PICTURES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif")
_BY_TEMPLATE: Final = ("image/png", "image/jpeg")
_AS_TEXT: Final = ("text/markdown", "text/latex")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_SCRIPT: Final = re.compile(r"<script\b", re.IGNORECASE)
_FRAME: Final = (
    '<iframe sandbox="" title="HTML output" style="width: 100%; height: {height}px; resize: vertical; border: 1px solid #ddd" '
    'srcdoc="{document}"></iframe>'
)
_LINE_PIXELS: Final = 28
# nbconvert colours text in a time that is their product, and holds each coloured piece as an object.
COLOURS: Final = 20_000
"""Colour sequences of one page."""
COLOUR_WORK: Final = 10**9
"""Colour sequences times characters of one text."""
COLOURED_CODE: Final = 100_000
"""Characters of code of one page that are highlighted."""
_FENCE: Final = re.compile(r"`{3,}")


def tamed(notebook: dict[str, Any], target: Target) -> None:
    """Changes the notebook in place."""
    taming = _Taming(target)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            taming.cell(cell)


class _Taming:
    """What of a page's room for colours is left."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._colours = COLOURS
        self._code = COLOURED_CODE

    def cell(self, cell: dict[str, Any]) -> None:
        source = cell["source"] = plain(cell["source"])
        longest = max((len(found[0]) for found in _FENCE.finditer(source)), default=2)
        cell["metadata"] = {"fence": "`" * (longest + 1), "highlit": len(source) <= self._code}
        if len(source) <= self._code:
            self._code -= len(source)
        cell["outputs"] = [each for output in cell["outputs"] for each in self._output(output)]

    def _text(self, text: str) -> str:
        """Without colours where there is no room for so many."""
        if self._target == "html":
            count = text.count("\x1b[")
            if count <= self._colours and count * len(text) <= COLOUR_WORK:
                self._colours -= count
                return coloured(text)
        return plain(text)

    def _output(self, output: NotebookOutput) -> list[NotebookOutput]:
        if output["output_type"] == "stream":
            return [{**output, "text": self._text(output["text"])}]
        if output["output_type"] == "error":
            return [{**output, "traceback": [self._text(line) for line in output["traceback"]]}]
        data: dict[str, Any] = output["data"]
        picked = self._page_data(data) if self._target == "html" else self._text_data(data)
        notes = [] if MARK in output["metadata"] else _missed(data, picked, self._target)
        if picked is None:
            return notes
        # What of metadata a template puts into a tag is the code's, and stays out.
        return [{**output, "data": picked, "metadata": {}}, *notes]

    def _page_data(self, data: dict[str, Any]) -> dict[str, str] | None:
        if (picture := _picture(data)) is not None:
            return picture
        if "image/svg+xml" in data:
            encoded = base64.b64encode(data["image/svg+xml"].encode()).decode()
            return {"text/html": f'<img alt="SVG output" src="data:image/svg+xml;base64,{encoded}" />'}
        if "text/html" in data:
            document: str = data["text/html"]
            lines = document.count("\n") + document.count("<tr") + document.count("<br")
            height = min(600, max(60, _LINE_PIXELS * (lines + 2)))
            return {
                "text/html": _FRAME.format(
                    height=height, document=html.escape(document.replace("\x00", "\ufffd"))
                )
            }
        return self._as_text(data)

    def _text_data(self, data: dict[str, Any]) -> dict[str, str] | None:
        picture = _picture(data)
        if picture is not None and "text/html" not in picture:
            return picture
        return self._as_text(data) or self._as_text({"text/plain": data.get("text/html")})

    def _as_text(self, data: dict[str, Any]) -> dict[str, str] | None:
        for name in ("text/plain", *_AS_TEXT):
            if isinstance(text := data.get(name), str):
                return {"text/plain": self._text(text)}
        return None


def _missed(data: dict[str, Any], picked: dict[str, str] | None, target: Target) -> list[NotebookOutput]:
    """What a reader can't see of an output that is shown otherwise, or not at all."""
    rich = [name for name in data if name not in ("text/plain", *_AS_TEXT)]
    if picked is None:
        return [note("format", f"rich output ({types_of(data)}) is not shown here; the notebook has it")]
    if rich and "text/plain" in picked:
        return [note("format", f"shown as text; the notebook has it as {types_of(rich)}")]
    if target == "html" and "<iframe" in picked.get("text/html", "") and _SCRIPT.search(data["text/html"]):
        return [note("format", "scripts of this output don't run here; --active lets them")]
    return []


def _picture(data: dict[str, Any]) -> dict[str, str] | None:
    for name in _PICTURES:
        encoded = "".join(data.get(name, "").split())
        if _BASE64.fullmatch(encoded):
            if name in _BY_TEMPLATE:
                return {name: encoded}
            return {"text/html": f'<img alt="{name}" src="data:{name};base64,{encoded}" />'}
    return None
