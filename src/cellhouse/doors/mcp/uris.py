"""Names of resources: `cellhouse://` and the name of the thing itself."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from cellhouse.doors.mcp.place import TextName
from cellhouse.model import ExecutionName, InvalidArgument, RuntimeName

SCHEME: Final = "cellhouse"
URI_CHARS: Final = 8_192
TEXTS: Final[tuple[TextName, ...]] = ("stdout", "stderr", "result", "traceback")

EXECUTION: Final = "cellhouse://runtimes/{runtime}/sessions/{session}/executions/{execution}"
TEXT: Final = EXECUTION + "/{stream}{?offset,limit}"
OUTPUT: Final = EXECUTION + "/richOutputs/{index}{?mimeType}"
FILE: Final = "cellhouse://runtimes/{runtime}/files/{+path}"


@dataclass(frozen=True, slots=True)
class ExecutionUri:
    """The result of an execution."""

    execution: str


@dataclass(frozen=True, slots=True)
class TextUri:
    """A whole text of an execution, or a part of it in bytes."""

    execution: str
    stream: TextName
    offset: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class OutputUri:
    """A rich output, in one representation or the best one."""

    execution: str
    index: int
    mime_type: str = ""


@dataclass(frozen=True, slots=True)
class FileUri:
    """A file of /content."""

    runtime: str
    path: str


AnyUri = ExecutionUri | TextUri | OutputUri | FileUri


def execution_uri(execution: str) -> str:
    return f"{SCHEME}://{execution}"


def text_uri(execution: str, stream: TextName) -> str:
    return f"{SCHEME}://{execution}/{stream}"


def output_uri(execution: str, index: int, mime_type: str) -> str:
    return f"{SCHEME}://{execution}/richOutputs/{index}?mimeType={quote(mime_type, safe='')}"


def file_uri(runtime: str, path: str) -> str:
    return f"{SCHEME}://{runtime}/files/{quote(path)}"


def parse_uri(uri: str) -> AnyUri:
    """INVALID_ARGUMENT where it names none of what there is."""
    if not uri.startswith(f"{SCHEME}://") or len(uri) > URI_CHARS:
        raise _unknown(uri)
    try:
        parts = urlsplit(uri)
        name = f"{parts.netloc}{parts.path}"
        query = dict(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=8))
    except ValueError:
        raise _unknown(uri) from None
    segments = name.split("/")
    if segments[2:3] == ["files"] and len(segments) > 3:
        runtime = str(RuntimeName.parse("/".join(segments[:2])))
        return FileUri(runtime, unquote("/".join(segments[3:]), errors="surrogateescape"))
    execution = "/".join(segments[:6])
    ExecutionName.parse(execution)
    match segments[6:]:
        case []:
            return ExecutionUri(execution)
        case ["stdout" | "stderr" | "result" | "traceback" as stream]:
            return TextUri(execution, stream, _number(query, "offset") or 0, _number(query, "limit"))
        case ["richOutputs", index] if index.isascii() and index.isdecimal() and len(index) < 10:
            return OutputUri(execution, int(index), query.get("mimeType", ""))
    raise _unknown(uri)


def _number(query: dict[str, str], field: str) -> int | None:
    value = query.get(field)
    if value is None:
        return None
    if not (value.isascii() and value.isdecimal() and len(value) < 17):
        raise InvalidArgument.of_field(field, f"{value[:40]!a} is no whole number of bytes")
    return int(value)


def _unknown(uri: str) -> InvalidArgument:
    return InvalidArgument.of_field(
        "uri",
        f"{uri[:200]!a} names nothing here; resources are {EXECUTION}, {TEXT}, {OUTPUT} and {FILE}",
    )
