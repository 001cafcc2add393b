"""Results of tools: a document with its words for a model, or an error that says what to do next."""

import json
from typing import Any, Final

from mcp import types

from cellhouse.model import CellhouseError, Wire, plain_text

ERROR: Final = "cellhouse/error"
"""Key in `_meta` of a result that is an error: the error as REST tells it, without the partial result."""

Links = list[types.ResourceLink]


def told(
    document: Wire | dict[str, Any], text: str | None = None, links: Links | None = None
) -> types.CallToolResult:
    """A document as `structuredContent`; its text is its JSON where no other is given."""
    structured = document if isinstance(document, dict) else document.to_wire()
    words = compact(structured) if text is None else text
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=words), *(links or ())], structured_content=structured
    )


def refused(error: CellhouseError, *, text: str | None = None) -> types.CallToolResult:
    """An error of the call. With a partial result, that is the `structuredContent`: it has the shape that the tool promises."""
    body = error.to_wire()["error"]
    partial = body.pop("partialResult", None)
    words = text or f"{error.status}: {error.message}"
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=words)],
        structured_content=partial,
        is_error=True,
        _meta={ERROR: body},
    )


def compact(document: Any) -> str:
    """JSON for reading, without escapes that nobody needs."""
    return plain_text(json.dumps(document, ensure_ascii=False, separators=(", ", ": ")))


def call(tool: str, **arguments: Any) -> str:
    """How a call is written for a model: the tool's name and its arguments."""
    return f"{tool} {compact(arguments)}"


def one_line(text: str, limit: int = 160) -> str:
    """Words from hostile code, on one line and within `limit` characters."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def amount(count: int, unit: str) -> str:
    return f"{count:,} {unit}" if count == 1 else f"{count:,} {unit}s"
