"""What the exporter itself has to say, in its place among the outputs."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from cellhouse.model import ErrorInfo, ExecuteCodeResult
from cellhouse.notebooks.text import quoted

MARK: Final = "cellhouse"
"""The key in an output's metadata by which a note is known; taken out of what code displays."""

NotebookOutput = dict[str, Any]
"""An output as nbformat 4 has it."""


def note(kind: str, text: str, **figures: object) -> NotebookOutput:
    """An output of ours. `text` may quote hostile text: it is one line of print in brackets."""
    return {
        "output_type": "display_data",
        "data": {"text/plain": f"[{quoted(text)}]"},
        "metadata": {MARK: {"note": kind, **figures}},
    }


def left_out(what: str, size: int, unit: str, why: str) -> NotebookOutput:
    """For output that is somewhere, and not here."""
    return note("omitted", f"… {size:,} {unit} of {what} not shown: {why}", omitted=size, unit=unit)


def types_of(mime_types: Iterable[str]) -> str:
    return ", ".join(quoted(name, 100) for name in mime_types)


def cause_of(info: ErrorInfo) -> str:
    """A reason with its figures."""
    return f"{info.reason}{_figures(info.metadata)}"


def _figures(metadata: Mapping[str, str]) -> str:
    return f" ({', '.join(f'{key} {value}' for key, value in metadata.items())})" if metadata else ""


def end_note(result: ExecuteCodeResult) -> NotebookOutput:
    """How it ended, where that was not by itself."""
    error, info = result.execution_error, result.outcome_info
    parts = [f"ended as {result.outcome}"]
    if error is not None and (error.value or error.name):
        parts.append(error.value or error.name)
    if info is not None:
        parts.append(f"cause {cause_of(info)}")
    if result.session_state is not None:
        parts.append(f"variables of the session: {result.session_state}")
    return note("outcome", "; ".join(parts), outcome=f"{result.outcome}")


def files_note(result: ExecuteCodeResult, most: int = 20) -> NotebookOutput | None:
    """The files that the code made; they are not in the notebook. None where there are none."""
    files = result.artifacts or ()
    if not files:
        return None
    named = [f"{quoted(file.name, 200)} ({file.bytes or 0:,} bytes)" for file in files[:most]]
    more = f" and {len(files) - most} more" if len(files) > most else ""
    return note(
        "files", f"files made in /content, not in this document: {', '.join(named)}{more}", files=len(files)
    )
