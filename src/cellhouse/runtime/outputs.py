"""Rich outputs read back: the bundle of one, or one representation of it decoded."""

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from cellhouse.files import FileError, HostileDir
from cellhouse.journal import ExecutionLog
from cellhouse.model import CallReason, ExecuteCodeResult, NotFound, RichOutput

CONTENT = "/content/"
MAX_BUNDLE_BYTES = 80 << 20
"""A bundle is at most 64 MiB of kernel output and its JSON frame; a file that the code made larger is refused."""
Latest = tuple[int, str]
"""Revision and SHA-256 of an output as it was written last, as far as the journal knows."""
_JSON = "application/json"
_TEXTUAL = ("text/", "image/svg+xml", "application/javascript", "application/xml")


@dataclass(frozen=True, slots=True)
class OutputData:
    """One representation: its bytes, its MIME type, and whether the file is still what was written."""

    mime_type: str
    data: bytes
    modified: bool


def rich_output(result: ExecuteCodeResult, latest: Latest, content: HostileDir, index: int) -> RichOutput:
    """The output's own resource: current size, revision, whether the code changed the file since."""
    entry = _entry(result, index)
    if entry.error_info is not None:
        return entry
    raw = _read(result, content, entry)
    revision, digest = latest
    return entry.model_copy(
        update={
            "size_bytes": len(raw),
            "revision": revision or None,
            "modified": True if digest and digest != hashlib.sha256(raw).hexdigest() else None,
        }
    )


def bundle(result: ExecuteCodeResult, content: HostileDir, index: int) -> dict[str, Any]:
    """The nbformat output in the file. NotFound where it was dropped, removed, or is no JSON any more."""
    return _document(_read(result, content, _entry(result, index)), result, index)


def _document(raw: bytes, result: ExecuteCodeResult, index: int) -> dict[str, Any]:
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise _missing(result, index, "its file is no JSON object any more: the code changed it")
    return document


def output_data(
    result: ExecuteCodeResult, latest: Latest, content: HostileDir, index: int, mime_type: str
) -> OutputData:
    """One representation, decoded: base64 for binary types, text as UTF-8, JSON as JSON."""
    raw = _read(result, content, _entry(result, index))
    document = _document(raw, result, index)
    data = document.get("data")
    if not isinstance(data, dict) or mime_type not in data:
        have = ", ".join(sorted(data)) if isinstance(data, dict) else "none"
        raise _missing(result, index, f"it has no representation {mime_type!r}; it has: {have}")
    _, digest = latest
    modified = bool(digest) and digest != hashlib.sha256(raw).hexdigest()
    return OutputData(mime_type, _decode(data[mime_type], mime_type), modified)


def _decode(value: object, mime_type: str) -> bytes:
    if mime_type == _JSON or mime_type.endswith("+json"):
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")
    text = "".join(map(str, value)) if isinstance(value, list) else str(value)
    if mime_type.startswith(_TEXTUAL) or mime_type.endswith("+xml"):
        return text.encode("utf-8", "backslashreplace")
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return text.encode("utf-8", "backslashreplace")


def _entry(result: ExecuteCodeResult, index: int) -> RichOutput:
    if not 0 <= index < len(result.rich_outputs):
        raise _missing(result, index, f"there are {len(result.rich_outputs)} outputs, numbered from 0")
    return result.rich_outputs[index]


def _read(result: ExecuteCodeResult, content: HostileDir, entry: RichOutput) -> bytes:
    if entry.file_path is None:
        reason = entry.error_info.reason if entry.error_info else "dropped"
        raise _missing(result, entry.index, f"it was dropped: {reason}")
    try:
        return content.read(entry.file_path.removeprefix(CONTENT), MAX_BUNDLE_BYTES)
    except (OSError, FileError) as error:
        raise _missing(result, entry.index, f"its file is gone or no longer readable ({error})") from None


def latest_of(log: ExecutionLog, index: int) -> Latest:
    """The newest revision and digest that the journal knows of this output."""
    revision, digest = 0, ""
    for note in [*log.notes("bundle"), *log.notes("revision")]:
        if note.get("index") == index and int(note.get("revision", 0) or 0) >= revision:
            revision, digest = int(note.get("revision", 0) or 0), str(note.get("sha256", ""))
    return revision, digest


def _missing(result: ExecuteCodeResult, index: int, why: str) -> NotFound:
    return NotFound(f"rich output {index} of {result.execution}: {why}", reason=CallReason.NO_SUCH_OUTPUT)
