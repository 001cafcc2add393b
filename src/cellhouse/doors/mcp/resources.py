"""Resources: results, whole texts, rich outputs and files under `cellhouse://…`, each read within a bound."""

import mimetypes
from base64 import b64encode
from typing import Final

from mcp import types

from cellhouse.doors.callers import Scope
from cellhouse.doors.mcp.guest import Guest
from cellhouse.doors.mcp.images import SHRINKABLE
from cellhouse.doors.mcp.uris import (
    EXECUTION,
    FILE,
    OUTPUT,
    TEXT,
    AnyUri,
    ExecutionUri,
    FileUri,
    OutputUri,
    TextUri,
    file_uri,
    parse_uri,
)
from cellhouse.model import CallReason, CellhouseError, InvalidArgument, NotFound, plain_text

READ_BYTES: Final = 1 << 20
"""Of one resource, before base64."""
LISTED: Final = 200
RUNTIMES: Final = 20
"""Whose files are listed."""
_OCTETS: Final = "application/octet-stream"

TEMPLATES: Final = (
    types.ResourceTemplate(
        uri_template=EXECUTION,
        name="execution",
        title="Result of an execution",
        description="The whole ExecuteCodeResult, or the snapshot while it runs.",
        mime_type="application/json",
    ),
    types.ResourceTemplate(
        uri_template=TEXT,
        name="text",
        title="A text of an execution",
        description="The whole stdout, stderr, result or traceback as it was sent; or limit bytes of it from offset on.",
        mime_type="text/plain",
    ),
    types.ResourceTemplate(
        uri_template=OUTPUT,
        name="rich-output",
        title="A rich output",
        description="One representation of what an execution displayed: the one asked for, else an image, else the first.",
    ),
    types.ResourceTemplate(
        uri_template=FILE,
        name="file",
        title="A file",
        description="A file of /content of a runtime.",
    ),
)


async def listed(guest: Guest) -> list[types.Resource]:
    """The files that lie at the top of /content of each runtime, as many as may be; all else is found by its template."""
    guest.caller.require(Scope.READ)
    found: list[types.Resource] = []
    for runtime in (await guest.place.page_runtimes(page_size=RUNTIMES)).runtimes:
        try:
            files = (await guest.place.list_files(runtime.name)).files
        except NotFound:  # it has just gone
            continue
        for file in files:
            if file.kind == "file" and len(found) < LISTED:
                found.append(
                    types.Resource(
                        uri=file_uri(runtime.name, file.name),
                        name=file.name,
                        description=f"/content/{file.name} of {runtime.name}",
                        mime_type=mimetypes.guess_type(file.name)[0],
                        size=file.bytes,
                    )
                )
    return found


async def read(guest: Guest, uri: str) -> types.ReadResourceResult:
    """Its content. INVALID_ARGUMENT where it is larger than is read at once, with what reads it by parts."""
    guest.caller.require(Scope.READ)
    return types.ReadResourceResult(contents=[await _content(guest, uri, parse_uri(uri))])


async def _content(
    guest: Guest, uri: str, named: AnyUri
) -> types.TextResourceContents | types.BlobResourceContents:
    place = guest.place
    match named:
        case ExecutionUri(execution):
            text = (await place.get_execution(execution)).to_json()
            return _text(uri, text, "application/json")
        case TextUri(execution, stream, offset, limit):
            part = await place.read_text(
                execution, stream, offset=offset, limit=min(limit or READ_BYTES, READ_BYTES)
            )
            if limit is None and part.next_offset < part.total_bytes:
                raise _too_large(
                    uri, part.total_bytes, "give offset and limit in its URI, or use read_output"
                )
            return _text(uri, part.text, "text/plain; charset=utf-8")
        case OutputUri(execution, index, mime_type):
            if not mime_type:
                there = (await place.get_rich_output(execution, index)).mime_types
                mime_type = next((kind for kind in SHRINKABLE if kind in there), there[0])
            data = (await place.get_output_data(execution, index, mime_type)).data
            if len(data) > READ_BYTES:
                raise _too_large(uri, len(data), "read_rich_output scales an image down, and cuts text")
            return _bytes(uri, data, mime_type)
        case FileUri(runtime, path):
            part_of_file = await place.read_file(runtime, path, offset=0, limit=READ_BYTES)
            if part_of_file.total > READ_BYTES:
                raise _too_large(uri, part_of_file.total, "use read_file with offset and limit")
            return _bytes(uri, part_of_file.data, mimetypes.guess_type(path)[0] or _OCTETS)


def _bytes(uri: str, data: bytes, mime_type: str) -> types.TextResourceContents | types.BlobResourceContents:
    if (
        mime_type.startswith("text/")
        or mime_type in ("application/json", "image/svg+xml")
        or mime_type.endswith("+json")
    ):
        try:
            return _text(uri, data.decode(), mime_type)
        except UnicodeDecodeError:
            pass  # it is not what it is called
    return types.BlobResourceContents(uri=uri, mime_type=plain_text(mime_type), blob=b64encode(data).decode())


def _text(uri: str, text: str, mime_type: str) -> types.TextResourceContents:
    return types.TextResourceContents(uri=uri, mime_type=plain_text(mime_type), text=plain_text(text))


def _too_large(uri: str, size: int, remedy: str) -> CellhouseError:
    return InvalidArgument.of_field(
        "uri",
        f"{uri[:200]!a} has {size:,} bytes, more than the {READ_BYTES:,} that are read at once; {remedy}",
        reason=CallReason.BODY_TOO_LARGE,
    )
